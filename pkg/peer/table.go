// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gaissmai/bart"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/record"
)

// Errors of Add, Set and Remove that callers branch on.
var (
	ErrExists   = errors.New("peer exists")
	ErrNotFound = errors.New("no such peer")
	ErrInvalid  = errors.New("invalid peer")
)

// Table holds the peers. Look-ups are lock-free; Add, Set, Remove and Tick
// may be called concurrently.
type Table struct {
	p2p      bool
	observer Observer

	ids    idTree
	only   atomic.Pointer[Peer] // the peer of a point-to-point table
	routes atomic.Pointer[bart.Table[*Peer]]
	local  atomic.Pointer[map[netip.Addr]struct{}]

	refused atomic.Uint64 // floats

	mu      sync.RWMutex // guards peers, remotes and the writing side of the rest
	peers   map[uint32]*Peer
	remotes remotes
}

// NewTable returns an empty table. In a point-to-point table there is one
// peer: a new one replaces it, everything is routed to it, and it may send from
// any inner address.
func NewTable(p2p bool, observer Observer) *Table {
	t := &Table{p2p: p2p, observer: observer, peers: map[uint32]*Peer{}, remotes: remotes{}}
	t.routes.Store(new(bart.Table[*Peer]))
	t.local.Store(&map[netip.Addr]struct{}{})
	return t
}

// P2P reports whether the table is point-to-point.
func (t *Table) P2P() bool { return t.p2p }

// Lookup returns the peer of a 24-bit id, or nil.
func (t *Table) Lookup(id uint32) *Peer { return t.ids.get(id) }

// LookupRemote returns the peer reached at a remote address, or nil; of several,
// the one that came there last. It serves records with the undefined peer id
// and takes a read lock.
func (t *Table) LookupRemote(remote netip.AddrPort) *Peer {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.remotes[remote]
}

// Route returns the peer whose longest prefix holds an inner address, or nil.
func (t *Table) Route(addr netip.Addr) *Peer {
	if t.p2p {
		return t.only.Load()
	}
	p, _ := t.routes.Load().Lookup(addr)
	return p
}

// Owner returns the peer that has exactly this prefix, or nil.
func (t *Table) Owner(prefix netip.Prefix) *Peer {
	p, _ := t.routes.Load().Get(prefix)
	return p
}

// FloatsRefused counts batches of authentic records from an address to which
// their peer was not let float.
func (t *Table) FloatsRefused() uint64 { return t.refused.Load() }

// SetLocal names the addresses of this host, its broadcast addresses included:
// no peer can float to them.
func (t *Table) SetLocal(addrs []netip.Addr) {
	m := make(map[netip.Addr]struct{}, len(addrs))
	for _, a := range addrs {
		m[a.Unmap().WithZone("")] = struct{}{}
	}
	t.local.Store(&m)
}

// All returns the peers in order of their ids.
func (t *Table) All() []*Peer {
	t.mu.RLock()
	all := make([]*Peer, 0, len(t.peers))
	for _, p := range t.peers {
		all = append(all, p)
	}
	t.mu.RUnlock()
	slices.SortFunc(all, func(a, b *Peer) int { return int(a.ID) - int(b.ID) })
	return all
}

// Len returns the number of peers.
func (t *Table) Len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.peers)
}

// Add makes a peer. ErrExists when the id or a prefix is taken, except in a
// point-to-point table, where the old peer is removed first. ErrInvalid tells
// what is wrong with the configuration; the table is then unchanged.
func (t *Table) Add(c Config, now int64) (*Peer, error) {
	p, err := t.newPeer(&c, now)
	if err != nil {
		return nil, err
	}
	replaced, err := t.link(p)
	if err != nil {
		return nil, err
	}
	if replaced != nil {
		t.changed(replaced)
		t.emit(Event{Type: Gone, Peer: replaced, Reason: ReasonTeardown})
	}
	t.changed(p)
	return p, nil
}

// newPeer makes a peer that is in no table yet.
func (t *Table) newPeer(c *Config, now int64) (*Peer, error) {
	if c.ID > record.PeerIDUndef || (c.ID == record.PeerIDUndef && !t.p2p) {
		return nil, fmt.Errorf("%w: peer id %d is not in 0..%d", ErrInvalid, c.ID, record.PeerIDUndef-1)
	}
	if c.TxID != nil && *c.TxID > record.PeerIDUndef {
		return nil, fmt.Errorf("%w: id %d in records sent is not in 0..%d", ErrInvalid, *c.TxID, record.PeerIDUndef)
	}
	if err := t.check(c); err != nil {
		return nil, err
	}
	p := &Peer{ID: c.ID, TxID: c.ID, table: t, stream: c.Stream}
	if c.TxID != nil {
		p.TxID = *c.TxID
	}
	p.setPrefixes(c.Prefixes)
	p.setKeepalive(c.Interval, c.Timeout, now)
	if c.Remote.IsValid() {
		p.endpoint.Store(&Endpoint{Remote: c.Remote, Local: netip.AddrPortFrom(c.Local, 0)})
	}
	return p, nil
}

// link puts a new peer into every index and returns the one it replaced.
func (t *Table) link(p *Peer) (replaced *Peer, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.p2p {
		if replaced = t.only.Load(); replaced != nil {
			t.unlink(replaced)
		}
		t.only.Store(p)
	} else if t.peers[p.ID] != nil {
		return nil, fmt.Errorf("%w: id %d; use peer set, or peer del first", ErrExists, p.ID)
	}
	if err := t.free(p.Prefixes(), p); err != nil {
		return nil, err
	}
	t.reroute(p, nil, p.Prefixes())
	t.index(p)
	return replaced, nil
}

// index puts a peer whose routes are there into the other indexes; t.mu is held.
func (t *Table) index(p *Peer) {
	t.peers[p.ID] = p
	t.remotes.add(p)
	t.ids.add(p.ID, p)
}

// Remove deletes a peer and raises Gone with the reason.
func (t *Table) Remove(id uint32, reason string) error {
	t.mu.Lock()
	p := t.peers[id]
	if p == nil {
		t.mu.Unlock()
		return fmt.Errorf("%w: id %d", ErrNotFound, id)
	}
	t.unlink(p)
	t.mu.Unlock()
	t.changed(p)
	t.emit(Event{Type: Gone, Peer: p, Reason: reason})
	return nil
}

// unlink takes a peer out of every index; t.mu is held for writing.
func (t *Table) unlink(p *Peer) {
	t.retire(p)
	t.reroute(p, p.Prefixes(), nil)
}

// retire takes a peer out of every index but the routes, and ends its keys; t.mu
// is held.
func (t *Table) retire(p *Peer) {
	p.mu.Lock()
	p.gone.Store(true)
	p.killKeys()
	p.mu.Unlock()
	t.ids.remove(p.ID)
	t.only.CompareAndSwap(p, nil)
	t.remotes.remove(p)
	delete(t.peers, p.ID)
}

// changed tells the observer. When p left a remote address that another peer
// has too, that one stands for the address now.
func (t *Table) changed(p *Peer) {
	if t.observer == nil {
		return
	}
	t.observer.PeerChanged(p)
	if e := p.Endpoint(); p.Gone() && e != nil {
		if heir := t.LookupRemote(e.Remote); heir != nil {
			t.observer.PeerChanged(heir)
		}
	}
}

func (t *Table) emit(e Event) {
	if t.observer != nil {
		t.observer.PeerEvent(e)
	}
}
