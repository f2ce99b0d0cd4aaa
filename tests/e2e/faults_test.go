// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"github.com/ovpn-xdp/ovpn-xdp/internal/admin"
	"github.com/ovpn-xdp/ovpn-xdp/internal/netdev"
	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
)

// awaitNIC waits until eth0 is in a state on a rung.
func (g *gateway) awaitNIC(state, rung string) {
	g.t.Helper()
	var n *admin.NIC
	eventually(g.t, fmt.Sprintf("eth0 %s on rung %s", state, rung), func() bool {
		n = g.nic(g.status(), "eth0")
		return n.State == state && n.Rung == rung
	})
}

// steersNow checks that records take the rung after a NIC came back.
func (g *gateway) steersNow(from *testlab.Namespace, to netip.Addr) {
	g.t.Helper()
	before := g.status().Totals.In.Steered
	mustPing(g.t, from, to, 10)
	if s := g.settled(); s.Totals.In.Steered < before+10 {
		g.t.Errorf("%s: %d of 10 records steered", g.name, s.Totals.In.Steered-before)
	}
}

// TestNICComesAndGoes deletes the NIC, lays it anew, sets it down and up and
// changes its MTU under a running gateway.
func TestNICComesAndGoes(t *testing.T) {
	long(t)
	for _, rung := range []string{"xdp", "tc", "xdp-generic"} {
		t.Run(rung, func(t *testing.T) {
			t.Parallel()
			d := newBed(t, testlab.Veth{NoNeighbours: true})
			a, b := d.runA(rung).start(), d.runB("socket").start()
			e := a.watch()
			d.connect(a, b, tunnel{id: 1})
			a.steersNow(d.b, innerA4)

			d.a.Output("ip", "link", "del", "eth0")
			a.awaitNIC(admin.NICAbsent, "socket")
			d.lay()
			a.awaitNIC(admin.NICAttached, rung)
			untilPing(t, d.b, innerA4)
			a.steersNow(d.b, innerA4)

			for range 2 {
				d.a.Output("ip", "link", "set", "eth0", "down")
				if n := pings(t, d.b, innerA4, 1, 2e8); n != 0 {
					t.Error("a ping was answered through a NIC that is down")
				}
				d.a.Output("ip", "link", "set", "eth0", "up")
				untilPing(t, d.b, innerA4)
				a.awaitNIC(admin.NICAttached, rung)
				a.steersNow(d.b, innerA4)
			}

			for _, mtu := range []string{"1300", "3000", "1500"} {
				d.a.Output("ip", "link", "set", "eth0", "mtu", mtu)
				d.b.Output("ip", "link", "set", "eth0", "mtu", mtu)
				untilPing(t, d.b, innerA4)
				a.awaitNIC(admin.NICAttached, rung)
				a.steersNow(d.b, innerA4)
				transfer(t, d.b, d.a, innerB4, innerA4, 256<<10)
			}
			if len(e.of(admin.EventNIC)) < 4 {
				t.Errorf("events %+v: want at least those of losing and finding the NIC", e.of(admin.EventNIC))
			}
			a.stop()
			b.stop()
		})
	}
}

// foreign is an XDP program of somebody else on eth0, attached by netlink or
// by a link.
func foreign(t *testing.T, ns *testlab.Namespace, byLink bool) *ebpf.Program {
	t.Helper()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "foreign", Type: ebpf.XDP, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	if !byLink {
		pin := fmt.Sprintf("/sys/fs/bpf/%s-foreign", ns.Name())
		if err := p.Pin(pin); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(pin)
		ns.Output("ip", "link", "set", "dev", "eth0", "xdpdrv", "pinned", pin)
		return p
	}
	ns.Do(func() {
		l, err := link.AttachXDP(link.XDPOptions{Program: p, Interface: ns.Link("eth0").Index, Flags: link.XDPDriverMode})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
	})
	return p
}

// TestSlotTaken starts on a NIC that carries somebody else's XDP program: it
// must be named, never evicted, and tc must do instead.
func TestSlotTaken(t *testing.T) {
	long(t)
	for _, byLink := range []bool{false, true} {
		t.Run(fmt.Sprint("byLink=", byLink), func(t *testing.T) {
			d := newBed(t, testlab.Veth{})
			program := foreign(t, d.a, byLink)
			info, err := program.Info()
			if err != nil {
				t.Fatal(err)
			}
			id, _ := info.ID()
			still := func() {
				t.Helper()
				if l := d.a.Link("eth0"); !l.XDP.Attached || l.XDP.ProgID != uint32(id) {
					t.Errorf("the other program was evicted: %+v", l.XDP)
				}
			}
			for _, mode := range []string{"xdp", "xdp-zerocopy", "xdp-generic"} {
				code, text := d.runA(mode).refused()
				want := regexp.MustCompile(fmt.Sprintf("eth0: XDP slot held by program %d `foreign`.*; use --mode tc", id))
				if code != 1 || !want.MatchString(text) {
					t.Errorf("%s: exit code %d, %s; want 1 and %s", mode, code, text, want)
				}
				still()
			}
			a, b := d.runA("auto").start(), d.runB("socket").start()
			n := a.nic(a.status(), "eth0")
			if n.Rung != "tc" || !strings.Contains(n.WhyNotHigher, fmt.Sprintf("program %d `foreign`", id)) {
				t.Errorf("auto is on %s because %q", n.Rung, n.WhyNotHigher)
			}
			d.connect(a, b, tunnel{id: 1})
			a.steersNow(d.b, innerA4)
			still()
			a.stopBesides()
			still()
			b.stop()
		})
	}
}

// stopBesides is stop where somebody else's program stays on the NIC.
func (g *gateway) stopBesides() {
	g.t.Helper()
	nics := g.nics
	g.nics = nil
	g.stop()
	g.nics = nics
}

// TestSecondGateway starts another gateway on the same NIC and with the same name.
func TestSecondGateway(t *testing.T) {
	long(t)
	d := newBed(t, testlab.Veth{})
	first, b := d.runA("xdp").start(), d.runB("socket").start()
	d.connect(first, b, tunnel{id: 1})
	second := func(suffix, dev, listen, mode string) *gateway {
		g := newGateway(t, d.lab, d.a, suffix, []string{"eth0"}, "--listen", listen, "--mode", mode)
		g.dev = dev
		return g
	}
	for _, tc := range []struct {
		what, want string
		g          *gateway
	}{
		{"slot held", "eth0: XDP slot held by program", second("2", "tun1", ":1195", "xdp")},
		{"port in use", "1194", second("3", "tun1", ":1194", "socket")},
		{"device in use", "tun0", second("4", "tun0", ":1195", "socket")},
	} {
		code, text := tc.g.refused()
		if code != 1 || !strings.Contains(text, tc.want) {
			t.Errorf("%s: exit code %d, %s; want 1 and %q", tc.what, code, text, tc.want)
		}
		if tc.what != "device in use" {
			if _, err := linkIn(d.a, tc.g.dev); err == nil {
				t.Errorf("%s: left %s behind", tc.what, tc.g.dev)
			}
		}
		first.steersNow(d.b, innerA4)
	}
	// The same name is refused whatever else is asked for.
	same := second("a", "tun1", ":1195", "socket")
	same.dir = first.dir
	code, text := same.refused()
	if pid := fmt.Sprint(first.proc.PID()); code != 1 || !strings.Contains(text, pid) {
		t.Errorf("same name: exit code %d, %s; want 1 and pid %s", code, text, pid)
	}
	// auto takes tc beside it; each sees its own records.
	other := second("5", "tun1", ":1195", "auto").start()
	if n := other.nic(other.status(), "eth0"); n.Rung != "tc" || !strings.Contains(n.WhyNotHigher, "ovpn_xdp") {
		t.Errorf("the second is on %s because %q", n.Rung, n.WhyNotHigher)
	}
	first.steersNow(d.b, innerA4)
	other.stopBesides()
	first.steersNow(d.b, innerA4)
	first.stop()
	b.stop()
}

func linkIn(ns *testlab.Namespace, name string) (l netdev.Link, err error) {
	err = ns.Run(func() error {
		l, err = netdev.LinkByName(name)
		return err
	})
	return l, err
}

// TestRefusedStart starts gateways that lack something. The lack is named, the
// exit code is right, and nothing is left.
func TestRefusedStart(t *testing.T) {
	long(t)
	testlab.RequireTool(t, "setpriv", "prlimit")
	without := func(caps string) []string {
		return []string{"setpriv", "--bounding-set", caps, "--"}
	}
	for _, tc := range []struct {
		name, mode string
		wrap       []string
		args       []string
		code       int
		want       string
	}{
		{"without CAP_BPF", "xdp", without("-bpf,-sys_admin"), nil, 1, "CAP_BPF"},
		{"without CAP_NET_ADMIN", "xdp", without("-net_admin"), nil, 1, "CAP_NET_ADMIN"},
		{"without CAP_NET_RAW", "xdp", without("-net_raw"), nil, 1, "CAP_NET_RAW"},
		{"tc without CAP_NET_RAW", "tc", without("-net_raw"), nil, 1, "CAP_NET_RAW"},
		{"little locked memory", "xdp", append([]string{"prlimit", "--memlock=65536:65536", "--"}, without("-ipc_lock,-sys_resource")...),
			nil, 1, "RLIMIT_MEMLOCK"},
		{"ring size 0", "xdp", nil, []string{"--ring-size", "0"}, 2, "ring size 0"},
		{"ring size 2^20", "xdp", nil, []string{"--ring-size", "1048576"}, 2, "ring size 1048576"},
		{"zero-copy on veth", "xdp-zerocopy", nil, nil, 1, "eth0"},
		{"pins outside a bpffs", "xdp", nil, []string{"--pin-dir", scratch}, 1, scratch},
		{"no such NIC", "xdp", nil, []string{"--nic", "eth9"}, 1, "eth9"},
		{"no such queue", "xdp", nil, []string{"--queues", "7"}, 1, "7"},
		{"foreign listener", "xdp", nil, []string{"--listen", "198.51.100.1:1195"}, 1, "198.51.100.1:1195"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := newBed(t, testlab.Veth{})
			g := d.runA(tc.mode, tc.args...)
			g.wrap = tc.wrap
			code, text := g.refused()
			if code != tc.code || !strings.Contains(text, tc.want) {
				t.Errorf("exit code %d, want %d and %q in:\n%s", code, tc.code, tc.want, text)
			}
			g.nothingLeft()
		})
	}
}

// TestOddStart starts where something is unusual and must not matter.
func TestOddStart(t *testing.T) {
	long(t)
	for _, tc := range []struct {
		name string
		wrap []string
		args []string
		said string
	}{
		{"ring size 511", nil, []string{"--ring-size", "511"}, "512"},
		{"ring size 64", nil, []string{"--ring-size", "64"}, ""},
		{"bpffs not mounted", []string{"unshare", "--mount", "--propagation", "private", "sh", "-c",
			`while umount /sys/fs/bpf 2>/dev/null; do :; done; exec "$@"`, "sh"}, nil, ""},
		{"one queue of two", nil, []string{"--queues", "0"}, ""},
		{"no offloads, single records", nil, []string{"--no-tun-offload", "--no-udp-gso", "--no-udp-gro", "--batch", "1", "--prefetch", "0"}, ""},
		{"two workers", nil, []string{"--workers", "2"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := newBed(t, testlab.Veth{WireLike: true, Queues: 2})
			a, b := d.runA("xdp", tc.args...), d.runB("tc").start()
			a.wrap = tc.wrap
			a.start()
			if tc.said != "" && !strings.Contains(a.proc.Output(), tc.said) {
				t.Errorf("the log does not say %q:\n%s", tc.said, a.proc.Output())
			}
			if n := a.nic(a.status(), "eth0"); tc.name == "one queue of two" && (n.Queues != 1 || len(n.MissingQueues) != 1 || n.MissingQueues[0] != 1) {
				t.Errorf("bound %d queues, missing %v", n.Queues, n.MissingQueues)
			}
			d.connect(a, b, tunnel{id: 1})
			mustPing(t, d.b, innerA4, 5)
			transfer(t, d.b, d.a, innerB4, innerA4, 1<<20)
			if s := a.settled(); s.Totals.In.Delivered == 0 {
				t.Error("nothing was delivered")
			}
			a.stop()
			b.stop()
		})
	}
}
