// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"errors"
	"sync"
	"time"
)

// QueueLen is how many events wait for one subscriber; then the oldest goes.
const QueueLen = 256

// ErrClosed is returned by Next after Close.
var ErrClosed = errors.New("subscription closed")

// Hub hands every event to every subscriber. The zero Hub is ready; all
// methods may be called concurrently.
type Hub struct {
	mu   sync.Mutex
	subs map[*Subscription]struct{}
}

// Publish gives e to every subscriber and never waits for one. A zero Time
// becomes the present.
func (h *Hub) Publish(e Event) {
	e.Version = Version
	if e.Time.IsZero() {
		e.Time = time.Now().UTC()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.subs {
		s.put(e)
	}
}

// Subscribe starts a stream with what is published from now on.
func (h *Hub) Subscribe() *Subscription {
	s := &Subscription{hub: h, wake: make(chan struct{}, 1), done: make(chan struct{})}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.subs == nil {
		h.subs = make(map[*Subscription]struct{})
	}
	h.subs[s] = struct{}{}
	return s
}

// Subscription is one subscriber's bounded queue.
type Subscription struct {
	hub  *Hub
	wake chan struct{} // holds a token when the queue may be non-empty
	done chan struct{}
	once sync.Once

	mu    sync.Mutex
	queue [QueueLen]Event
	head  int
	count int
	lost  uint64
}

func (s *Subscription) put(e Event) {
	s.mu.Lock()
	if s.count == QueueLen {
		// The oldest gives way, with what it knew of losses before it.
		s.lost += 1 + s.queue[s.head].Lost
		s.queue[s.head] = Event{}
		s.head = (s.head + 1) % QueueLen
		s.count--
	}
	s.queue[(s.head+s.count)%QueueLen] = e
	s.count++
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Next waits for an event. Only one goroutine may call it at a time.
func (s *Subscription) Next(ctx context.Context) (Event, error) {
	for {
		if e, ok := s.take(); ok {
			return e, nil
		}
		select {
		case <-s.wake:
		case <-s.done:
			return Event{}, ErrClosed
		case <-ctx.Done():
			return Event{}, ctx.Err()
		}
	}
}

func (s *Subscription) take() (Event, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count == 0 {
		return Event{}, false
	}
	e := s.queue[s.head]
	s.queue[s.head] = Event{}
	s.head = (s.head + 1) % QueueLen
	s.count--
	e.Lost += s.lost
	s.lost = 0
	return e, true
}

// Close ends the stream; Next returns ErrClosed. It may be called twice.
func (s *Subscription) Close() {
	s.once.Do(func() {
		s.hub.mu.Lock()
		delete(s.hub.subs, s)
		s.hub.mu.Unlock()
		close(s.done)
	})
}
