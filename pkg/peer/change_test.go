// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"errors"
	"net/netip"
	"slices"
	"sync"
	"testing"
)

func TestSet(t *testing.T) {
	table, heard := newTable(false)
	p := mustAdd(t, table, Config{ID: 7, Remote: addrPort("192.0.2.1:1194"), Prefixes: prefixes("10.9.0.0/24")}, 0)
	q := mustAdd(t, table, Config{ID: 8, Prefixes: prefixes("10.8.0.0/24")}, 0)
	heard.take()
	if _, err := table.Set(9, Change{}, 0); !errors.Is(err, ErrNotFound) {
		t.Errorf("changing nobody: %v", err)
	}
	if _, err := table.Set(7, Change{Prefixes: ptr(prefixes("10.7.0.0/24", "10.8.0.0/24"))}, 0); !errors.Is(err, ErrExists) {
		t.Errorf("taking another's route: %v", err)
	}
	heard.want(t, nil)
	if !slices.Equal(p.Prefixes(), prefixes("10.9.0.0/24")) || table.Owner(prefixes("10.7.0.0/24")[0]) != nil {
		t.Error("the refused change changed something")
	}

	got, err := table.Set(7, Change{Prefixes: ptr(prefixes("10.9.0.0/24", "fd00:9::/64"))}, 0)
	if err != nil || got != p {
		t.Fatal(got, err)
	}
	heard.want(t, []*Peer{p})
	for s, want := range map[string]*Peer{"10.9.0.1": p, "fd00:9::1": p, "10.8.0.1": q, "10.7.0.1": nil} {
		if got := table.Route(netip.MustParseAddr(s)); got != want {
			t.Errorf("route of %s: %v, want %v", s, got, want)
		}
	}
	if _, err := table.Set(7, Change{Prefixes: new([]netip.Prefix)}, 0); err != nil {
		t.Fatal(err)
	}
	if table.Route(netip.MustParseAddr("10.9.0.1")) != nil || len(p.Prefixes()) != 0 {
		t.Error("withdrawn routes are still there")
	}
	if _, err := table.Set(8, Change{Prefixes: ptr(prefixes("10.9.0.0/24"))}, 0); err != nil {
		t.Errorf("a withdrawn route is not free: %v", err)
	}
}

func TestSetEndpoint(t *testing.T) {
	table, heard := newTable(false)
	old, next := addrPort("192.0.2.1:1194"), addrPort("192.0.2.3:5000")
	p := mustAdd(t, table, Config{ID: 7, Remote: old}, 0)
	learned := addrPort("198.51.100.1:1194")
	p.Moved(old, learned, true, 1)
	heard.take()
	set := func(c Change) {
		t.Helper()
		if _, err := table.Set(7, c, 0); err != nil {
			t.Fatal(err)
		}
		heard.want(t, []*Peer{p}) // no float event: whoever sets it knows
	}

	set(Change{Remote: &next})
	if e := p.Endpoint(); e.Remote != next || e.Local != learned {
		t.Errorf("endpoint %+v: want the new remote and the local address as learned", e)
	}
	if table.LookupRemote(old) != nil || table.LookupRemote(next) != p {
		t.Error("not found at the new address only")
	}
	local := netip.MustParseAddr("198.51.100.9")
	set(Change{Local: &local})
	if e := p.Endpoint(); e.Remote != next || e.Local.Addr() != local {
		t.Errorf("endpoint %+v", e)
	}
	set(Change{Local: new(netip.Addr)})
	if e := p.Endpoint(); e.Remote != next || e.Local.IsValid() {
		t.Errorf("endpoint %+v: want the local address unknown", e)
	}
	set(Change{Local: &local})
	six := addrPort("[2001:db8::1]:1194")
	set(Change{Remote: &six})
	if e := p.Endpoint(); e.Remote != six || e.Local.IsValid() {
		t.Errorf("endpoint %+v: want no local address of the old family", e)
	}
	if _, err := table.Set(7, Change{Local: &local}, 0); !errors.Is(err, ErrInvalid) {
		t.Errorf("local address of the other family: %v", err)
	}
	set(Change{Remote: new(netip.AddrPort)})
	if p.Endpoint() != nil || table.LookupRemote(six) != nil || len(table.remotes) != 0 {
		t.Errorf("endpoint %+v, want none", p.Endpoint())
	}
	if !p.Moved(next, learned, true, 2) || p.Endpoint().Remote != next {
		t.Error("the endpoint is not learned anew")
	}
}

// TestSetKeepsRoutesInPlace changes prefixes while others read: the ones that stay
// must never be missing.
func TestSetKeepsRoutesInPlace(t *testing.T) {
	table, _ := newTable(false)
	p := mustAdd(t, table, Config{ID: 7, Prefixes: prefixes("10.9.0.0/24", "10.8.0.0/24")}, 0)
	stop := make(chan struct{})
	var changing sync.WaitGroup
	changing.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			next := prefixes("10.9.0.0/24", "10.7.0.0/24")
			if i&1 == 1 {
				next = prefixes("10.6.0.0/24", "10.9.0.0/24")
			}
			if _, err := table.Set(7, Change{Prefixes: &next}, 0); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 100_000 {
		if addr := netip.MustParseAddr("10.9.0.1"); table.Route(addr) != p || !p.AllowsSource(addr) {
			t.Error("the route is missing")
			break
		}
	}
	close(stop)
	changing.Wait()
}
