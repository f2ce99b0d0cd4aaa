// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"math/rand/v2"
	"net/netip"
	"testing"
)

func TestLongestPrefix(t *testing.T) {
	table, _ := newTable(false)
	a := mustAdd(t, table, Config{ID: 1, Prefixes: prefixes("0.0.0.0/0", "::/0")}, 0)
	b := mustAdd(t, table, Config{ID: 2, Prefixes: prefixes("10.0.0.0/8", "2001:db8::/32")}, 0)
	c := mustAdd(t, table, Config{ID: 3, Prefixes: prefixes("10.9.0.0/16", "2001:db8:9::/48", "192.0.2.7/32")}, 0)
	want := map[string]*Peer{
		"10.9.1.1": c, "10.8.1.1": b, "11.0.0.1": a, "192.0.2.7": c, "192.0.2.8": a,
		"2001:db8:9::1": c, "2001:db8:8::1": b, "2001:db9::1": a, "fe80::1": a,
		"::ffff:10.9.1.1": a, // an IPv6 address, whatever it holds
	}
	check := func() {
		t.Helper()
		for s, owner := range want {
			addr := netip.MustParseAddr(s)
			if got := table.Route(addr); got != owner {
				t.Errorf("route of %s: %v, want %v", s, got, owner)
			}
			for _, p := range []*Peer{a, b, c} {
				if got := p.AllowsSource(addr); got != (p == owner) {
					t.Errorf("peer %d may send from %s: %v", p.ID, s, got)
				}
			}
		}
	}
	check()
	for s, owner := range map[string]*Peer{"10.0.0.0/8": b, "10.9.0.0/16": c, "10.9.0.0/17": nil, "10.0.0.0/9": nil, "::/0": a} {
		if got := table.Owner(netip.MustParsePrefix(s)); got != owner {
			t.Errorf("owner of %s: %v, want %v", s, got, owner)
		}
	}
	if table.Route(netip.Addr{}) != nil || a.AllowsSource(netip.Addr{}) || table.Owner(netip.Prefix{}) != nil {
		t.Error("no address has a peer")
	}
	if err := table.Remove(3, ReasonUser); err != nil {
		t.Fatal(err)
	}
	want["10.9.1.1"], want["2001:db8:9::1"], want["192.0.2.7"] = b, b, a
	check()
	if err := table.Remove(1, ReasonUser); err != nil {
		t.Fatal(err)
	}
	for s, owner := range want {
		if owner == a {
			want[s] = nil
		}
	}
	check()
}

// TestRoutesAgainstModel adds, changes and removes peers with random nested
// prefixes and looks up random addresses by going through all of them.
func TestRoutesAgainstModel(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 2))
	table, _ := newTable(false)
	owned := map[netip.Prefix]*Peer{}
	random := func() netip.Addr {
		if r.IntN(2) == 0 {
			return netip.AddrFrom4([4]byte{10, byte(r.IntN(4)), byte(r.IntN(4)), byte(r.IntN(256))})
		}
		return netip.AddrFrom16([16]byte{0xfd, byte(r.IntN(4)), 15: byte(r.IntN(256))})
	}
	choose := func() (list []netip.Prefix) {
		for range r.IntN(4) {
			addr := random()
			f, err := addr.Prefix(r.IntN(addr.BitLen()-7) + 8)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, f)
		}
		return list
	}
	forget := func(p *Peer) {
		for f, owner := range owned {
			if owner == p {
				delete(owned, f)
			}
		}
	}
	accepted := 0
	for step := range 3000 {
		id := uint32(r.IntN(30))
		p := table.Lookup(id)
		list := choose()
		valid := true
		for i, f := range list {
			if owner := owned[f]; owner != nil && owner != p {
				valid = false
			}
			for _, g := range list[:i] {
				valid = valid && f != g
			}
		}
		var err error
		switch {
		case p == nil:
			p, err = table.Add(Config{ID: id, Prefixes: list}, 0)
		case r.IntN(3) == 0:
			if err := table.Remove(id, ReasonUser); err != nil {
				t.Fatal(err)
			}
			forget(p)
			continue
		default:
			_, err = table.Set(id, Change{Prefixes: &list}, 0)
		}
		if (err == nil) != valid {
			t.Fatalf("step %d: %v: %v", step, list, err)
		}
		if valid {
			accepted++
			forget(p)
			for _, f := range list {
				owned[f] = p
			}
		}
		for range 20 {
			addr := random()
			var want *Peer
			longest := -1
			for f, owner := range owned {
				if f.Contains(addr) && f.Bits() > longest {
					want, longest = owner, f.Bits()
				}
			}
			if got := table.Route(addr); got != want {
				t.Fatalf("step %d: route of %s: %v, want %v", step, addr, got, want)
			}
		}
		if got := table.routes.Load().Size(); got != len(owned) {
			t.Fatalf("step %d: %d routes, want %d", step, got, len(owned))
		}
	}
	if accepted < 500 {
		t.Errorf("only %d of 3000 steps changed routes", accepted)
	}
}

// TestIDTree compares it with a map, over ids that share nodes and ids that don't.
func TestIDTree(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	var tree idTree
	have := map[uint32]*Peer{}
	for range 20000 {
		id := uint32(r.IntN(1<<24)) & []uint32{0xff, 0xffff, 0xffffff, 0xff00ff, 0x0303ff}[r.IntN(5)]
		switch p := have[id]; {
		case p == nil:
			have[id] = &Peer{ID: id}
			tree.add(id, have[id])
		case r.IntN(2) == 0:
			tree.remove(id)
			delete(have, id)
		}
		for _, probe := range []uint32{id, id ^ 1, id ^ 0x100, id ^ 0x10000, uint32(r.IntN(1 << 24))} {
			if got := tree.get(probe); got != have[probe] {
				t.Fatalf("id %#x: %v, want %v", probe, got, have[probe])
			}
		}
		if tree.get(id|1<<24) != nil {
			t.Fatal("found by 25 bits")
		}
	}
	for id := range have {
		tree.remove(id)
	}
	for i := range tree.root {
		m := tree.root[i].Load()
		for j := 0; m != nil && j < 256; j++ {
			if m.leaf[j].Load() != nil {
				t.Fatalf("leaf %02x%02x is left", i, j)
			}
		}
	}
}
