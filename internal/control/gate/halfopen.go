// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"container/list"
	"net/netip"
	"time"
)

const (
	// halfOpenPerPrefix and halfOpenMax bound clients accepted on a bare reset, as
	// tls-crypt-v2 clients before 2.6 need: one recorded reset can be sent again
	// from any number of forged addresses. A client is half-open for one round
	// trip, so that 32 in one prefix are many, and 4,096 are all there are while
	// fewer than 80,000 resets a second are forged (at 50 ms).
	halfOpenPerPrefix = 32
	halfOpenMax       = 4096
)

// halfOpen is the clients accepted on a bare reset that have not answered yet.
// When there are halfOpenMax, the oldest makes room for a new one, so that
// no flood locks a prefix out.
type halfOpen struct {
	window   time.Duration
	clients  map[Client]*list.Element
	prefixes map[netip.Prefix]int
	byAge    *list.List // of waiting, oldest first
}

type waiting struct {
	client Client
	since  time.Time
}

func newHalfOpen(handWindow time.Duration) halfOpen {
	return halfOpen{handWindow, map[Client]*list.Element{}, map[netip.Prefix]int{}, list.New()}
}

// enter notes a client, unless its prefix has too many, and returns the one
// that had to make room for it.
func (h *halfOpen) enter(c Client, now time.Time) (evicted Client, ok bool) {
	h.leave(c) // its first session has ended, or it would not come here
	p := Prefix(c.Remote.Addr())
	if h.prefixes[p] >= halfOpenPerPrefix {
		return evicted, false
	}
	if len(h.clients) >= halfOpenMax {
		evicted = h.byAge.Front().Value.(waiting).client
		h.leave(evicted)
	}
	h.clients[c] = h.byAge.PushBack(waiting{c, now})
	h.prefixes[p]++
	return evicted, true
}

// leave forgets a client.
func (h *halfOpen) leave(c Client) {
	e, ok := h.clients[c]
	if !ok {
		return
	}
	delete(h.clients, c)
	h.byAge.Remove(e)
	p := Prefix(c.Remote.Addr())
	if h.prefixes[p]--; h.prefixes[p] == 0 {
		delete(h.prefixes, p)
	}
}

// expire forgets clients that have been there for as long as a handshake may
// take.
func (h *halfOpen) expire(now time.Time) {
	for e := h.byAge.Front(); e != nil; e = h.byAge.Front() {
		w := e.Value.(waiting)
		if now.Sub(w.since) <= h.window {
			return
		}
		h.leave(w.client)
	}
}
