// SPDX-License-Identifier: Apache-2.0

package reliable

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

var start = time.Unix(1_700_000_000, 0)

func due(s *Sender, now time.Time) (ids []uint32) {
	for {
		m, _, ok := s.Due(now)
		if !ok {
			return ids
		}
		ids = append(ids, m.ID)
	}
}

func push(s *Sender, n int) {
	for range n {
		s.Push(4, nil)
	}
}

func TestSenderWindow(t *testing.T) {
	s := NewSender(1, time.Second, time.Minute)
	push(&s, SendWindow)
	if s.Room() != 0 {
		t.Fatalf("room %d in a full window", s.Room())
	}
	if got := due(&s, start); !slices.Equal(got, []uint32{1, 2, 3, 4, 5, 6}) {
		t.Fatalf("sent %v", got)
	}
	for _, id := range []uint32{0, 7, 1 << 31, 1<<32 - 1} {
		if s.Acknowledge(id) {
			t.Errorf("took an acknowledgement of %d", id)
		}
	}
	// The window moves with its oldest id, not with the number of free places.
	if !s.Acknowledge(3) || s.Room() != 0 || s.Oldest() != 1 {
		t.Errorf("room %d, oldest %d", s.Room(), s.Oldest())
	}
	if s.Acknowledge(3) {
		t.Error("took an acknowledgement twice")
	}
	if !s.Acknowledge(1) || !s.Acknowledge(2) || s.Room() != 3 || s.Oldest() != 4 {
		t.Errorf("room %d, oldest %d", s.Room(), s.Oldest())
	}
	defer func() {
		if recover() == nil {
			t.Error("push into a full window passed")
		}
	}()
	push(&s, 4)
}

func TestSenderIgnoresAcksOfUnsentMessages(t *testing.T) {
	s := NewSender(0, time.Second, time.Minute)
	push(&s, 1)
	if s.Acknowledge(0) {
		t.Error("took an acknowledgement of a message that was never sent")
	}
	if due(&s, start); !s.Acknowledge(0) || !s.Idle() {
		t.Error("message is not acknowledged")
	}
}

func TestSenderRepeatsWithDoublingTimeout(t *testing.T) {
	s := NewSender(0, 2*time.Second, 9*time.Second)
	push(&s, 1)
	if next := s.Next(start); !next.Equal(start) {
		t.Fatalf("a new message is due at %v", next)
	}
	due(&s, start)
	now := start
	for _, wait := range []time.Duration{2, 4, 8, 9, 9} {
		next := s.Next(now)
		if next.Sub(now) != wait*time.Second {
			t.Fatalf("waits %v, not %d s", next.Sub(now), wait)
		}
		if got := due(&s, next.Add(-1)); got != nil {
			t.Fatalf("sent %v early", got)
		}
		m, again, ok := s.Due(next)
		if !ok || !again || m.ID != 0 {
			t.Fatalf("repetition is %v, %v, %v", m.ID, again, ok)
		}
		now = next
	}
	s.Acknowledge(0)
	if !s.Next(now).IsZero() {
		t.Error("something is due though all is acknowledged")
	}
}

func TestSenderOfStreamRepeatsNothing(t *testing.T) {
	s := NewSender(0, 0, time.Minute)
	push(&s, 5)
	due(&s, start)
	for id := range uint32(4) {
		s.Acknowledge(id + 1)
	}
	if got := due(&s, start.Add(time.Hour)); got != nil || !s.Next(start).IsZero() {
		t.Errorf("sent %v again", got)
	}
}

func TestSenderRepeatsAtOnceAfterThreeLaterAcks(t *testing.T) {
	s := NewSender(0, 2*time.Second, time.Minute)
	push(&s, 6)
	due(&s, start)
	now := start.Add(time.Millisecond)
	s.Acknowledge(2)
	s.Acknowledge(2) // a repeat doesn't count
	s.Acknowledge(3)
	if got := due(&s, now); got != nil {
		t.Fatalf("sent %v after two acknowledgements", got)
	}
	s.Acknowledge(4)
	if next := s.Next(now); !next.Equal(now) {
		t.Errorf("next is %v", next)
	}
	if got := due(&s, now); !slices.Equal(got, []uint32{0, 1}) {
		t.Errorf("sent %v after three acknowledgements", got)
	}
	// It counts anew, and the timeout has not grown.
	if next := s.Next(now); !next.Equal(start.Add(2 * time.Second)) {
		t.Errorf("next is %v", next.Sub(start)) // of message 5
	}
	s.Acknowledge(5)
	if next := s.Next(now); !next.Equal(now.Add(2 * time.Second)) {
		t.Errorf("next is %v", next.Sub(start))
	}
}

func TestReceiverOrders(t *testing.T) {
	r := NewReceiver(0)
	payload := []byte("b")
	steps := []struct {
		id   uint32
		want Verdict
	}{
		{1, Accepted}, {1, Duplicate}, {11, Accepted}, {12, Ahead}, {1 << 31, Ahead}, {0, Accepted}, {0, Duplicate},
	}
	for _, s := range steps {
		if got := r.Push(s.id, 4, payload); got != s.want {
			t.Errorf("message %d: %d, not %d", s.id, got, s.want)
		}
	}
	payload[0] = 'x' // borrowed
	for id := range uint32(2) {
		if _, p, ok := r.Pop(); !ok || string(p) != "b" {
			t.Errorf("message %d is %q, %v", id, p, ok)
		}
	}
	if _, _, ok := r.Pop(); ok {
		t.Error("a message came before those before it")
	}
	if got := r.Push(0, 4, nil); got != Duplicate {
		t.Errorf("old message: %d", got)
	}
	if r.Push(13, 4, nil) != Accepted || r.Push(14, 4, nil) != Ahead || r.Next() != 2 {
		t.Error("window did not move with Pop")
	}
}

func TestReceiverAcks(t *testing.T) {
	r := NewReceiver(1)
	acks := make([]uint32, 8)
	take := func(want ...uint32) {
		t.Helper()
		if got := acks[:r.Acks(acks)]; !slices.Equal(got, want) {
			t.Errorf("acknowledges %v, not %v", got, want)
		}
	}
	take()
	r.Push(1, 4, nil)
	r.Push(2, 4, nil)
	take(2, 1)
	take(2, 1) // repeats, so that a lost packet costs nothing
	r.Push(1, 4, nil)
	r.Push(1, 4, nil)
	if r.Pending() != 1 {
		t.Errorf("%d acknowledgements of one message wait", r.Pending())
	}
	take(1, 2)
	for id := uint32(3); id < 9; id++ {
		r.Push(id, 4, nil)
	}
	take(6, 5, 4, 3)
	take(8, 7, 6, 5)
	r.Push(40, 4, nil) // beyond the window
	if r.Pending() != 0 {
		t.Error("acknowledges what was not kept")
	}
	if n := r.Acks(acks[:2]); n != 2 {
		t.Errorf("%d acknowledgements in two places", n)
	}
}

func TestReceiverPendingIsBounded(t *testing.T) {
	r := NewReceiver(1 << 20)
	for id := range uint32(1 << 16) {
		r.Push(id, 4, nil)
	}
	if r.Pending() > maxPending {
		t.Errorf("%d acknowledgements wait", r.Pending())
	}
}

// TestLossyLink sends messages over a link that loses, doubles and swaps
// packets, and loses acknowledgements.
func TestLossyLink(t *testing.T) {
	const messages = 200
	for seed := range uint64(50) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			loss := rng.Float64() / 2
			s, r := NewSender(0, time.Second, 8*time.Second), NewReceiver(0)
			now, sent, got := start, 0, 0
			for round := 0; got < messages || !s.Idle(); round++ {
				if round > 100*messages {
					t.Fatalf("stuck: %d sent, %d received, oldest %d", sent, got, s.Oldest())
				}
				for sent < messages && s.Room() > 0 {
					s.Push(4, fmt.Append(nil, sent))
					sent++
				}
				var flight []Message
				for {
					m, _, ok := s.Due(now)
					if !ok {
						break
					}
					for rng.Float64() >= loss { // once, twice...
						flight = append(flight, m)
						if rng.Float64() < 0.8 {
							break
						}
					}
				}
				rng.Shuffle(len(flight), func(i, j int) { flight[i], flight[j] = flight[j], flight[i] })
				for _, m := range flight {
					r.Push(m.ID, m.Opcode, m.Payload)
				}
				for {
					_, p, ok := r.Pop()
					if !ok {
						break
					}
					if !bytes.Equal(p, fmt.Append(nil, got)) {
						t.Fatalf("message %d is %q", got, p)
					}
					got++
				}
				for r.Pending() > 0 {
					var acks [8]uint32
					n := r.Acks(acks[:])
					if rng.Float64() < loss {
						continue
					}
					for _, id := range acks[:n] {
						s.Acknowledge(id)
					}
				}
				next := s.Next(now)
				if next.IsZero() && !s.Idle() {
					t.Fatal("nothing is due though messages are not acknowledged")
				}
				if next.After(now) {
					now = next
				}
			}
		})
	}
}
