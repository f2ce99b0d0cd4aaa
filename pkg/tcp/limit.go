// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"net/netip"
	"sync"
)

// limits count connections: all of them, and the unproven ones by their source.
type limits struct {
	conns, perPrefix int

	mu       sync.Mutex
	all      int
	unproven map[netip.Prefix]int
}

// source is what counts as one source: whoever has an IPv6 address commonly has
// its /64.
func source(a netip.Addr) netip.Prefix {
	bits := 32
	if a.Is6() {
		bits = 64
	}
	p, _ := a.WithZone("").Prefix(bits)
	return p
}

// enter counts a new connection, unless that is one too many of its source, and
// reports whether there is now one more than there may be in all.
func (l *limits) enter(from netip.Prefix) (ok, over bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unproven[from] >= l.perPrefix {
		return false, false
	}
	l.all++
	l.unproven[from]++
	return true, l.all > l.conns
}

// proven says that a connection counts for its source no more.
func (l *limits) proven(from netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.release(from)
}

// leave says that a connection has ended.
func (l *limits) leave(from netip.Prefix, proven bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if !proven {
		l.release(from)
	}
}

func (l *limits) release(from netip.Prefix) {
	if l.unproven[from]--; l.unproven[from] <= 0 {
		delete(l.unproven, from)
	}
}

func (l *limits) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all
}
