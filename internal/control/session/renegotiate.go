// SPDX-License-Identifier: Apache-2.0

package session

import (
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wire"
)

// following returns the key id after another: 0 is used once, then 1 to 7 in turn.
func following(keyID uint8) uint8 { return keyID%7 + 1 }

// Renegotiate begins to negotiate a new key at now. It reports false if that is
// under way already, or if the first key is not established. Control messages
// that the peer hasn't acknowledged get up to twice Timeout to be so before the
// soft reset is sent, since stock peers no longer take them afterwards.
func (s *Session) Renegotiate(now time.Time) bool {
	s.clock(now)
	if s.dead || !s.ready || s.negotiating != nil || !s.wantReset.IsZero() {
		return false
	}
	s.wantReset = s.now.Add(2 * s.cfg.Timeout)
	s.resetIfIdle()
	return true
}

// resetIfIdle sends the soft reset that Renegotiate wants, if it is time.
func (s *Session) resetIfIdle() {
	if s.wantReset.IsZero() {
		return
	}
	if ks := s.established; ks != nil && !ks.idle() && s.now.Before(s.wantReset) {
		return
	}
	s.softReset(following(s.last))
}

// softReset opens a key state with our soft reset.
func (s *Session) softReset(keyID uint8) *keyState {
	s.wantReset = time.Time{}
	before := s.last
	ks := s.open(keyID, 0, 0)
	ks.before = before
	ks.send.Push(wire.ControlSoftResetV1, nil)
	return ks
}

// peerReset opens a key state for a peer's soft reset, which is answered with
// one of ours. If both sides begin at once they choose the same key id, and
// each takes the other's soft reset for the answer. nil: the soft reset is none
// that could come now.
//
// The key id must follow the established one, or the newest that was tried: the
// peer may have met the end of a failed negotiation, or not even its beginning.
func (s *Session) peerReset(keyID uint8) *keyState {
	if ks := s.negotiating; ks != nil {
		// A peer goes on only when it has our message: the acknowledgement was lost.
		if ks.stage != exchanged || keyID != following(ks.id) {
			return nil
		}
		s.establish(ks)
	}
	if !s.ready {
		return nil
	}
	if keyID != following(s.last) && (s.established == nil || keyID != following(s.established.id)) {
		return nil
	}
	ks := s.softReset(keyID)
	s.events = append(s.events, Event{Type: SoftReset, KeyID: keyID})
	return ks
}

// establish notes that the peer has our key method message and everything before.
func (s *Session) establish(ks *keyState) {
	if ks.acked {
		return
	}
	ks.acked = true
	if ks.stage == exchanged {
		s.promote(ks)
	}
}

// promote makes a key state whose exchange is complete on both sides the established one.
func (s *Session) promote(ks *keyState) {
	if ks != s.negotiating {
		return
	}
	if s.established != nil {
		s.established.free()
	}
	s.established, s.negotiating = ks, nil
	ks.deadline = time.Time{}
	s.ready = true
	s.events = append(s.events, Event{Type: Acknowledged, KeyID: ks.id})
}
