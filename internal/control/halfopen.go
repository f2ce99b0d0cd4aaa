// SPDX-License-Identifier: Apache-2.0

package control

import (
	"container/list"
	"net/netip"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/gate"
)

const (
	// halfOpenPerPrefix bounds sessions that are not authenticated yet from one
	// IPv4 address or IPv6 /64. A site whose clients share an address may come
	// back all at once.
	halfOpenPerPrefix = 256
	// halfOpenMemory bounds them altogether, for the memory's sake: a session in its
	// handshake takes 20 KB as a rule, and a hostile one up to 120 KB, so that they
	// are 2 GB at most. Beyond that the oldest one makes room, so that nobody is
	// locked out.
	halfOpenMemory = 16384
)

// halfOpen are the sessions that are not authenticated yet, the oldest first.
type halfOpen struct {
	byAge    list.List // of *instance
	places   map[*instance]*list.Element
	prefixes map[netip.Prefix]int
}

func newHalfOpen() halfOpen {
	return halfOpen{places: map[*instance]*list.Element{}, prefixes: map[netip.Prefix]int{}}
}

// room reports whether an address may have one more.
func (h *halfOpen) room(a netip.Addr) bool { return h.prefixes[gate.Prefix(a)] < halfOpenPerPrefix }

// add adds a session. An older one that has to make room is returned.
func (h *halfOpen) add(i *instance) (evicted *instance) {
	if h.byAge.Len() >= halfOpenMemory {
		evicted = h.byAge.Front().Value.(*instance)
		h.remove(evicted)
	}
	i.from = gate.Prefix(i.remote().Addr())
	h.prefixes[i.from]++
	h.places[i] = h.byAge.PushBack(i)
	return evicted
}

// remove takes out a session that is authenticated, or has ended. One that is
// not among them is let be.
func (h *halfOpen) remove(i *instance) {
	at, ok := h.places[i]
	if !ok {
		return
	}
	h.byAge.Remove(at)
	delete(h.places, i)
	if h.prefixes[i.from]--; h.prefixes[i.from] == 0 {
		delete(h.prefixes, i.from)
	}
}

func (h *halfOpen) len() int { return h.byAge.Len() }
