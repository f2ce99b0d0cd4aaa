// SPDX-License-Identifier: Apache-2.0

package peer

import "time"

// setKeepalive sets both times and starts both timers anew.
func (p *Peer) setKeepalive(interval, timeout time.Duration, now int64) {
	p.since.Store(now)
	p.interval.Store(int64(interval))
	p.timeout.Store(int64(timeout))
}

// silent reports whether nothing authentic came for the timeout.
func (p *Peer) silent(now int64) bool {
	timeout := p.timeout.Load()
	return timeout > 0 && now-max(p.LastReceived.Load(), p.since.Load()) >= timeout
}

// idle reports whether nothing was sent for the interval.
func (p *Peer) idle(now int64) bool {
	interval := p.interval.Load()
	return interval > 0 && now-max(p.LastSent.Load(), p.since.Load()) >= interval
}

// Tick removes peers from which nothing authentic came for their timeout,
// raising Gone, and calls ping for those to which nothing was sent for their
// interval. It is called about once a second, with monotonic nanoseconds; no
// lock is held while ping runs.
func (t *Table) Tick(now int64, ping func(*Peer)) {
	var silent, idle []*Peer
	t.mu.RLock()
	for _, p := range t.peers {
		switch {
		case p.silent(now):
			silent = append(silent, p)
		case p.idle(now):
			idle = append(idle, p)
		}
	}
	t.mu.RUnlock()
	for _, p := range idle {
		ping(p)
	}
	for _, p := range silent {
		if t.expire(p, now) {
			t.changed(p)
			t.emit(Event{Type: Gone, Peer: p, Reason: ReasonExpired})
		}
	}
}

// expire removes a peer if it is still there and still silent.
func (t *Table) expire(p *Peer, now int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.Gone() || !p.silent(now) {
		return false
	}
	t.unlink(p)
	return true
}
