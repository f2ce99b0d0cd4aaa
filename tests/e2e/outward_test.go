// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/packet"
)

// nftCounter reads the packets of the only counter in a table.
func nftCounter(t *testing.T, ns *testlab.Namespace, table string) uint64 {
	t.Helper()
	var list struct {
		Nftables []struct {
			Rule *struct {
				Expr []struct {
					Counter *struct{ Packets uint64 }
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(ns.Output("nft", "-j", "list", "table", "inet", table)), &list); err != nil {
		t.Fatal(err)
	}
	for _, item := range list.Nftables {
		if item.Rule == nil {
			continue
		}
		for _, e := range item.Rule.Expr {
			if e.Counter != nil {
				return e.Counter.Packets
			}
		}
	}
	t.Fatalf("table %s has no counter", table)
	return 0
}

// TestMark drops outer packets by their mark: exactly those are lost, and
// traffic recovers afterwards.
func TestMark(t *testing.T) {
	long(t)
	testlab.RequireTool(t, "nft")
	d := newBed(t, testlab.Veth{})
	a, b := d.runA("xdp", "--mark", "1056").start(), d.runB("xdp").start()
	d.connect(a, b, tunnel{id: 1})
	mustPing(t, d.a, innerB4, 3)
	d.a.Output("nft", "add", "table", "inet", "marked")
	d.a.Output("nft", "add", "chain", "inet", "marked", "out", "{ type filter hook output priority 0; }")
	d.a.Output("nft", "add", "rule", "inet", "marked", "out", "meta", "mark", "1056", "counter", "drop")
	before := a.settled()
	const sent = 20
	if n := pings(t, d.a, innerB4, sent, 3e8); n != 0 {
		t.Errorf("%d pings were answered although their records are dropped", n)
	}
	after := a.settled()
	dropped := nftCounter(t, d.a, "marked")
	if out := after.Totals.Out.Packets - before.Totals.Out.Packets; dropped != sent || out != sent {
		t.Errorf("%d packets sealed, %d dropped by mark, want %d", out, dropped, sent)
	}
	d.a.Output("nft", "flush", "table", "inet", "marked")
	mustPing(t, d.a, innerB4, sent)
	a.stop()
	b.stop()
}

// TestMTU goes from the smallest outer MTU to jumbo frames, and lets inner
// packets be too large for the outer MTU.
func TestMTU(t *testing.T) {
	long(t)
	for _, tc := range []struct {
		outer, inner, ping int
		rungs              []string
		ipv6               bool
	}{
		{576, 504, 476, []string{"xdp", "tc", "socket"}, false},
		{1500, 1500, 3000, []string{"xdp", "tc", "socket"}, true}, // outer fragments
		{3000, 2900, 2800, []string{"xdp", "tc", "socket"}, true},
		{9200, 9000, 8900, []string{"xdp", "tc", "socket"}, true},
	} {
		for _, rung := range tc.rungs {
			t.Run(fmt.Sprintf("outer %d inner %d %s", tc.outer, tc.inner, rung), func(t *testing.T) {
				t.Parallel()
				d := newBed(t, testlab.Veth{MTU: tc.outer, WireLike: true})
				run := func(ns *testlab.Namespace, suffix string, addresses ...string) *gateway {
					args := []string{"--mode", rung, "--listen", ":1194", "--mtu", fmt.Sprint(tc.inner)}
					for _, a := range addresses {
						if tc.ipv6 || !strings.Contains(a, ":") {
							args = append(args, "--address", a)
						}
					}
					return newGateway(t, d.lab, ns, suffix, []string{"eth0"}, args...).start()
				}
				a := run(d.a, "a", innerA4.String()+"/24", innerA6.String()+"/64")
				b := run(d.b, "b", innerB4.String()+"/24", innerB6.String()+"/64")
				d.connect(a, b, tunnel{id: 1})
				mustPing(t, d.a, innerB4, 5, "-s", fmt.Sprint(tc.ping))
				transfer(t, d.a, d.b, innerA4, innerB4, 2<<20)
				if tc.ipv6 {
					mustPing(t, d.b, innerA6, 5, "-s", fmt.Sprint(tc.ping))
					transfer(t, d.b, d.a, innerB6, innerA6, 2<<20)
				}
				for _, g := range []*gateway{a, b} {
					for reason, n := range g.settled().Totals.Drops {
						if n > 0 && reason != "no_route" && reason != "no_peer_key" {
							t.Errorf("%s: %d dropped: %s", g.name, n, reason)
						}
					}
					g.stop()
				}
			})
		}
	}
}

// synMSS connects from one namespace to the other by TCP and returns the MSS
// of the SYN as it arrives.
func synMSS(t *testing.T, from, to *testlab.Namespace, src, dst netip.Addr) uint16 {
	t.Helper()
	l := listenTCP(t, to, netip.AddrPortFrom(dst, 0))
	tap := newTap(t, to, "tun0")
	at := l.Addr().(*net.TCPAddr).AddrPort()
	dialTCP(t, from, src, at)
	var mss uint16
	tap.frames(false, func(p []byte) bool {
		ip, ok := packet.ParseIP(p)
		if !ok || ip.Protocol != packet.ProtoTCP {
			return false
		}
		tcp := p[ip.HeaderLen:]
		if binary.BigEndian.Uint16(tcp[2:]) != at.Port() || tcp[13]&0x12 != 0x02 {
			return false
		}
		for o := tcp[20 : tcp[12]>>4*4]; len(o) > 1 && o[0] != 0; {
			if o[0] == 1 {
				o = o[1:]
				continue
			}
			if o[0] == 2 {
				mss = binary.BigEndian.Uint16(o[2:])
			}
			o = o[o[1]:]
		}
		return true
	})
	return mss
}

// TestMSSFix advertises a larger MSS than the tunnel takes and looks at what
// arrives, with the sender's gateway clamping, the receiver's, and neither.
func TestMSSFix(t *testing.T) {
	long(t)
	for _, tc := range []struct {
		a, b   string
		v4, v6 uint16
	}{
		{"auto", "off", 1380, 1360},
		{"off", "auto", 1380, 1360},
		{"off", "off", 3000, 3000},
		{"1300", "auto", 1260, 1240},
	} {
		t.Run(tc.a+" "+tc.b, func(t *testing.T) {
			d := newBed(t, testlab.Veth{})
			a, b := d.runA("xdp", "--mssfix", tc.a).start(), d.runB("xdp", "--mssfix", tc.b).start()
			d.connect(a, b, tunnel{id: 1})
			d.a.Output("ip", "route", "add", innerB4.String(), "dev", "tun0", "advmss", "3000")
			d.a.Output("ip", "-6", "route", "add", innerB6.String(), "dev", "tun0", "advmss", "3000")
			if mss := synMSS(t, d.a, d.b, innerA4, innerB4); mss != tc.v4 {
				t.Errorf("IPv4: MSS %d arrived, want %d", mss, tc.v4)
			}
			if mss := synMSS(t, d.a, d.b, innerA6, innerB6); mss != tc.v6 {
				t.Errorf("IPv6: MSS %d arrived, want %d", mss, tc.v6)
			}
			a.stop()
			b.stop()
		})
	}
}

// TestNoRoute sends to inner addresses that no peer has: counted, and
// answered as a router does.
func TestNoRoute(t *testing.T) {
	long(t)
	d := newBed(t, testlab.Veth{})
	g := d.runA("xdp").start()
	d.a.Output("ip", "route", "add", "10.99.0.0/16", "dev", "tun0")
	d.a.Output("ip", "-6", "route", "add", "fd00:99::/32", "dev", "tun0")
	for dst, want := range map[string]string{"10.99.0.1": "Destination Net Unreachable", "fd00:99::1": "No route"} {
		before := g.status().Totals.Drops["no_route"]
		out, _ := d.a.Command("ping", "-n", "-c", "1", "-W", "5", dst).CombinedOutput()
		if !strings.Contains(string(out), want) {
			t.Errorf("ping %s: %s; want %q", dst, out, want)
		}
		if n := g.status().Totals.Drops["no_route"]; n < before+1 {
			t.Errorf("ping %s: no_route %d, before %d", dst, n, before)
		}
	}
	g.stop()
}

// TestAnswersLeaveFromTheAddressUsed reaches a gateway at its second address.
func TestAnswersLeaveFromTheAddressUsed(t *testing.T) {
	long(t)
	for _, rung := range []string{"xdp", "socket"} {
		t.Run(rung, func(t *testing.T) {
			d := newBed(t, testlab.Veth{NoNeighbours: true})
			second := netip.MustParseAddr("192.0.2.77")
			a, b := d.runA(rung).start(), d.runB("socket").start()
			// Added while it runs: a wildcard listener has to follow.
			d.a.Address("eth0", netip.PrefixFrom(second, 32))
			d.connect(a, b, tunnel{id: 1, remoteA: second, remoteB: outerB4})
			mustPing(t, d.b, innerA4, 5)
			if p := b.peer("1"); p.Remote != netip.AddrPortFrom(second, port) || len(b.watch().all(false)) != 0 {
				t.Errorf("the peer is at %s, want %s", p.Remote, second)
			}
			s := a.settled()
			if p := a.peer("1"); p.Local != second {
				t.Errorf("local address %s, want %s", p.Local, second)
			}
			if rung == "xdp" && s.Totals.In.Steered < 4 {
				t.Errorf("records to the new address are not steered: %+v", s.Totals.In)
			}
			before := b.settled().Totals.In.Socket
			mustPing(t, d.a, innerB4, 5)
			if n := b.settled().Totals.In.Socket - before; n < 5 {
				t.Errorf("%d records arrived", n)
			}
			a.stop()
			b.stop()
		})
	}
}

// TestGatewayWithoutNIC runs by socket alone.
func TestGatewayWithoutNIC(t *testing.T) {
	long(t)
	d := newBed(t, testlab.Veth{})
	a, b := d.runA("auto"), d.runB("xdp").start()
	a.nics = nil
	a.start()
	d.connect(a, b, tunnel{id: 1})
	mustPing(t, d.b, innerA4, 5)
	if _, errs, code := a.try("status", "--require", "xdp"); code != 3 || !strings.Contains(errs, "xdp") {
		t.Errorf("status --require xdp: %d, %s; want 3", code, errs)
	}
	a.do("status", "--require", "socket")
	b.do("status", "--require", "xdp")
	if _, _, code := b.try("status", "--require", "xdp-zerocopy"); code != 3 {
		t.Errorf("status --require xdp-zerocopy on a veth: %d, want 3", code)
	}
	a.nics = []string{"eth0"}
	a.stop()
	b.stop()
}
