// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"maps"
	"net"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/statickey"
)

// awaitListener waits until an address is in the BPF map of listeners, or is not.
func (g *gateway) awaitListener(pins string, at netip.AddrPort, want bool) {
	g.t.Helper()
	what := at.String() + " in the map of listeners"
	if !want {
		what = at.String() + " out of the map of listeners"
	}
	eventually(g.t, what, func() bool { return dumpListeners(g.t, pins)[at] == want })
}

// TestListenersFollowAddresses takes addresses from the host and gives them
// back. What comes for an address that is not the host's is only forwarded, so it
// must not be steered, not even with a listener configured for it.
func TestListenersFollowAddresses(t *testing.T) {
	long(t)
	testlab.RequireTool(t, "bpftool")
	for _, rung := range []string{"xdp", "tc"} {
		t.Run(rung, func(t *testing.T) {
			d := newBed(t, testlab.Veth{})
			const wildcard = 1195
			fixed4, fixed6 := netip.AddrPortFrom(outerA4, port), netip.AddrPortFrom(outerA6, port)
			g := newGateway(t, d.lab, d.a, "a", []string{"eth0"}, "--mode", rung, "--address", innerA4.String()+"/24",
				"--listen", fixed4.String(), "--listen", fixed6.String(), "--listen", ":"+strconv.Itoa(wildcard)).start()
			to := newSink(t, d.a, netip.AddrPortFrom(innerA4, sinkPort))
			x := d.inject(g, 7, outerB4, innerB4, to)
			pins := g.nic(g.status(), "eth0").Pins

			second4, second6 := netip.MustParseAddr("192.0.2.77"), netip.MustParseAddr("2001:db8::77")
			at := func(a netip.Addr) netip.AddrPort { return netip.AddrPortFrom(a, wildcard) }
			start := dumpListeners(t, pins)
			for l, want := range map[netip.AddrPort]bool{fixed4: true, fixed6: true, at(outerA4): true, at(outerA6): true,
				at(innerA4): true, at(second4): false, at(second6): false, netip.AddrPortFrom(innerA4, port): false} {
				if start[l] != want {
					t.Errorf("listener %s in the map: %v, want %v", l, start[l], want)
				}
			}

			x.wire.send(x.frame(x.good()))
			to.exactly(t, 0, 1)

			// Without its address a listener is none.
			d.a.Output("ip", "addr", "del", outerA4.String()+"/24", "dev", "eth0")
			g.awaitListener(pins, fixed4, false)
			g.awaitListener(pins, at(outerA4), false)
			before := g.tally()
			lost := x.frame(x.good())
			x.wire.send(lost)
			before.verdicts["not_listener"]++
			g.reaches(t, "record for an address that has gone", before)
			if l := dumpListeners(t, pins); !l[fixed6] || !l[at(outerA6)] {
				t.Errorf("listeners %v: the other family's went too", l)
			}
			d.a.Address("eth0", netip.PrefixFrom(outerA4, 24))
			g.awaitListener(pins, fixed4, true)
			g.awaitListener(pins, at(outerA4), true)
			x.wire.send(lost)
			to.exactly(t, 0, 2)

			d.a.Output("ip", "-6", "addr", "del", outerA6.String()+"/64", "dev", "eth0")
			g.awaitListener(pins, fixed6, false)
			d.a.Address("eth0", netip.PrefixFrom(outerA6, 64))
			g.awaitListener(pins, fixed6, true)

			// A wildcard takes what is new, also on other devices.
			d.a.Address("eth0", netip.PrefixFrom(second4, 32))
			d.a.Address("lo", netip.PrefixFrom(second6, 128))
			for _, a := range []netip.Addr{second4, second6} {
				g.awaitListener(pins, at(a), true)
				if dumpListeners(t, pins)[netip.AddrPortFrom(a, port)] {
					t.Errorf("%s is a listener on the port of the fixed ones", a)
				}
			}
			steered := g.settled().Totals.In.Steered
			x.dst = at(second4)
			x.wire.send(x.frame(x.good()))
			to.exactly(t, 0, 3)
			if s := g.settled(); s.Totals.In.Steered != steered+1 {
				t.Errorf("a record to the new address was not steered: %+v", s.Totals.In)
			}
			d.a.Output("ip", "addr", "del", second4.String()+"/32", "dev", "eth0")
			d.a.Output("ip", "-6", "addr", "del", second6.String()+"/128", "dev", "lo")
			g.awaitListener(pins, at(second4), false)
			g.awaitListener(pins, at(second6), false)
			eventually(t, "the listeners of the start", func() bool { return maps.Equal(dumpListeners(t, pins), start) })
			g.stop()
		})
	}
}

// zoned is a link-local address of eth0 in a namespace, with the device by
// number: names would be looked up in the namespace of the test.
func zoned(ns *testlab.Namespace, a netip.Addr) netip.Addr {
	return a.WithZone(strconv.Itoa(ns.Link("eth0").Index))
}

// TestLinkLocalListener has a listener at a global and one at a link-local
// address. A peer gets its answers from the socket it used last.
func TestLinkLocalListener(t *testing.T) {
	long(t)
	for _, rung := range []string{"xdp", "tc", "socket"} {
		t.Run(rung, func(t *testing.T) {
			d := newBed(t, testlab.Veth{NoNeighbours: true})
			localA, localB := netip.MustParseAddr("fe80::a"), netip.MustParseAddr("fe80::b")
			d.a.Address("eth0", netip.PrefixFrom(localA, 64))
			d.b.Address("eth0", netip.PrefixFrom(localB, 64))
			const global, scoped = 1194, 1195
			g := newGateway(t, d.lab, d.a, "a", []string{"eth0"}, "--mode", rung, "--address", innerA4.String()+"/24",
				"--listen", netip.AddrPortFrom(outerA6, global).String(),
				"--listen", netip.AddrPortFrom(localA.WithZone("eth0"), scoped).String()).start()
			to := newSink(t, d.a, netip.AddrPortFrom(innerA4, sinkPort))
			g.do("peer", "add", "7", "--route", innerB4.String())
			key := newKey(t)
			g.do("key", "add", "7", "--cipher", "AES-128-GCM", "--key-file", key, "--role", "server")
			x := &injector{session: newSession(t, key, "AES-128-GCM", statickey.Client, 7, 0), sink: to,
				inner: netip.AddrPortFrom(innerB4, 7000)}
			inside := listenUDP(t, d.a, netip.AddrPortFrom(innerA4, 0))

			paths := []struct {
				conn *net.UDPConn
				to   netip.AddrPort
			}{
				{listenUDP(t, d.b, netip.AddrPortFrom(zoned(d.b, localB), injectorPort)), netip.AddrPortFrom(zoned(d.b, localA), scoped)},
				{listenUDP(t, d.b, netip.AddrPortFrom(outerB6, injectorPort)), netip.AddrPortFrom(outerA6, global)},
			}
			for round := range uint64(4) {
				path := paths[round%2]
				before := g.settled()
				for range 3 {
					sendTo(t, path.conn, path.to, x.good())
				}
				to.exactly(t, 0, x.number)
				after := g.settled()
				// The first one proves that the peer is here now, the others are steered.
				if n := after.Totals.In.Steered - before.Totals.In.Steered; rung == "socket" && n != 0 || n > 2 {
					t.Errorf("round %d: %d of 3 records steered", round, n)
				}
				if rung != "socket" {
					steered := after.Totals.In.Steered
					eventually(t, "a record steered", func() bool {
						sendTo(t, path.conn, path.to, x.good())
						to.exactly(t, 0, x.number)
						return g.settled().Totals.In.Steered > steered
					})
				}

				sendTo(t, inside, netip.AddrPortFrom(innerB4, 7000), numbered(round, 64))
				buf := make([]byte, 2048)
				_ = path.conn.SetReadDeadline(time.Now().Add(limit))
				n, from, err := path.conn.ReadFromUDPAddrPort(buf)
				if err != nil {
					t.Fatalf("round %d: no answer at %s: %v", round, path.conn.LocalAddr(), err)
				}
				if from.Addr().WithZone("") != path.to.Addr().WithZone("") || from.Port() != path.to.Port() {
					t.Errorf("round %d: the answer came from %s, want %s", round, from, path.to)
				}
				if plain, ok := x.open(buf[:n]); !ok {
					t.Errorf("round %d: the answer does not open", round)
				} else if number, ok := intact(plain[28:]); number != round || !ok {
					t.Errorf("round %d: the answer holds %x", round, plain)
				}
				if p := g.peer("7"); p.Remote.Addr().WithZone("") != path.conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().WithZone("") ||
					p.Local.WithZone("") != path.to.Addr().WithZone("") {
					t.Errorf("round %d: the peer is at %s and uses %s", round, p.Remote, p.Local)
				}
			}
			g.stop()
		})
	}
}
