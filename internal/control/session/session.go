// SPDX-License-Identifier: Apache-2.0

package session

import (
	"crypto/tls"
	"errors"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/reliable"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wire"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wrap"
)

// Session is one session. It is not safe for concurrent use; any goroutine may
// use it in turn.
//
// The order of a round is: Datagram, Tick and other calls; Events, and what
// follows from them; Outgoing; Next.
type Session struct {
	cfg     Config
	now     time.Time // the latest that was heard of
	remote  wire.SessionID
	dynamic *wrap.Wrap // for key ids > 0; nil until UseDynamicWrap

	established *keyState // control messages go here; nil until the first key is established
	negotiating *keyState // newer; nil if there is none
	last        uint8     // the newest key id that was used
	ready       bool      // the first key was established
	dead        bool      // the first key failed, or Close

	wantReset time.Time // a soft reset is to be sent by then; zero: none
	held      []string  // control messages for the key state being negotiated
	heldBytes int

	out      [][]byte
	events   []Event
	texts    int // Message events among them
	counters Counters
}

// New starts a session at now. Close must be called in the end.
func New(cfg Config, now time.Time) *Session {
	cfg.defaults()
	s := &Session{cfg: cfg, now: now, remote: cfg.Remote}
	ks := s.open(0, cfg.NextSend, cfg.NextRecv)
	if cfg.SendReset {
		opcode := uint8(wire.ControlHardResetServerV2)
		switch {
		case cfg.Role == Client && cfg.WKC != nil:
			opcode = wire.ControlHardResetClientV3
			cfg.Wrap.SetNextID(firstV2ID)
		case cfg.Role == Client:
			opcode = wire.ControlHardResetClientV2
		case cfg.NextRecv > 0:
			ks.recv.Acknowledge(0) // the client's reset, which nobody has acknowledged
		}
		ks.send.Push(opcode, nil)
	}
	return s
}

// open makes the key state that is negotiated from now on.
func (s *Session) open(id uint8, nextSend, nextRecv uint32) *keyState {
	timeout := s.cfg.Timeout
	if s.cfg.Stream {
		timeout = 0
	}
	s.negotiating = &keyState{
		id:       id,
		deadline: s.now.Add(s.cfg.HandWindow),
		send:     reliable.NewSender(nextSend, timeout, s.cfg.HandWindow),
		recv:     reliable.NewReceiver(nextRecv),
	}
	s.last = id
	return s.negotiating
}

// find returns the key state with a key id, nil if there is none.
func (s *Session) find(keyID uint8) *keyState {
	for _, ks := range []*keyState{s.negotiating, s.established} {
		if ks != nil && ks.id == keyID {
			return ks
		}
	}
	return nil
}

// Local and Remote return the session ids; a client's Remote is zero until the
// server's reset is there.
func (s *Session) Local() wire.SessionID { return s.cfg.Local }

// Remote returns the peer's session id, see Local.
func (s *Session) Remote() wire.SessionID { return s.remote }

// Counters returns the counters as they are.
func (s *Session) Counters() Counters { return s.counters }

// Tick does what is due at now. Time does not go backwards: an earlier now
// counts as the latest one before.
func (s *Session) Tick(now time.Time) {
	s.clock(now)
	if s.dead {
		return
	}
	if ks := s.negotiating; ks != nil && !s.now.Before(ks.deadline) {
		s.fail(ks, ErrTimeout)
	}
	s.resetIfIdle()
}

func (s *Session) clock(now time.Time) {
	if now.After(s.now) {
		s.now = now
	}
}

// Next returns when Tick is wanted next; zero: not before the next datagram or
// call. It holds after Outgoing; what waits to be fetched there makes it the
// latest time that the session has heard of.
func (s *Session) Next() (next time.Time) {
	if s.dead {
		return time.Time{}
	}
	soonest := func(t time.Time) {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	for _, ks := range []*keyState{s.established, s.negotiating} {
		if ks == nil {
			continue
		}
		soonest(ks.send.Next(s.now))
		soonest(ks.deadline)
		if ks.recv.Pending() > 0 || len(ks.pipe.out) > 0 && ks.send.Room() > 0 {
			soonest(s.now)
		}
	}
	soonest(s.wantReset)
	return next
}

// Events returns what happened since the last call, in order.
func (s *Session) Events() []Event {
	e := s.events
	s.events, s.texts = nil, 0
	return e
}

// fail gives a key state up. What TLS has to say to the peer about it is made
// into packets first.
func (s *Session) fail(ks *keyState, err error) {
	s.flush(ks)
	s.events = append(s.events, Event{Type: Failed, KeyID: ks.id, Err: err})
	if ks.id == 0 {
		s.dead = true
	}
	if ks == s.negotiating && !ks.heard {
		s.last = ks.before // the peer has not heard of this key id
	}
	ks.free()
	switch ks {
	case s.negotiating:
		s.negotiating = nil
		s.sendHeld()
	case s.established:
		s.established = nil
	}
}

// Forget frees the key state with a key id, if there is one; nothing can be
// sent or received under that id any more. The peer is not told.
func (s *Session) Forget(keyID uint8) {
	for _, ks := range []**keyState{&s.negotiating, &s.established} {
		if *ks != nil && (*ks).id == keyID {
			(*ks).free()
			*ks = nil
		}
	}
	s.sendHeld()
}

// Close frees everything. What was made for the peer before stays in Outgoing,
// what happened before in Events; datagrams that come later are dropped. It may
// be called more than once.
func (s *Session) Close() {
	if !s.dead {
		for _, ks := range []*keyState{s.established, s.negotiating} {
			if ks != nil {
				s.flush(ks)
			}
		}
	}
	s.dead = true
	for _, ks := range []*keyState{s.established, s.negotiating} {
		if ks != nil {
			ks.free()
		}
	}
	s.established, s.negotiating, s.held, s.wantReset = nil, nil, nil, time.Time{}
}

// tlsConfig returns the configuration of one handshake.
func (s *Session) tlsConfig(keyID uint8) (*tls.Config, error) {
	cfg := s.cfg.TLS
	if s.cfg.NewTLS != nil {
		var err error
		if cfg, err = s.cfg.NewTLS(keyID); err != nil {
			return nil, err
		}
	}
	if cfg == nil {
		return nil, errors.New("no tls configuration")
	}
	return cfg, nil
}
