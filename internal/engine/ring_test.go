// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"net/netip"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/steer"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/reason"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/udp"
)

// Frames from the ring to the TUN.
func TestRingBurstAllocatesNothing(t *testing.T) {
	g := newGateway(t)
	a := g.attach(steer.ModeXDP, 2048)
	if err := a.Accept(true); err != nil {
		t.Fatal(err)
	}
	w := &ring{lease: ringBurst, sock: a.Sockets()[0]}
	w.opener, w.inner = g.engine.newInbound(0)
	sender := udp.NewSender(1)
	next := uint32(0)
	pkts := inner4().stream(40*(allocRuns+1), 1300)
	runs := make([][]udp.Run, allocRuns+1)
	for i := range runs {
		var sealed []byte
		for _, p := range pkts[i*40 : i*40+40] {
			sealed = append(sealed, g.far.seal(p)...)
		}
		runs[i] = []udp.Run{{Remote: g.conn.Addr(), Data: sealed, SegmentSize: len(sealed) / 40}}
	}
	c := w.opener.Counters
	if n := testing.AllocsPerRun(allocRuns, func() {
		sender.Send(g.peerConn, runs[next])
		next++
		end := time.Now().Add(patience)
		for c.Taken.Load() < uint64(next)*40 && time.Now().Before(end) {
			w.burst()
		}
	}); n != 0 {
		t.Errorf("%v allocations per burst", n)
	}
	if d := c.Delivered.Load(); d != uint64(len(pkts)) || c.Fated() != d {
		t.Errorf("%d delivered of %d", d, len(pkts))
	}
	wantDrops(t, c, nil)
	if n := a.Sockets()[0].Outstanding(); n != 0 {
		t.Errorf("%d frames were not given back", n)
	}
}

// A frame that is none costs only itself and goes back to the driver like all others.
func TestBadFrameIsCounted(t *testing.T) {
	g := newGateway(t)
	a := g.attach(steer.ModeXDP, 256)
	if err := a.Accept(true); err != nil {
		t.Fatal(err)
	}
	w := &ring{lease: ringBurst, sock: a.Sockets()[0]}
	w.opener, w.inner = g.engine.newInbound(0)
	runs := make([]udp.Run, 3)
	for i := range runs {
		runs[i] = udp.Run{Remote: g.conn.Addr(), Data: g.far.seal(numbered(uint32(i)))}
	}
	if r := udp.NewSender(3).Send(g.peerConn, runs); r.Sent != 3 {
		t.Fatalf("sent %+v", r)
	}
	n := 0
	eventually(t, "three frames", func() bool {
		n += w.sock.Lease(w.frames[n:ringBurst])
		return n == 3
	})
	w.frames[1].Data[14] = 0x46 // an option appeared on the way
	w.open(w.frames[:3])
	w.inner.flush()
	if err := w.sock.GiveBack(w.frames[:3]); err != nil {
		t.Fatal(err)
	}
	wantDrops(t, w.opener.Counters, drops{reason.BadFrame: 1})
	if c := w.opener.Counters; c.Delivered.Load() != 2 || c.Taken.Load() != 3 || c.Fated() != 3 {
		t.Errorf("%d delivered of %d", c.Delivered.Load(), c.Taken.Load())
	}
	if got := g.peer.Endpoint().Local; got != netip.MustParseAddrPort("192.0.2.2:1194") {
		t.Errorf("local address %s was not learned from the frame", got)
	}
}
