// SPDX-License-Identifier: Apache-2.0

package session

import (
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/reliable"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wire"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wrap"
)

// around is what a packet carries besides its wrapping and its payload: header,
// count of acknowledgements, acknowledgements, remote session id, message id.
const around = wire.HeaderLen + 1 + 4*reliable.MaxAcks + 8 + 4

// Outgoing returns the datagrams to send, in order, made from what is due at
// the latest time the session has heard of. They belong to the caller.
func (s *Session) Outgoing() [][]byte {
	if !s.dead {
		for _, ks := range []*keyState{s.established, s.negotiating} {
			if ks != nil {
				s.flush(ks)
			}
		}
	}
	out := s.out
	s.out = nil
	return out
}

// flush makes packets from what a key state has to send. A bare ACK is sent
// only for what no packet with a message could carry.
func (s *Session) flush(ks *keyState) {
	if s.remote.IsZero() && s.cfg.Role == Server {
		return
	}
	for len(ks.pipe.out) > 0 && ks.send.Room() > 0 {
		opcode, room := uint8(wire.ControlV1), s.room(ks.id)
		if ks.resend {
			ks.resend = false
			opcode, room = wire.ControlWKCV1, max(room-len(s.cfg.WKC), minPayload)
		}
		payload := ks.pipe.take(room)
		ks.cut += uint64(len(payload))
		id := ks.send.Push(opcode, payload)
		if ks.mark > 0 && ks.cut >= ks.mark && ks.cut-uint64(len(payload)) < ks.mark {
			ks.markID = id
		}
	}
	for {
		m, again, ok := ks.send.Due(s.now)
		if !ok {
			break
		}
		if again {
			s.counters.Repeated++
		}
		s.packet(ks, m)
	}
	for ks.recv.Pending() > 0 {
		s.packet(ks, reliable.Message{Opcode: wire.AckV1})
	}
}

// packet makes one datagram.
func (s *Session) packet(ks *keyState, m reliable.Message) {
	body := wire.Body{Remote: s.remote, ID: m.ID, Payload: m.Payload}
	body.NAcks = ks.recv.Acks(body.Acks[:])
	w := s.wrapping(ks.id)
	size := around + len(m.Payload)
	plain := body.Append(m.Opcode, make([]byte, 0, size))
	h := wire.Header{Opcode: m.Opcode, KeyID: ks.id, Session: s.cfg.Local}
	extra := 0
	if m.Opcode == wire.ControlHardResetClientV3 || m.Opcode == wire.ControlWKCV1 {
		extra = len(s.cfg.WKC)
	}
	b := w.Seal(make([]byte, 0, size+w.Overhead()+extra), h, plain, s.now)
	if extra > 0 {
		b = append(b, s.cfg.WKC...)
	}
	s.counters.Out++
	s.counters.BytesOut += uint64(len(b))
	s.out = append(s.out, b)
}

// room returns how many bytes of payload fit into a packet under a key id.
func (s *Session) room(keyID uint8) int {
	return max(s.cfg.MaxPacket-around-s.wrapping(keyID).Overhead(), minPayload)
}

// wrapping returns the wrapping for packets under a key id.
func (s *Session) wrapping(keyID uint8) *wrap.Wrap {
	if keyID > 0 && s.dynamic != nil {
		return s.dynamic
	}
	return s.cfg.Wrap
}
