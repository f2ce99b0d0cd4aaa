// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/aead"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/coalesce"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/packet"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/peer"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/reason"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/tun"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/udp"
)

func withPolicy(policy ClientToClient) bedOption {
	return func(c *Config, _ *udp.Config, _ *tun.Config) { c.ClientToClient = policy }
}

// between goes from one peer's host to the other's.
func between(src, dst string) tuple { return tuple{addr(src), addr(dst), 40000, 5001} }

// clients are a bed with two peers, 5 at 10.9.0.2 and 6 at 10.9.0.3, and an inward worker.
type clients struct {
	*bed
	a, b       *peer.Peer
	farA, farB *remote
	opener     *Opener
	inner      *inner
	now        int64
}

func newClients(t testing.TB, options ...bedOption) *clients {
	t.Helper()
	c := &clients{bed: newBed(t, false, options...)}
	c.a, c.farA = c.peerAt(5, "10.9.0.2/32", "fd00:9::2/128", "192.168.5.0/24")
	c.b, c.farB = c.peerAt(6, "10.9.0.0/28", "10.9.0.3/32", "fd00:9::3/128")
	c.table.SetLocal([]netip.Addr{addr("10.9.0.1"), addr("fd00:9::1")})
	c.opener, c.inner = c.inbound()
	return c
}

// arrive gives the gateway packets as records of one burst from peer a.
func (c *clients) arrive(pkts ...[]byte) {
	var data [][]byte
	for _, p := range pkts {
		data = append(data, c.farA.seal(p))
	}
	c.now += second
	for rest := taken(from("192.0.2.1:1194"), data...); len(rest) > 0; {
		n := min(len(rest), MaxBurst)
		c.opener.Counters.Taken.Add(uint64(n))
		c.opener.Burst(rest[:n], c.now, true)
		rest = rest[n:]
	}
	c.inner.flush()
}

// wantFates asks that every record has met one end.
func (c *clients) wantFates() {
	c.t.Helper()
	if got, fated := c.opener.Counters.Taken.Load(), c.opener.Counters.Fated(); got != fated {
		c.t.Errorf("%d records taken, %d at their end", got, fated)
	}
}

func TestClientToClient(t *testing.T) {
	six := inner6()
	six.dst = addr("fd00:9::3")
	across := [][]byte{
		between("10.9.0.2", "10.9.0.3").udp(1, text(100, 1)),
		between("192.168.5.9", "10.9.0.9").tcp(2, 5, pshAck, text(1300, 2)),
		six.udp(0, text(77, 3)),
	}
	var host [][]byte // what is the host's under every policy
	for i, dst := range []string{
		"10.9.0.1",     // the gateway itself, though it lies in a peer's prefix
		"192.168.5.77", // the sender's own
		"10.250.0.1",   // nobody's
		"224.0.0.251", "255.255.255.255", "10.9.0.255",
	} {
		host = append(host, between("10.9.0.2", dst).udp(uint16(7*i), text(50, uint32(i))))
	}
	for policy, want := range map[ClientToClient]struct {
		toTun, toPeer [][]byte
		drops         drops
	}{
		C2CHost:   {append(slices.Clone(across), host...), nil, nil},
		C2CInside: {host, across, nil},
		C2CBlock:  {host, nil, drops{reason.C2CBlocked: 3}},
	} {
		t.Run(policy.String(), func(t *testing.T) {
			c := newClients(t, withPolicy(policy))
			tap := c.newTap()
			c.arrive(append(slices.Clone(across), host...)...)
			tap.want(want.toTun...)
			if got := c.out().crossed(); got != (want.toPeer != nil) {
				t.Errorf("something was there for a peer: %v", got)
			}
			c.flush()
			c.wantPlain(c.farB, 1, want.toPeer)
			c.nothingMore()
			wantDrops(t, c.opener.Counters, want.drops)
			wantDrops(t, c.out().c, nil)
			c.wantFates()
			s, bytes := c.opener.Counters, 0
			for _, p := range want.toPeer {
				bytes += len(p)
			}
			if s.C2C.Load() != uint64(len(want.toPeer)) || s.C2CBytes.Load() != uint64(bytes) || s.Delivered.Load() != uint64(len(want.toTun)) {
				t.Errorf("%d packets of %d bytes across, %d delivered", s.C2C.Load(), s.C2CBytes.Load(), s.Delivered.Load())
			}
			if got := c.out().c; got.C2C.Load() != uint64(len(want.toPeer)) || got.Packets.Load() != got.C2C.Load() || got.Bytes.Load() != uint64(bytes) {
				t.Errorf("outward %d packets, %d of them from peers, %d bytes", got.Packets.Load(), got.C2C.Load(), got.Bytes.Load())
			}
			accepted := uint64(len(want.toTun) + len(want.toPeer))
			if c.a.In.Records.Load() != accepted || c.b.Out.Records.Load() != uint64(len(want.toPeer)) {
				t.Errorf("peers: %d packets in, %d out", c.a.In.Records.Load(), c.b.Out.Records.Load())
			}
		})
	}
}

// A spoofed source is a spoofed source, whoever it goes to; and point to point
// there is nobody else.
func TestClientToClientChecksSources(t *testing.T) {
	c := newClients(t, withPolicy(C2CInside))
	c.arrive(between("10.9.0.3", "10.9.0.3").udp(1, text(9, 1)), between("10.250.0.1", "10.9.0.3").udp(1, text(9, 1)))
	wantDrops(t, c.opener.Counters, drops{reason.SpoofedSource: 2})
	if c.out().crossed() {
		t.Error("a spoofed packet went on")
	}

	b := newBed(t, true, withPolicy(C2CBlock))
	p := addPeer(t, b.table, peer.Config{ID: 5, Remote: b.far.Addr()})
	addKey(t, p, 0, aead.AES128GCM)
	tap := b.newTap()
	_, in := b.inbound()
	pkt := between("10.9.0.2", "10.9.0.3").udp(1, text(9, 1))
	in.Opened(p, plains(pkt))
	in.flush()
	tap.want(pkt)
}

// Packets of equal size leave as long runs; what is behind the packet in its
// record does not go on.
func TestCrossedPacketsMakeRuns(t *testing.T) {
	c := newClients(t, withPolicy(C2CInside), func(c *Config, _ *udp.Config, _ *tun.Config) { c.MSS = 1300 })
	f := between("10.9.0.2", "10.9.0.3")
	var pkts [][]byte
	for i := range 200 {
		pkts = append(pkts, f.tcp(uint16(i), uint32(i), 0x10, text(1000, uint32(i))))
	}
	want := plains(pkts...)
	syn := f.syn(1460)
	c.arrive(append(pkts, append(f.udp(1, text(20, 1)), 0, 0, 0), syn)...)
	c.out().crossed()
	wantRuns(t, c.out().area, 61, 61, 61, 18, -1) // 61 records fill one send
	c.flush()
	got := c.received(202)
	for i, d := range got[:200] {
		if id, plain := c.farB.open(t, d.data); id != uint32(i+1) || !bytes.Equal(plain, want[i]) {
			t.Fatalf("record %d has id %d, or differs", i, id)
		}
	}
	if _, plain := c.farB.open(t, got[200].data); !bytes.Equal(plain, f.udp(1, text(20, 1))) {
		t.Errorf("padded packet arrives as %x", plain)
	}
	if _, plain := c.farB.open(t, got[201].data); mssOf(t, plain) != 1300 {
		t.Error("the MSS is not clamped")
	}
}

// The queue to a worker that does not keep up is bounded; what it holds is the
// oldest, and it is free again afterwards.
func TestCrossQueueIsBounded(t *testing.T) {
	for name, size := range map[string]int{"bytes": 1372, "packets": 22} {
		t.Run(name, func(t *testing.T) {
			c := newClients(t, withPolicy(C2CInside))
			f := between("10.9.0.2", "10.9.0.3")
			room := min(crossPackets, crossBytes/(28+size))
			sent := 0
			for sent < room+700 {
				var pkts [][]byte
				for range 512 {
					pkts = append(pkts, f.udp(uint16(sent), binary.BigEndian.AppendUint32(text(size-4, 1), uint32(sent))))
					sent++
				}
				c.arrive(pkts...)
			}
			for at, rest := 0, room; rest > 0; {
				items := c.out().cross.take()
				if at == 0 && len(items) != room {
					t.Fatalf("%d packets wait, want %d", len(items), room)
				}
				for _, x := range items {
					if n := int(binary.BigEndian.Uint32(x.pkt[len(x.pkt)-4:])); n != at {
						t.Fatalf("packet %d is number %d", at, n)
					}
					at++
				}
				rest -= len(items)
			}
			s := c.opener.Counters
			wantDrops(t, s, drops{reason.C2CQueue: uint64(sent - room)})
			c.wantFates()
			c.arrive(f.udp(1, text(9, 9)))
			c.out().crossed()
			c.flush()
			c.wantPlain(c.farB, 1, [][]byte{f.udp(1, text(9, 9))})
		})
	}
}

// What the destination's side refuses is counted there, and a full area is sent
// in between.
func TestCrossedPacketsThatCannotBeSealed(t *testing.T) {
	c := newClients(t, withPolicy(C2CInside))
	addPeer(t, c.table, peer.Config{ID: 7, Remote: c.far.Addr(), Prefixes: prefixes("10.9.0.7/32")})
	noEnd := addPeer(t, c.table, peer.Config{ID: 8, Prefixes: prefixes("10.9.0.8/32")})
	addKey(t, noEnd, 0, aead.AES128GCM)
	gone := addPeer(t, c.table, peer.Config{ID: 9, Remote: c.far.Addr(), Prefixes: prefixes("10.9.0.9/32")})
	addKey(t, gone, 0, aead.AES128GCM)
	var pkts, want [][]byte
	for i := range 400 { // more than the area holds
		f := between("10.9.0.2", "10.9.0.3")
		switch i % 100 {
		case 7, 8, 9:
			f.dst = addr([]string{"10.9.0.7", "10.9.0.8", "10.9.0.9"}[i%100-7])
			pkts = append(pkts, f.udp(uint16(i), text(1300, uint32(i))))
		default:
			pkts = append(pkts, f.udp(uint16(i), text(1300, uint32(i))))
			want = append(want, pkts[i])
		}
	}
	want = plains(want...)
	c.arrive(pkts...)
	if err := c.table.Remove(9, peer.ReasonUser); err != nil {
		t.Fatal(err)
	}
	c.out().crossed()
	if c.out().c.Sends.Load() == 0 {
		t.Error("the area did not overflow")
	}
	c.flush()
	c.wantPlain(c.farB, 1, want)
	wantDrops(t, c.out().c, drops{reason.NoPeerKey: 8, reason.NoEndpoint: 4})
	if got := c.out().c; got.C2C.Load() != 400 || got.Packets.Load() != uint64(len(want)) {
		t.Errorf("%d taken over, %d sealed", got.C2C.Load(), got.Packets.Load())
	}
}

func TestCrossingAllocatesNothing(t *testing.T) {
	c := newClients(t, withPolicy(C2CInside))
	bursts := make([][]coalesce.Record, allocRuns+1)
	for i := range bursts {
		var data [][]byte
		for j := range 100 {
			data = append(data, c.farA.seal(between("10.9.0.2", "10.9.0.3").udp(uint16(j), text(1000, 1))))
		}
		bursts[i] = taken(from("192.0.2.1:1194"), data...)
	}
	next := 0
	if n := testing.AllocsPerRun(allocRuns, func() {
		c.opener.Burst(bursts[next], int64(next+1)*second, true)
		c.inner.flush()
		c.out().crossed()
		c.out().area.sendAll(second)
		next++
	}); n != 0 {
		t.Errorf("%v allocations per burst", n)
	}
	if got := c.b.LinkOut.Records.Load(); got != 100*(allocRuns+1) {
		t.Errorf("%d records sent", got)
	}
}

// Several inward workers and the host send to one peer at once: records leave in
// the order of their ids, each worker's packets in their order, and none is lost
// without being counted. A sleeping worker is woken.
func TestManyWorkersToOnePeer(t *testing.T) {
	c := newClients(t, withPolicy(C2CInside), func(_ *Config, u *udp.Config, _ *tun.Config) { u.SndBuf = 32 << 20 })
	if err := unix.SetsockoptInt(c.far.FD(), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20); err != nil {
		t.Fatal(err)
	}
	c.engine.Start()
	const workers, rounds, each = 4, 20, 32
	var openers [workers]*Opener
	var all sync.WaitGroup
	for w := range workers {
		o, in := c.inbound()
		openers[w] = o
		src := netip.AddrFrom4([4]byte{10, 77, 0, byte(w)})
		p := addPeer(t, c.table, peer.Config{ID: uint32(100 + w), Prefixes: []netip.Prefix{netip.PrefixFrom(src, 32)}})
		all.Go(func() {
			f := tuple{src, addr("10.9.0.3"), 1, uint16(w)}
			for round := range rounds {
				var pkts [][]byte
				for i := range each {
					pkts = append(pkts, f.udp(0, binary.BigEndian.AppendUint32(text(200, 1), uint32(round*each+i))))
				}
				in.Opened(p, pkts)
				in.flush()
			}
		})
	}
	all.Wait()
	sent := uint64(0)
	for _, o := range openers {
		sent += o.Counters.C2C.Load()
		if o.Counters.C2C.Load()+o.Counters.count(reason.C2CQueue) != rounds*each {
			t.Error("packets have met no end")
		}
	}
	if sent == 0 {
		t.Fatal("nothing went across")
	}
	var last [workers]int
	for i, d := range c.received(int(sent)) {
		id, plain := c.farB.open(t, d.data)
		if id != uint32(i+1) {
			t.Fatalf("record %d has id %d", i, id)
		}
		w := binary.BigEndian.Uint16(plain[packet.IPv4Len+2:])
		n := int(binary.BigEndian.Uint32(plain[len(plain)-4:])) + 1
		if n <= last[w] {
			t.Fatalf("packet %d of worker %d came behind %d", n, w, last[w])
		}
		last[w] = n
	}
	if got := c.out().c; got.C2C.Load() != sent || c.engine.Stats().C2COut != sent {
		t.Errorf("%d taken over of %d", got.C2C.Load(), sent)
	}
}

// From socket to socket with all workers running, and what the statistics say.
func TestClientToClientEndToEnd(t *testing.T) {
	c := newClients(t, withPolicy(C2CInside))
	c.engine.Start()
	sender := udp.NewSender(64)
	f := between("10.9.0.2", "10.9.0.3")
	for round := range 10 {
		var want [][]byte
		var runs []udp.Run
		for i := range 30 {
			want = append(want, f.udp(uint16(i), text(500, uint32(round))))
			runs = append(runs, udp.Run{Remote: addrPort("127.0.0.1:1194"), Data: c.farA.seal(want[i])})
		}
		if r := sender.Send(c.far, runs); r.Sent != 30 {
			t.Fatalf("sent %+v", r)
		}
		c.wantPlain(c.farB, uint32(30*round+1), want)
	}
	eventually(t, "all is counted", func() bool {
		s := c.engine.Stats()
		return s.Socket == 300 && s.C2C == 300 && s.C2COut == 300 && s.InFlight == 0 && s.Packets == 300
	})
	if s := c.engine.Stats(); s.Delivered != 0 || s.C2CBytes != 300*528 {
		t.Errorf("%d delivered, %d bytes across", s.Delivered, s.C2CBytes)
	}
}
