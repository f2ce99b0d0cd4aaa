// SPDX-License-Identifier: Apache-2.0

// Package peer holds the gateway's peers: key slots, packet ids, endpoints,
// inner routes and liveness, with the semantics of the kernel's ovpn driver
// (peer new/set/del, key new/swap/del). The packet path reads it without
// locks; changes are serialised by the table. It holds no file descriptors and
// no clock: times are monotonic nanoseconds that the caller passes.
package peer

import (
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Counter counts records or packets and their bytes. Safe for concurrent use.
type Counter struct {
	Records atomic.Uint64
	Bytes   atomic.Uint64
}

// Add counts n records of bytes altogether.
func (c *Counter) Add(n, bytes int) {
	c.Records.Add(uint64(n))
	c.Bytes.Add(uint64(bytes))
}

// Config is what peer add and peer set give.
type Config struct {
	ID       uint32         // in records from the peer, 0..0xfffffe
	TxID     *uint32        // in records to the peer; nil: the same
	Remote   netip.AddrPort // invalid: learned from the first authentic record
	Local    netip.Addr     // only with Remote; invalid: learned, until then the kernel's choice
	Prefixes []netip.Prefix // inner prefixes routed to and accepted from the peer
	Stream   Stream         // set: the peer is reached by this connection and has no Remote
	// Interval and Timeout are the keepalive's, in whole seconds; both or none.
	Interval, Timeout time.Duration
}

// Peer is one session's remote end. A peer object serves one session: it is
// never reused after it has gone.
type Peer struct {
	ID    uint32 // in records received
	TxID  uint32 // in records sent
	table *Table

	stream Stream // never changes

	mu       sync.Mutex // guards writing slots, endpoint and gone; taken after the table's lock
	slots    slots
	endpoint atomic.Pointer[Endpoint]
	prefixes atomic.Pointer[[]netip.Prefix] // written under the table's lock
	interval atomic.Int64                   // ns, 0 off
	timeout  atomic.Int64                   // ns
	since    atomic.Int64                   // monotonic ns at which the keepalive was set
	gone     atomic.Bool
	exited   atomic.Bool
	floats   floatBudget // guarded by the table's lock
	older    *Peer       // see remotes

	_            [64]byte     // receiving and sending cores write different lines
	LastReceived atomic.Int64 // monotonic ns of the last authentic record; 0 never
	In           Counter      // inner packets delivered (vpn_rx)
	LinkIn       Counter      // records received, with header and tag (link_rx)
	_            [64]byte
	LastSent     atomic.Int64 // monotonic ns of the last record sent
	Out          Counter      // inner packets sealed (vpn_tx)
	LinkOut      Counter      // records sent, keepalives included (link_tx)
	_            [64]byte
}

// Endpoint is where a peer is reached. Immutable.
type Endpoint struct {
	Remote netip.AddrPort
	Local  netip.AddrPort // the address and port the peer uses of ours; may be invalid
}

// Endpoint returns the peer's present endpoint, or nil while none is known.
func (p *Peer) Endpoint() *Endpoint { return p.endpoint.Load() }

// Stream returns the connection of a peer that is reached by one; nil: it is
// reached by datagrams at its endpoint.
func (p *Peer) Stream() Stream { return p.stream }

// Prefixes returns the peer's inner prefixes. The slice must not be changed.
func (p *Peer) Prefixes() []netip.Prefix { return *p.prefixes.Load() }

// Keepalive returns interval and timeout; both are 0 when it is off.
func (p *Peer) Keepalive() (interval, timeout time.Duration) {
	return time.Duration(p.interval.Load()), time.Duration(p.timeout.Load())
}

// Gone reports whether the peer has been removed. Workers may still hold it
// for a burst.
func (p *Peer) Gone() bool { return p.gone.Load() }

// Received notes that an authentic record arrived at now.
func (p *Peer) Received(now int64) { p.LastReceived.Store(now) }

// Exit raises Exited, once: the peer said goodbye in the data channel.
func (p *Peer) Exit() {
	if p.exited.CompareAndSwap(false, true) {
		p.table.emit(Event{Type: Exited, Peer: p})
	}
}

// AllowsSource reports whether an inner packet from addr may come from this
// peer: the longest of all peers' prefixes that holds addr must be this
// peer's, and addr none of this host's own, whatever prefix it is in. Without
// peers' prefixes (point to point) everything is allowed.
func (p *Peer) AllowsSource(addr netip.Addr) bool {
	return p.table.p2p || (p.table.Route(addr) == p && !p.table.isLocal(addr))
}

// Other returns the peer, other than p, that an inner packet from p to dst goes
// to; nil when dst is routed to no peer, to p itself, or is an address of this
// host. Multicast and broadcast addresses are routed to no peer. Lock-free.
func (p *Peer) Other(dst netip.Addr) *Peer {
	if p.table.p2p {
		return nil
	}
	other := p.table.Route(dst)
	if other == nil || other == p || p.table.isLocal(dst) {
		return nil
	}
	return other
}

func (p *Peer) setPrefixes(prefixes []netip.Prefix) {
	prefixes = slices.Clone(prefixes)
	p.prefixes.Store(&prefixes)
}
