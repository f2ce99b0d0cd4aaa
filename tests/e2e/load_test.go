// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
)

// TestHostileLoad sends forged records in the name of a peer, and records of
// another peer with stolen inside addresses, while TCP runs both ways. Only they
// are lost, each for its own reason.
func TestHostileLoad(t *testing.T) {
	long(t)
	for _, rung := range []string{"xdp", "tc", "socket"} {
		t.Run(rung, func(t *testing.T) {
			d := newBed(t, testlab.Veth{WireLike: true, Queues: 2})
			a, b := d.runA(rung).start(), d.runB(rung).start()
			d.connect(a, b, tunnel{id: 1})
			to := newSink(t, d.a, netip.AddrPortFrom(innerA4, sinkPort))
			thief := d.inject(a, 7, outerB4, netip.MustParseAddr("10.9.0.7"), to)
			// In the name of peer 1, with a key nobody has.
			forger := &injector{session: thief.session, wire: thief.wire, dst: thief.dst, inner: thief.inner, sink: to,
				src: netip.AddrPortFrom(outerB4, port)}
			forged := forger.good()
			forged[1], forged[2], forged[3], forged[0] = 0, 0, 1, 0x48
			forgedFrame := forger.frame(forged)
			var sent uint64
			quit := make(chan struct{})
			var done sync.WaitGroup
			done.Go(func() {
				stolen := udpPacket(netip.AddrPortFrom(innerB4, 1), to.addr, numbered(0, 100))
				tick := time.NewTicker(time.Millisecond)
				defer tick.Stop()
				for {
					select {
					case <-quit:
						return
					case <-tick.C:
					}
					for range 3 {
						thief.wire.send(forgedFrame)
						thief.wire.send(thief.frame(thief.session.record(stolen)))
						sent++
					}
				}
			})
			for range 3 {
				transfer(t, d.b, d.a, innerB4, innerA4, 4<<20)
				transfer(t, d.a, d.b, innerA6, innerB6, 4<<20)
			}
			close(quit)
			done.Wait()
			s := a.settled()
			drops := s.Totals.Drops
			lost := drops["ring_full"] + drops["fill_empty"] + drops["xsk_dropped"]
			if drops["auth"] > sent || drops["spoofed_source"] > sent || drops["auth"]+drops["spoofed_source"]+lost < 2*sent {
				t.Errorf("sent %d forged and %d stolen: drops %v", sent, sent, drops)
			}
			if drops["replay"]+drops["no_key"]+drops["bad_inner"] > 0 || to.total.Load() > 0 {
				t.Errorf("drops %v, %d stolen payloads delivered", drops, to.total.Load())
			}
			a.stop()
			b.settled()
			b.stop()
		})
	}
}

// TestAggregate sends 40 records as one 56 KiB segmentation aggregate over a
// veth that carries it whole. No ring holds it, so every rung has to get at the
// records some other way, and all of them arrive once.
func TestAggregate(t *testing.T) {
	long(t)
	for _, rung := range []string{"xdp", "tc", "socket", "xdp-generic"} {
		t.Run(rung, func(t *testing.T) {
			d := newBed(t, testlab.Veth{})
			g := d.runA(rung).start()
			to := newSink(t, d.a, netip.AddrPortFrom(innerA4, sinkPort))
			x := d.inject(g, 7, outerB4, innerB4, to)
			conn := listenUDP(t, d.b, x.src)
			const records, rounds = 40, 5
			for range rounds {
				var aggregate []byte
				size := 0
				for range records {
					x.number++
					r := x.session.record(udpPacket(x.inner, to.addr, numbered(x.number-1, 1300)))
					size = len(r)
					aggregate = append(aggregate, r...)
				}
				if _, _, err := conn.WriteMsgUDPAddrPort(aggregate, segmentMessage(size), x.dst); err != nil {
					t.Fatal(err)
				}
			}
			to.exactly(t, 0, records*rounds)
			s := g.settled()
			if s.Totals.In.Delivered != records*rounds {
				t.Errorf("totals %+v", s.Totals)
			}
			if v := g.nic(s, "eth0").Verdicts; rung == "xdp-generic" && v["oversize"].Packets != rounds {
				t.Errorf("verdicts %v: want %d aggregates passed as oversize", v, rounds)
			}
			g.stop()
		})
	}
}

// TestReplacedPeer deletes a peer and makes it anew under the same id while
// its old records still come: nothing of the old session is accepted.
func TestReplacedPeer(t *testing.T) {
	long(t)
	d := newBed(t, testlab.Veth{})
	g := d.runA("xdp").start()
	to := newSink(t, d.a, netip.AddrPortFrom(innerA4, sinkPort))
	x := d.inject(g, 7, outerB4, innerB4, to)
	conn := listenUDP(t, d.b, x.src)
	old := x.good()
	sendTo(t, conn, x.dst, old)
	to.exactly(t, 0, 1)
	g.do("peer", "del", "7")
	y := d.inject(g, 7, outerB4, innerB4, to)
	y.number = 1
	sendTo(t, conn, x.dst, old)
	sendTo(t, conn, x.dst, x.good())
	sendTo(t, conn, x.dst, y.good())
	to.exactly(t, 0, 2)
	if s := g.settled(); s.Totals.Drops["auth"] != 2 || s.Totals.In.Delivered != 2 {
		t.Errorf("totals %+v", s.Totals)
	}
	g.stop()
}
