// SPDX-License-Identifier: Apache-2.0

package reliable

import "time"

// Message is one numbered message. Payload is owned by the Sender; a caller may
// read it until the next call of Acknowledge.
type Message struct {
	ID      uint32
	Opcode  uint8
	Payload []byte
}

type outgoing struct {
	Message
	used    bool
	sent    bool
	later   uint8         // acknowledgements of later messages since it was last sent
	timeout time.Duration // until the next repetition after that at again
	again   time.Time
}

// Sender keeps messages until they are acknowledged and says when they are to
// be sent again: after a timeout that doubles with each repetition up to a
// limit, or at once when three later messages were acknowledged.
type Sender struct {
	first, limit time.Duration
	next         uint32 // id of the next message
	oldest       uint32 // lowest id that is not acknowledged; next if all are
	queue        [SendWindow]outgoing
}

// NewSender returns a sender whose first message gets the id next. A message is
// repeated after timeout, and after twice the time before from then on, never
// more than limit. With timeout 0 nothing is ever repeated, for transports that
// lose nothing.
func NewSender(next uint32, timeout, limit time.Duration) Sender {
	return Sender{first: timeout, limit: max(limit, timeout), next: next, oldest: next}
}

// Room returns how many messages Push takes at the moment, 0 to SendWindow.
func (s *Sender) Room() int { return SendWindow - int(s.next-s.oldest) }

// Oldest returns the lowest id that is not acknowledged, or the next id to be
// used if all are.
func (s *Sender) Oldest() uint32 { return s.oldest }

// Idle reports whether every message was acknowledged.
func (s *Sender) Idle() bool { return s.oldest == s.next }

// Push takes a message, to be sent at once, and keeps payload. It must be
// called only if there is room.
func (s *Sender) Push(opcode uint8, payload []byte) (id uint32) {
	if s.Room() <= 0 {
		panic("reliable: push into a full window")
	}
	id = s.next
	s.next++
	s.queue[id%SendWindow] = outgoing{
		Message: Message{ID: id, Opcode: opcode, Payload: payload},
		used:    true,
		timeout: s.first,
	}
	return id
}

// Acknowledge takes an acknowledgement and frees the message's payload. It
// reports whether the id was one that was waited for; repeated and senseless
// ones change nothing.
func (s *Sender) Acknowledge(id uint32) bool {
	if id-s.oldest >= s.next-s.oldest {
		return false
	}
	m := &s.queue[id%SendWindow]
	if !m.used || !m.sent {
		return false
	}
	*m = outgoing{}
	for i := s.oldest; i != id; i++ {
		if e := &s.queue[i%SendWindow]; e.used && e.later < laterAcks {
			e.later++
		}
	}
	for s.oldest != s.next && !s.queue[s.oldest%SendWindow].used {
		s.oldest++
	}
	return true
}

// Due returns the next message that is to be sent at now, in order of ids, and
// counts it as sent at now. again says that it was sent before. ok is false if
// there is none.
func (s *Sender) Due(now time.Time) (m Message, again, ok bool) {
	for i := s.oldest; i != s.next; i++ {
		e := &s.queue[i%SendWindow]
		if !e.used || !e.due(s.first, now) {
			continue
		}
		again = e.sent
		// A message that was lost although others got through says nothing
		// about the time that an acknowledgement takes.
		if again && e.later < laterAcks {
			e.timeout = min(2*e.timeout, s.limit)
		}
		e.sent, e.later, e.again = true, 0, now.Add(e.timeout)
		return e.Message, again, true
	}
	return Message{}, false, false
}

func (e *outgoing) due(first time.Duration, now time.Time) bool {
	if !e.sent {
		return true
	}
	return first > 0 && (e.later >= laterAcks || !now.Before(e.again))
}

// Next returns when Due will have something, now if it has; zero if nothing
// will become due without a Push.
func (s *Sender) Next(now time.Time) (next time.Time) {
	for i := s.oldest; i != s.next; i++ {
		e := &s.queue[i%SendWindow]
		if !e.used {
			continue
		}
		if e.due(s.first, now) {
			return now
		}
		if s.first > 0 && (next.IsZero() || e.again.Before(next)) {
			next = e.again
		}
	}
	return next
}
