// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"fmt"
	"net/netip"
)

// Replace puts a new peer in the place of old: routes that both have go from one
// to the other in one step, so that a packet is never without a route between
// them. Gone is raised for old with the reason. It is how a client's new session
// takes over from the one that it left behind.
//
// Errors are those of Add, with old's prefixes counted as free, and leave the
// table and old as they were. When old has gone already it is Add.
func (t *Table) Replace(old *Peer, c Config, reason string, now int64) (*Peer, error) {
	p, err := t.newPeer(&c, now)
	if err != nil {
		return nil, err
	}
	replaced, err := t.replace(old, p)
	if err != nil {
		return nil, err
	}
	if replaced {
		t.changed(old)
		t.emit(Event{Type: Gone, Peer: old, Reason: reason})
	}
	t.changed(p)
	return p, nil
}

// replace links p in the place of old and reports whether old was still there.
func (t *Table) replace(old, p *Peer) (replaced bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	replaced = t.peers[old.ID] == old
	if other := t.peers[p.ID]; other != nil && other != old {
		return false, fmt.Errorf("%w: id %d", ErrExists, p.ID)
	}
	if t.p2p {
		if other := t.only.Load(); other != nil && other != old {
			return false, fmt.Errorf("%w: the peer is another by now, id %d", ErrExists, other.ID)
		}
	}
	if err := t.free(p.Prefixes(), old); err != nil {
		return false, err
	}
	if t.p2p {
		t.only.Store(p)
	}
	var before []netip.Prefix
	if replaced {
		before = old.Prefixes()
		t.retire(old)
	}
	t.reroute(p, before, p.Prefixes())
	t.index(p)
	return replaced, nil
}
