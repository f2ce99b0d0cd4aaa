// SPDX-License-Identifier: Apache-2.0

package session

import (
	"errors"
	"fmt"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/reliable"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wire"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wrap"
)

// Datagram takes a datagram, without the length prefix of TCP, that came at
// now. b is borrowed until the return and may be changed. Whether the datagram
// came from the right address is the owner's to check.
func (s *Session) Datagram(b []byte, now time.Time) {
	s.clock(now)
	s.counters.In++
	s.counters.BytesIn += uint64(len(b))
	if s.dead {
		s.counters.DropClosed++
		return
	}
	if len(b) > maxDatagram {
		s.counters.DropMalformed++
		return
	}
	scratch := plaintexts.Get().(*[]byte)
	defer plaintexts.Put(scratch)
	h, body, ok := s.unwrap(b, *scratch)
	if !ok {
		return
	}
	ks := s.receiver(h, &body)
	if ks == nil {
		return
	}
	s.acknowledged(ks, &body)
	if h.Opcode != wire.AckV1 {
		switch ks.recv.Push(body.ID, h.Opcode, body.Payload) {
		case reliable.Duplicate:
			s.counters.Duplicates++
		case reliable.Ahead:
			s.counters.DropWindow++
		}
	}
	if err := s.advance(ks); err != nil {
		s.fail(ks, err)
	}
	if !s.dead {
		s.resetIfIdle()
	}
}

// unwrap authenticates a datagram and takes it apart. The body's payload lies
// in b or in scratch.
func (s *Session) unwrap(b, scratch []byte) (h wire.Header, body wire.Body, ok bool) {
	h, ok = wire.ParseHeader(b)
	if !ok {
		s.counters.DropMalformed++
		return h, body, false
	}
	if h.Session != s.remote && !(s.remote.IsZero() && h.Opcode == wire.ControlHardResetServerV2) {
		s.counters.DropSession++
		return h, body, false
	}
	if h.Opcode == wire.ControlHardResetClientV3 || h.Opcode == wire.ControlWKCV1 {
		// The key in the packet is the one that Wrap was made from. The first
		// packet, which comes from the owner, has lost it already.
		if packet, _, err := wrap.SplitWKC(b); err == nil {
			b = packet
		}
	}
	var plain []byte
	var err error
	h, plain, err = s.wrapping(h.KeyID).Open(scratch, b, s.now)
	switch {
	case errors.Is(err, wrap.ErrReplay):
		s.counters.DropReplay++
		return h, body, false
	case errors.Is(err, wrap.ErrAuth):
		s.counters.DropAuth++
		return h, body, false
	case err != nil:
		s.counters.DropMalformed++
		return h, body, false
	}
	body, err = wire.ParseBody(h.Opcode, plain)
	if err != nil {
		s.counters.DropMalformed++
		return h, body, false
	}
	if body.NAcks > 0 && body.Remote != s.cfg.Local {
		s.counters.DropSession++
		return h, body, false
	}
	return h, body, true
}

// receiver returns the key state that a packet is for, made anew if it is a
// peer's soft reset. It counts packets that are for none.
func (s *Session) receiver(h wire.Header, body *wire.Body) *keyState {
	hard := false
	switch h.Opcode {
	case wire.ControlHardResetServerV2:
		hard = true
		if s.cfg.Role == Server {
			s.counters.DropOpcode++
			return nil
		}
	case wire.ControlHardResetClientV2, wire.ControlHardResetClientV3, wire.ControlWKCV1:
		hard = h.Opcode != wire.ControlWKCV1
		if s.cfg.Role == Client || h.KeyID != 0 {
			s.counters.DropOpcode++
			return nil
		}
	}
	// Message 0 is the reset, and only that.
	if h.Opcode != wire.AckV1 && isReset(h.Opcode) != (body.ID == 0) ||
		hard != (h.KeyID == 0) && isReset(h.Opcode) {
		s.counters.DropOpcode++
		return nil
	}
	ks := s.find(h.KeyID)
	if ks == nil && h.Opcode == wire.ControlSoftResetV1 {
		ks = s.peerReset(h.KeyID)
	}
	if ks == nil {
		s.counters.DropKeyID++
		return nil
	}
	if s.remote.IsZero() {
		s.remote = h.Session
	}
	ks.heard = true
	return ks
}

// acknowledged takes a packet's acknowledgements.
func (s *Session) acknowledged(ks *keyState, body *wire.Body) {
	for _, id := range body.Acks[:body.NAcks] {
		ks.send.Acknowledge(id)
	}
	if !ks.acked && ks.mark > 0 && ks.cut >= ks.mark && int32(ks.send.Oldest()-ks.markID) > 0 {
		s.establish(ks)
	}
}

// advance does what has become possible with what was received in order.
func (s *Session) advance(ks *keyState) error {
	for {
		opcode, payload, ok := ks.recv.Pop()
		if !ok {
			break
		}
		if isReset(opcode) {
			ks.resend = ks.resend || wantsWKC(opcode, payload)
			continue
		}
		ks.pipe.in = append(ks.pipe.in, payload...)
		if ks.stage < exchanging {
			ks.received += len(payload)
		}
	}
	if ks.received > maxHandshake {
		return fmt.Errorf("negotiate tls: %w", ErrTooLong)
	}
	if ks.stage == opening && s.canBegin(ks) {
		cfg, err := s.tlsConfig(ks.id)
		if err != nil {
			return fmt.Errorf("configure tls: %w", err)
		}
		ks.begin(s.cfg.Role, cfg)
		if err := s.handshake(ks); err != nil {
			return err
		}
	} else if ks.stage == handshaking && len(ks.pipe.in) > 0 {
		if err := s.handshake(ks); err != nil {
			return err
		}
	}
	if ks.stage >= exchanging {
		return s.read(ks)
	}
	return nil
}

// canBegin reports whether TLS begins: for a server with the first bytes, so
// that whoever sends nothing more costs no TLS state; for a client, as stock
// clients do it, when both resets are through.
func (s *Session) canBegin(ks *keyState) bool {
	if s.cfg.Role == Server {
		return len(ks.pipe.in) > 0
	}
	return ks.send.Oldest() > 0 && ks.recv.Next() > 0
}

// handshake goes on with TLS, and with the exchange if that was the end of it.
func (s *Session) handshake(ks *keyState) error {
	if err := ks.handshake(s.cfg.Role == Server); err != nil {
		return err
	}
	if ks.stage == exchanging && s.cfg.Role == Client {
		return s.hello(ks, nil)
	}
	return nil
}

// wantsWKC reports whether a server's reset asks for the wrapped client key in
// the next packet.
func wantsWKC(opcode uint8, payload []byte) bool {
	if opcode != wire.ControlHardResetServerV2 {
		return false
	}
	flags, err := wire.ParseEarlyNegotiation(payload)
	return err == nil && flags&wire.ResendWKC != 0
}
