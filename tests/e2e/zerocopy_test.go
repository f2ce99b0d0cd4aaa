// SPDX-License-Identifier: Apache-2.0

//go:build guest

package e2e

import (
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
)

// TestZeroCopyVM needs two NICs of a virtual machine that are joined back to
// back and grant zero-copy, by default eth0 and eth1; OVPN_XDP_ZC_NICS names
// others. They move into two namespaces and come back when those are removed.
func TestZeroCopyVM(t *testing.T) {
	names := strings.Split(os.Getenv("OVPN_XDP_ZC_NICS"), ",")
	if len(names) != 2 {
		names = []string{"eth0", "eth1"}
	}
	d := &bed{t: t, lab: testlab.New(t)}
	d.a, d.b = d.lab.Namespace("a"), d.lab.Namespace("b")
	for i, end := range []struct {
		ns     *testlab.Namespace
		v4, v6 netip.Addr
	}{{d.a, outerA4, outerA6}, {d.b, outerB4, outerB6}} {
		nic := names[i]
		if out, err := run("ip", "link", "set", nic, "netns", end.ns.Name()); err != nil {
			t.Fatal(out, err)
		}
		// In good time: the namespace's end would also bring a NIC back, but later.
		t.Cleanup(func() { _ = end.ns.Command("ip", "link", "set", nic, "netns", "1").Run() })
		end.ns.Output("ip", "link", "set", nic, "up")
		end.ns.Address(nic, netip.PrefixFrom(end.v4, 24))
		end.ns.Address(nic, netip.PrefixFrom(end.v6, 64))
	}
	a, b := d.runA("xdp-zerocopy"), d.runB("xdp-zerocopy")
	a.nics, b.nics = names[:1], names[1:]
	a.start()
	b.start()
	for round := range 2 {
		for i, g := range []*gateway{a, b} {
			g.onRung(names[i], "xdp-zerocopy")
			g.do("status", "--require", "xdp-zerocopy")
			for _, r := range g.nic(g.status(), names[i]).Rings {
				if !r.ZeroCopy {
					t.Errorf("queue %d of %s is in copy mode", r.Queue, names[i])
				}
			}
		}
		carries(t, d, a, b, tunnel{id: 1 + 2*round})
		carries(t, d, a, b, tunnel{id: 2 + 2*round, remoteA: outerA6, remoteB: outerB6})
		// Drivers reset their queues on attach; afterwards it has to work again.
		a.do("detach", names[0])
		a.do("attach", names[0], "--mode", "xdp-zerocopy")
		untilPing(t, d.b, outerA4)
	}
	for _, g := range []*gateway{a, b} {
		s := g.settled()
		if s.Totals.In.Steered == 0 || s.Totals.In.Rungs["xdp-zerocopy"].Records == 0 {
			t.Errorf("%s: %+v", g.name, s.Totals.In)
		}
		for reason, n := range s.Totals.Drops {
			if n > 0 && reason != "no_route" && reason != "no_peer_key" {
				t.Errorf("%s: %d dropped: %s", g.name, n, reason)
			}
		}
		g.stop()
	}
}
