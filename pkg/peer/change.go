// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"fmt"
	"net/netip"
	"time"
)

// Change is what Set alters; a nil field stays as it is.
type Change struct {
	Remote            *netip.AddrPort // invalid: forget the endpoint and learn it anew
	Local             *netip.Addr     // invalid: learn it anew
	Prefixes          *[]netip.Prefix
	Interval, Timeout *time.Duration
}

// Set changes a peer; ErrNotFound, ErrExists and ErrInvalid as with Add, and
// then nothing is changed. Setting the keepalive starts both of its timers anew.
// A new remote address of the other family makes the peer's local address
// unknown, unless that is set too.
func (t *Table) Set(id uint32, c Change, now int64) (*Peer, error) {
	p, err := t.set(id, c, now)
	if err != nil {
		return nil, err
	}
	t.changed(p)
	return p, nil
}

func (t *Table) set(id uint32, c Change, now int64) (*Peer, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.peers[id]
	if p == nil {
		return nil, fmt.Errorf("%w: id %d", ErrNotFound, id)
	}
	next := Config{ID: id, Prefixes: p.Prefixes(), Stream: p.stream}
	next.Interval, next.Timeout = p.Keepalive()
	moves := c.Remote != nil || c.Local != nil
	port := uint16(0)
	if e := p.Endpoint(); e != nil && moves {
		next.Remote, next.Local, port = e.Remote, e.Local.Addr(), e.Local.Port()
	}
	if c.Remote != nil {
		next.Remote = *c.Remote
		if !next.Remote.IsValid() || next.Local.Is4() != next.Remote.Addr().Unmap().Is4() {
			next.Local, port = netip.Addr{}, 0
		}
	}
	if c.Local != nil {
		next.Local, port = *c.Local, 0
	}
	if c.Prefixes != nil {
		next.Prefixes = *c.Prefixes
	}
	if c.Interval != nil {
		next.Interval = *c.Interval
	}
	if c.Timeout != nil {
		next.Timeout = *c.Timeout
	}
	if err := t.check(&next); err != nil {
		return nil, err
	}
	if err := t.free(next.Prefixes, p); err != nil {
		return nil, err
	}
	if c.Prefixes != nil {
		t.reroute(p, p.Prefixes(), next.Prefixes)
		p.setPrefixes(next.Prefixes)
	}
	if c.Interval != nil || c.Timeout != nil {
		p.setKeepalive(next.Interval, next.Timeout, now)
	}
	if moves {
		var end *Endpoint
		if next.Remote.IsValid() {
			end = &Endpoint{Remote: next.Remote, Local: netip.AddrPortFrom(next.Local, port)}
		}
		t.moveTo(p, end)
	}
	return p, nil
}
