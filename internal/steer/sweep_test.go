// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/ovpn-xdp/ovpn-xdp/internal/netdev"
	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
)

// tcProgram hands everything on to the next filter.
func tcProgram(t *testing.T) *ebpf.Program {
	t.Helper()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.SchedCLS, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, tcUnspec), asm.Return()},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// leftovers lays what a killed gateway may leave: pins of two devices and
// a TUN, pairs with their mark and without, filters.
func (n *network) leftovers(gateway string) {
	n.t.Helper()
	spec := &ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1}
	for _, device := range []string{"eth0", "eth9.7", "tun0"} {
		m, err := ebpf.NewMap(spec)
		if err != nil {
			n.t.Fatal(err)
		}
		defer m.Close()
		path := pinPath(n.pinDir, gateway, device)
		if err := os.MkdirAll(path, 0o700); err != nil {
			n.t.Fatal(err)
		}
		if err := m.Pin(filepath.Join(path, "peers")); err != nil {
			n.t.Fatal(err)
		}
	}
	prog := tcProgram(n.t)
	n.host.Do(func() {
		// eth9 is gone and was marked; eth0 is there, and its pair was killed
		// before it had a mark.
		for device, marked := range map[string]bool{"eth9": true, "eth0": false} {
			near, far := pairNames(gateway, device)
			if err := netdev.CreateVeth(near, far, 1, 0); err != nil {
				n.t.Fatal(err)
			}
			if marked {
				if err := netdev.SetAlias(near, pairAlias(gateway)); err != nil {
					n.t.Fatal(err)
				}
			}
		}
		for _, device := range []string{"eth0", "lo"} {
			l, err := netdev.LinkByName(device)
			if err != nil {
				n.t.Fatal(err)
			}
			if err := netdev.AttachClsact(l.Index, prog.FD(), filterName(gateway), filterPriority); err != nil {
				n.t.Fatal(err)
			}
		}
	})
}

func (n *network) sweep(gateway string) {
	n.t.Helper()
	n.host.Do(func() {
		if err := Sweep(gateway, n.pinDir); err != nil {
			n.t.Error(err)
		}
	})
}

// remains lists the names of links and of filters that are left in the host.
func (n *network) remains() (links, filters []string) {
	n.t.Helper()
	n.host.Do(func() {
		list, err := netdev.LinkDump()
		if err != nil {
			n.t.Fatal(err)
		}
		for _, l := range list {
			links = append(links, l.Name)
			found, err := netdev.ClsactFilters(l.Index)
			if err != nil {
				n.t.Fatal(err)
			}
			for _, f := range found {
				filters = append(filters, f.Name)
			}
		}
	})
	slices.Sort(links)
	slices.Sort(filters)
	return links, filters
}

func TestSweep(t *testing.T) {
	n := newNetwork(t, testlab.Veth{})
	n.sweep("gw") // nothing there
	before, _ := n.remains()
	n.leftovers("other")
	n.host.Do(func() {
		// Somebody else's, in spite of its name or mark.
		for _, pair := range []struct{ near, far, alias string }{
			{"ovx-00000000-n", "far0", ""},
			{"ovx-00000001-n", "far1", pairAlias("gw2")},
			{"ovx-00000002-x", "far2", pairAlias("gw")},
			{"mine", "far3", pairAlias("gw")},
		} {
			if err := netdev.CreateVeth(pair.near, pair.far, 1, 0); err != nil {
				t.Fatal(err)
			}
			if err := netdev.SetAlias(pair.near, pair.alias); err != nil {
				t.Fatal(err)
			}
		}
	})
	others, otherFilters := n.remains()
	n.leftovers("gw")
	n.sweep("gw")
	links, filters := n.remains()
	if !slices.Equal(links, others) {
		t.Errorf("links %v, want %v", links, others)
	}
	if want := []string{filterName("other"), filterName("other")}; !slices.Equal(filters, want) || !slices.Equal(otherFilters, want) {
		t.Errorf("filters %v, want %v", filters, want)
	}
	root := filepath.Join(n.pinDir, "ovpn-xdp")
	if _, err := os.Stat(filepath.Join(root, "gw")); !os.IsNotExist(err) {
		t.Errorf("pins of the gateway: %v", err)
	}
	if _, err := os.Stat(filepath.Join(root, "other", "eth9_7", "peers")); err != nil {
		t.Errorf("pins of another gateway: %v", err)
	}
	n.sweep("gw")
	n.sweep("other")
	n.mustBeUnpinned()
	links, filters = n.remains()
	links = slices.DeleteFunc(links, func(name string) bool { return !slices.Contains(before, name) })
	if !slices.Equal(links, before) || len(filters) != 0 {
		t.Errorf("links %v, want %v; filters %v", links, before, filters)
	}
	for _, bad := range []string{"", "..", "a/b"} {
		if err := Sweep(bad, n.pinDir); err == nil {
			t.Errorf("gateway name %q was taken", bad)
		}
	}
}

// A plain folder in the place of a bpffs is not ours to clear.
func TestSweepWithoutBPFFS(t *testing.T) {
	n := newNetwork(t, testlab.Veth{})
	n.pinDir = t.TempDir()
	path := filepath.Join(n.pinDir, "ovpn-xdp", "gw", "eth0")
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
	n.sweep("gw")
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
	n.pinDir = filepath.Join(n.pinDir, "missing")
	n.sweep("gw")
}

// What an attachment leaves when its process is killed, on a device that the
// next start does not name.
func TestSweepFindsAPairByItsMark(t *testing.T) {
	n := newNetwork(t, testlab.Veth{})
	a := n.attach(n.options(ModeTC))
	near, _ := pairNames("gw", "eth0")
	if l := n.host.Link(near); l.Alias != pairAlias("gw") {
		t.Errorf("alias %q", l.Alias)
	}
	n.sweep("another")
	if !n.present(a) {
		t.Error("another gateway's start swept it")
	}
	n.host.Do(func() {
		if err := netdev.DeleteLink("eth0"); err != nil {
			t.Fatal(err)
		}
	})
	n.sweep("gw")
	if links, _ := n.remains(); !slices.Equal(links, []string{"lo"}) {
		t.Errorf("links %v", links)
	}
	n.mustBeUnpinned()
}
