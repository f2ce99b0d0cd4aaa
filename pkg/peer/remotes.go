// SPDX-License-Identifier: Apache-2.0

package peer

import "net/netip"

// liveness is how long, in nanoseconds, a silent peer keeps its address
// against another peer's float: stock OpenVPN's default ping-restart.
const liveness = int64(60e9)

// remotes maps a remote address to the peer that came there last. A client
// that was killed and restarts has two sessions at one address for a while, so
// earlier holders are linked behind it (Peer.older) and found again when it
// leaves. Guarded by the table's lock.
type remotes map[netip.AddrPort]*Peer

// add makes p the newest holder of its endpoint, if it has one.
func (r remotes) add(p *Peer) {
	if e := p.Endpoint(); e != nil {
		p.older = r[e.Remote]
		r[e.Remote] = p
	}
}

// remove takes p from its endpoint.
func (r remotes) remove(p *Peer) {
	e := p.Endpoint()
	if e == nil {
		return
	}
	switch newest := r[e.Remote]; {
	case newest != p:
		for q := newest; q != nil; q = q.older {
			if q.older == p {
				q.older = p.older
				break
			}
		}
	case p.older != nil:
		r[e.Remote] = p.older
	default:
		delete(r, e.Remote)
	}
	p.older = nil
}

// moveTo gives p another endpoint, or none; t.mu is held for writing.
func (t *Table) moveTo(p *Peer, end *Endpoint) {
	t.remotes.remove(p)
	p.mu.Lock()
	p.endpoint.Store(end)
	p.mu.Unlock()
	t.remotes.add(p)
}

// mayHold reports whether p may float to remote; t.mu is held.
func (t *Table) mayHold(p *Peer, remote netip.AddrPort, now int64) bool {
	a := remote.Addr()
	if !a.IsValid() || remote.Port() == 0 || a.IsUnspecified() || a.IsMulticast() || a == broadcast {
		return false
	}
	if t.isLocal(a) {
		return false
	}
	for q := t.remotes[remote]; q != nil; q = q.older {
		if q != p && q.live(now) {
			return false
		}
	}
	return true
}

// isLocal reports whether an address is one of those that SetLocal named.
func (t *Table) isLocal(a netip.Addr) bool {
	_, ours := (*t.local.Load())[a.WithZone("")]
	return ours
}

// live reports whether a peer still holds its address against others. One
// that was configured but never heard keeps it.
func (p *Peer) live(now int64) bool {
	last := p.LastReceived.Load()
	return last == 0 || now-last < max(liveness, p.timeout.Load())
}
