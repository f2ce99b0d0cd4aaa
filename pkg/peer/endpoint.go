// SPDX-License-Identifier: Apache-2.0

package peer

import "net/netip"

// A peer's endpoint may move this often: up to floatBurst moves at once, one
// more each floatRefill. A roaming client moves a few times a minute; whoever
// captures and races a client's records from elsewhere must not make the
// gateway rewrite maps for each of them.
const (
	floatBurst  = 10
	floatRefill = int64(2e9) // ns
)

// floatBudget counts moves; the zero value is a full budget.
type floatBudget struct {
	spent  int64
	filled int64 // monotonic ns of the last refill
}

func (b *floatBudget) take(now int64) bool {
	if b.spent == 0 {
		b.filled = now
	}
	if n := (now - b.filled) / floatRefill; n > 0 {
		b.spent = max(b.spent-n, 0)
		b.filled += n * floatRefill
	}
	if b.spent == floatBurst {
		return false
	}
	b.spent++
	return true
}

// Moved takes note of where an authentic record with a new highest packet id
// came from. When only our own address differs it is learned silently; when
// the remote differs and mayFloat is true, the endpoint moves, the observer is
// told and Floated is raised. It reports whether the remote moved.
//
// A move is refused to an address that another live peer holds, that is
// multicast, broadcast, unspecified or this host's, or to port 0, and when the
// peer's budget is spent. Safe for concurrent use; lock-free while nothing
// differs.
func (p *Peer) Moved(remote, local netip.AddrPort, mayFloat bool, now int64) bool {
	e := p.endpoint.Load()
	if e != nil && e.Remote == remote {
		if e.Local != local {
			p.learn(remote, local)
		}
		return false
	}
	if !mayFloat {
		return false
	}
	event := Event{Type: Floated, Peer: p, Remote: remote}
	var moved bool
	if event.Previous, moved = p.table.float(p, remote, local, now); moved {
		p.table.changed(p)
		p.table.emit(event)
	}
	return moved
}

// learn remembers which of our addresses the peer uses, unless it has moved.
func (p *Peer) learn(remote, local netip.AddrPort) {
	p.mu.Lock()
	if e := p.endpoint.Load(); e != nil && e.Remote == remote {
		p.endpoint.Store(&Endpoint{Remote: remote, Local: local})
	}
	p.mu.Unlock()
}

// float moves a peer's endpoint if that is allowed and returns the old remote
// address.
func (t *Table) float(p *Peer, remote, local netip.AddrPort, now int64) (previous netip.AddrPort, moved bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := p.endpoint.Load()
	if p.Gone() || p.stream != nil || (e != nil && e.Remote == remote) {
		return previous, false
	}
	if !t.mayHold(p, remote, now) || !p.floats.take(now) {
		t.refused.Add(1)
		return previous, false
	}
	if e != nil {
		previous = e.Remote
	}
	t.moveTo(p, &Endpoint{Remote: remote, Local: local})
	return previous, true
}
