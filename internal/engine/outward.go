// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"net/netip"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/aead"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/packet"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/peer"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/poll"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/reason"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/record"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/tun"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/tun/vnet"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/udp"
)

// pingQueue bounds the keepalives waiting for one worker; one that finds it
// full is sent a second later.
const pingQueue = 4096

// outward is the worker of one TUN queue: it alone seals for the peers whose
// routes the TUN's steering program sends to this queue, so that their records
// leave in the order of their ids.
type outward struct {
	c       *OutCounters
	queue   *tun.Queue
	reply   *tun.Writer // ICMP errors back to the sender
	peers   *peer.Table
	conns   []*udp.Conn
	poller  *poll.Poller
	area    *area
	cross   *crossQueue // nil: peers' packets to each other go through the host
	scratch *aead.Scratch
	answer  answer
	mss     uint16
	pings   chan *peer.Peer
	stopped atomic.Bool
	done    chan struct{}

	super   vnet.Super
	buf     []byte // one TUN read, virtio-net header first
	headers [maxSegments][vnet.MaxHeader]byte
	items   [maxSegments]aead.SealItem
	pending int // items placed and not yet sealed
	key     *peer.Key
	word    uint32
}

// run works until stopped. It is its thread's only user.
func (o *outward) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(o.done)
	var idle idle
	for !o.stopped.Load() {
		n, err := o.queue.Read(o.buf)
		if err == nil {
			idle.found()
			o.c.Reads.Add(1)
			o.packet(o.buf[:n])
			o.crossed()
			if len(o.pings) > 0 { // a busy queue must not starve quiet peers
				o.pinged()
			}
			if o.area.eager() {
				o.area.sendClosed(Monotonic())
			}
			continue
		}
		// Nothing more is there: what waits for company goes now.
		if o.crossed() {
			idle.found()
		}
		o.pinged()
		o.area.sendAll(Monotonic())
		if !errors.Is(err, unix.EAGAIN) {
			time.Sleep(10 * time.Millisecond) // the device is down or gone
			continue
		}
		if idle.again() {
			continue
		}
		_, _, _ = o.poller.Wait(o.queue.FD(), unix.POLLIN, 1000)
	}
	o.area.sendAll(Monotonic())
}

// packet routes one TUN read and seals it into the area.
func (o *outward) packet(b []byte) {
	h, ok := vnet.Parse(b)
	if !ok {
		o.c.drop(reason.BadGSO, 1)
		return
	}
	pkt := b[vnet.HeaderLen:]
	dst, ok := packet.Destination(pkt)
	if !ok {
		o.c.drop(reason.BadInner, 1)
		return
	}
	if !o.super.Reset(h, pkt) {
		o.c.drop(reason.BadGSO, 1)
		return
	}
	n := o.super.Segments()
	p := o.peers.Route(dst)
	if p == nil {
		o.c.drop(reason.NoRoute, n)
		o.answer.unreachable(o.reply, pkt, dst, Monotonic())
		return
	}
	if o.mss != 0 && n == 1 {
		packet.ClampMSS(pkt, o.mss, false)
	}
	o.seal(p, pkt, n)
}

// seal reserves ids for n segments and seals each into the area.
func (o *outward) seal(p *peer.Peer, pkt []byte, n int) {
	bytes := len(pkt) + (n-1)*o.super.HeaderLen()
	w, id, ok := o.begin(p, n, bytes)
	if !ok {
		return
	}
	for i := range n {
		header, off, length := o.super.Segment(i, o.headers[o.pending][:])
		size := record.Overhead + len(header) + length
		to := o.area.next(p, w, size)
		if to == nil {
			o.sealPending()
			o.area.sendAll(Monotonic())
			// The header was built for another place in headers: copy it.
			header = o.headers[0][:copy(o.headers[0][:], header)]
			to = o.area.next(p, w, size)
		}
		o.place(aead.SealItem{Dst: to, Word: o.word, PacketID: id + uint32(i), Header: header, Buf: pkt, Off: off, Len: length})
	}
	o.sealed(p, n, bytes)
}

// begin finds the key and the way for n packets of bytes altogether, and reserves
// their ids. If it cannot, it counts them as dropped.
func (o *outward) begin(p *peer.Peer, n, bytes int) (w way, id uint32, ok bool) {
	key := p.PrimaryKey()
	if key == nil {
		o.c.drop(reason.NoPeerKey, n)
		return w, 0, false
	}
	if w, ok = o.wayTo(p); !ok {
		o.c.drop(reason.NoEndpoint, n)
		return w, 0, false
	}
	id, ok = reserve(p, key, n, bytes)
	if newer := p.PrimaryKey(); !ok && newer != nil && newer != key {
		key = newer // replaced between the look-up and the reservation
		id, ok = reserve(p, key, n, bytes)
	}
	if !ok {
		o.c.drop(reason.IDExhausted, n)
		return w, 0, false
	}
	o.key, o.word = key, record.Word(record.DataV2, key.ID, p.TxID)
	return w, id, true
}

// place adds an item to those that are sealed together.
func (o *outward) place(item aead.SealItem) {
	o.items[o.pending] = item
	if o.pending++; o.pending == len(o.items) {
		o.sealPending()
	}
}

// sealed ends what begin began.
func (o *outward) sealed(p *peer.Peer, n, bytes int) {
	o.sealPending()
	p.Out.Add(n, bytes)
	o.c.Packets.Add(uint64(n))
	o.c.Bytes.Add(uint64(bytes))
}

// sealPending seals the items placed so far, all under one key.
func (o *outward) sealPending() {
	if o.pending > 0 {
		// No prefetch: completing the checksum has just read every payload.
		o.key.Sealer().Seal(o.scratch, o.items[:o.pending], 0)
		o.pending = 0
	}
}

// reserve takes n ids for bytes of plaintext and acts on the key's limits.
func reserve(p *peer.Peer, key *peer.Key, n, bytes int) (uint32, bool) {
	id, use, why := key.Reserve(n, uint64(bytes)/16+uint64(n))
	p.Used(key, use, why)
	return id, use != peer.Spent
}

// wayTo returns the way to a peer, unless none is known.
func (o *outward) wayTo(p *peer.Peer) (w way, ok bool) {
	if stream := p.Stream(); stream != nil {
		return way{stream: stream}, true
	}
	end := p.Endpoint()
	conn := connFor(o.conns, end)
	return way{end: end, conn: conn}, conn != nil
}

// connFor returns the socket, of those given, that reaches an endpoint: the one
// the peer used last, else the first of its family.
func connFor(conns []*udp.Conn, end *peer.Endpoint) *udp.Conn {
	if end == nil || !end.Remote.IsValid() {
		return nil
	}
	var found *udp.Conn
	for _, c := range conns {
		at := c.Addr()
		if at.Addr().Is4() != end.Remote.Addr().Is4() {
			continue
		}
		addr := at.Addr().WithZone("") // the local address of an endpoint has none
		if at.Port() == end.Local.Port() && (addr == end.Local.Addr() || addr.IsUnspecified()) {
			return c
		}
		if found == nil || better(addr, found.Addr().Addr().WithZone(""), end) {
			found = c
		}
	}
	return found
}

// better reports whether a listener's address suits an endpoint more than
// another's: the one the peer used, then one of the same scope as the remote.
func better(addr, than netip.Addr, end *peer.Endpoint) bool {
	if local := end.Local.Addr(); addr == local || than == local {
		return addr == local && than != local
	}
	scope := end.Remote.Addr().IsLinkLocalUnicast()
	return addr.IsLinkLocalUnicast() == scope && than.IsLinkLocalUnicast() != scope
}

// pinged seals the keepalives that were asked for. They use the peer's own
// worker, so that ids stay in order.
func (o *outward) pinged() {
	for {
		select {
		case p := <-o.pings:
			o.ping(p)
		default:
			return
		}
	}
}

func (o *outward) ping(p *peer.Peer) {
	key := p.PrimaryKey()
	w, ok := o.wayTo(p)
	if key == nil || !ok || p.Gone() {
		return
	}
	id, ok := reserve(p, key, 1, len(record.Keepalive))
	if !ok {
		o.c.drop(reason.IDExhausted, 1)
		return
	}
	to := o.area.next(p, w, record.Overhead+len(record.Keepalive))
	if to == nil {
		o.area.sendAll(Monotonic())
		to = o.area.next(p, w, record.Overhead+len(record.Keepalive))
	}
	payload := o.headers[0][:copy(o.headers[0][:], record.Keepalive[:])]
	o.items[0] = aead.SealItem{Dst: to, Word: record.Word(record.DataV2, key.ID, p.TxID), PacketID: id, Buf: payload, Len: len(payload)}
	key.Sealer().Seal(o.scratch, o.items[:1], 0)
	o.c.Keepalive.Add(1)
}

// answerFrom are our own inner addresses; invalid: no answer.
type answerFrom struct{ v4, v6 netip.Addr }

// answer sends ICMP errors back into the TUN, at most answerRate a second.
type answer struct {
	from   *atomic.Pointer[answerFrom]
	left   int
	filled int64 // 0: never
	buf    [vnet.HeaderLen + packet.MaxICMP]byte
	pieces [1][]byte
}

// answerRate is the kernel's default limit for ICMP errors to one host
// (icmp_ratelimit, 1,000 ms / 6 tokens) made generous for a whole network.
const answerRate = 100

func (a *answer) unreachable(w *tun.Writer, pkt []byte, dst netip.Addr, now int64) {
	from := a.from.Load().v4
	if dst.Is6() {
		from = a.from.Load().v6
	}
	if !from.IsValid() {
		return
	}
	if a.filled == 0 || now-a.filled >= 1e9 {
		a.left, a.filled = answerRate, now
	}
	if a.left == 0 {
		return
	}
	n := packet.Unreachable(a.buf[vnet.HeaderLen:], pkt, from)
	if n == 0 {
		return
	}
	a.left--
	clear(a.buf[:vnet.HeaderLen])
	a.pieces[0] = a.buf[:vnet.HeaderLen+n]
	_ = w.Write(a.pieces[:])
}
