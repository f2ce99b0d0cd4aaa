// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"
)

var ours = addrPort("198.51.100.1:1194")

func TestFloat(t *testing.T) {
	table, heard := newTable(false)
	from, to := addrPort("192.0.2.1:1194"), addrPort("192.0.2.1:40000")
	p := mustAdd(t, table, Config{ID: 7, Remote: from}, 0)
	heard.take()
	p.Received(1)
	if p.Moved(from, ours, true, 1) || p.Endpoint().Remote != from || p.Endpoint().Local != ours {
		t.Errorf("endpoint %+v: want the local address learned", p.Endpoint())
	}
	heard.want(t, nil)
	before := p.Endpoint()
	if p.Moved(from, ours, true, 2) || p.Endpoint() != before {
		t.Error("moved to where it was")
	}
	if p.Moved(to, ours, false, 3) || p.Endpoint() != before {
		t.Error("moved although it may not")
	}
	heard.want(t, nil)

	ours2 := addrPort("198.51.100.2:1194")
	if !p.Moved(to, ours2, true, 4) {
		t.Fatal("not moved")
	}
	heard.want(t, []*Peer{p}, "float 7 192.0.2.1:1194 -> 192.0.2.1:40000")
	if e := p.Endpoint(); e.Remote != to || e.Local != ours2 {
		t.Errorf("endpoint %+v", e)
	}
	if table.LookupRemote(from) != nil || table.LookupRemote(to) != p {
		t.Error("not found at the new address only")
	}
	// To the other family.
	six, ours6 := addrPort("[2001:db8::1]:1194"), addrPort("[2001:db8:1::1]:1194")
	if !p.Moved(six, ours6, true, 5) || p.Endpoint().Local != ours6 {
		t.Error("not moved to IPv6")
	}
	heard.want(t, []*Peer{p}, "float 7 192.0.2.1:40000 -> [2001:db8::1]:1194")

	if err := table.Remove(7, ReasonUser); err != nil {
		t.Fatal(err)
	}
	heard.take()
	if p.Moved(to, ours, true, 6) || len(table.remotes) != 0 {
		t.Error("a peer that is gone moved")
	}
	heard.want(t, nil)
}

// TestLearnAfterMove has a worker learn our address from a record of before a move:
// the new remote must stay.
func TestLearnAfterMove(t *testing.T) {
	table, _ := newTable(false)
	from, to := addrPort("192.0.2.1:1194"), addrPort("192.0.2.1:40000")
	p := mustAdd(t, table, Config{ID: 7, Remote: from}, 0)
	if !p.Moved(to, ours, true, 1) {
		t.Fatal("not moved")
	}
	p.learn(from, addrPort("198.51.100.9:1194"))
	if e := p.Endpoint(); e.Remote != to || e.Local != ours {
		t.Errorf("endpoint %+v", e)
	}
}

// TestFirstEndpoint learns where a peer is that was added without a remote.
func TestFirstEndpoint(t *testing.T) {
	table, heard := newTable(false)
	p := mustAdd(t, table, Config{ID: 7}, 0)
	heard.take()
	if p.Endpoint() != nil {
		t.Fatal("an endpoint from nowhere")
	}
	at := addrPort("192.0.2.1:1194")
	if p.Moved(at, ours, false, 1) || p.Endpoint() != nil {
		t.Error("learned although it may not move")
	}
	if !p.Moved(at, ours, true, 1) || table.LookupRemote(at) != p {
		t.Error("not learned")
	}
	heard.want(t, []*Peer{p}, "float 7 invalid AddrPort -> 192.0.2.1:1194")
}

func TestFloatRefusals(t *testing.T) {
	table := NewTable(false, nil) // an observer here would call SetLocal
	table.SetLocal([]netip.Addr{netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("192.0.2.255"),
		netip.MustParseAddr("fe80::1%eth0"), netip.MustParseAddr("::ffff:198.51.100.3")})
	home := addrPort("192.0.2.1:1194")
	p := mustAdd(t, table, Config{ID: 7, Remote: home}, 0)
	mustAdd(t, table, Config{ID: 8, Remote: addrPort("192.0.2.8:1194")}, 0)
	for name, to := range map[string]netip.AddrPort{
		"port 0":            addrPort("192.0.2.9:0"),
		"any":               addrPort("0.0.0.0:1194"),
		"any 6":             addrPort("[::]:1194"),
		"multicast":         addrPort("239.1.2.3:1194"),
		"multicast 6":       addrPort("[ff05::1]:1194"),
		"broadcast":         addrPort("255.255.255.255:1194"),
		"subnet broadcast":  addrPort("192.0.2.255:1194"),
		"local":             addrPort("198.51.100.1:5000"),
		"local, other form": addrPort("198.51.100.3:5000"),
		"local, link-local": addrPort("[fe80::1%eth0]:5000"),
		"another peer's":    addrPort("192.0.2.8:1194"),
		"no address":        {},
	} {
		if p.Moved(to, ours, true, second) || p.Endpoint().Remote != home {
			t.Errorf("%s: moved to %s", name, to)
		}
	}
	// None of this cost budget, and neighbours of what was refused are free.
	for i, to := range []string{"198.51.100.2:5000", "192.0.2.254:1194", "192.0.2.8:1195", "192.0.2.9:1194", "[fe80::2]:5000",
		"[2001:db8::1]:1", "10.0.0.1:1", "10.0.0.1:2", "10.0.0.1:3", "10.0.0.1:4"} {
		if !p.Moved(addrPort(to), ours, true, second) {
			t.Errorf("move %d to %s is refused", i, to)
		}
	}
}

// TestFloatToHeldAddress takes an address over from a peer that is silent, and
// not from one that lives.
func TestFloatToHeldAddress(t *testing.T) {
	at := addrPort("192.0.2.8:1194")
	for name, c := range map[string]struct {
		timeout time.Duration
		heard   int64 // 0: never
		now     int64
		want    bool
	}{
		"never heard":            {0, 0, 1000 * second, false},
		"just heard":             {0, 100 * second, 100 * second, false},
		"heard just under 60 s":  {0, 100 * second, 160*second - 1, false},
		"silent for 60 s":        {0, 100 * second, 160 * second, true},
		"its timeout is longer":  {90 * time.Second, 100 * second, 170 * second, false},
		"that is over too":       {90 * time.Second, 100 * second, 190 * second, true},
		"its timeout is shorter": {10 * time.Second, 100 * second, 159 * second, false},
	} {
		t.Run(name, func(t *testing.T) {
			table, heard := newTable(false)
			p := mustAdd(t, table, Config{ID: 7, Remote: addrPort("192.0.2.7:1194")}, 0)
			q := mustAdd(t, table, Config{ID: 8, Remote: at, Interval: c.timeout, Timeout: c.timeout}, 0)
			if c.heard != 0 {
				q.Received(c.heard)
			}
			heard.take()
			if p.Moved(at, ours, true, c.now) != c.want {
				t.Fatalf("moved: %v, want %v", !c.want, c.want)
			}
			if !c.want {
				heard.want(t, nil)
				if table.LookupRemote(at) != q {
					t.Error("the address is not its holder's any more")
				}
				return
			}
			heard.want(t, []*Peer{p}, "float 7 192.0.2.7:1194 -> 192.0.2.8:1194")
			if table.LookupRemote(at) != p {
				t.Error("records without an id do not go to the peer that moved there")
			}
			if err := table.Remove(8, ReasonUser); err != nil {
				t.Fatal(err)
			}
			if table.LookupRemote(at) != p {
				t.Error("the silent peer took the address with it")
			}
			// Behind the newest holder hides a live one: still refused.
			r := mustAdd(t, table, Config{ID: 9, Remote: at}, c.now)
			p.Received(c.now)
			r.Received(1)
			s := mustAdd(t, table, Config{ID: 10}, c.now)
			if s.Moved(at, ours, true, c.now) {
				t.Error("took an address that a live peer holds behind a silent one")
			}
		})
	}
}

func TestFloatBudget(t *testing.T) {
	table, heard := newTable(false)
	p := mustAdd(t, table, Config{ID: 7, Remote: addrPort("192.0.2.1:1")}, 0)
	other := mustAdd(t, table, Config{ID: 8, Remote: addrPort("192.0.2.2:1")}, 0)
	heard.take()
	port := uint16(1)
	move := func(p *Peer, now int64) bool {
		port++
		return p.Moved(netip.AddrPortFrom(p.Endpoint().Remote.Addr(), port), ours, true, now)
	}
	spend := func(now int64, want int) {
		t.Helper()
		moved := 0
		for range 30 {
			if move(p, now) {
				moved++
			}
		}
		if moved != want {
			t.Errorf("at %v: %d moves, want %d", time.Duration(now), moved, want)
		}
	}
	spend(0, 10) // monotonic time may begin at 0
	spend(0, 0)
	spend(2*second-1, 0)
	spend(2*second, 1)
	spend(3*second, 0)
	spend(8*second+5, 3)
	spend(10*second-1, 0)
	spend(10*second, 1)
	spend(1000*second, 10) // and not more
	spend(1001*second, 0)
	if events, _ := heard.take(); len(events) != 25 {
		t.Errorf("%d events for 25 moves", len(events))
	}
	if !move(other, 1001*second) {
		t.Error("one peer's moves used up another's")
	}
	at := p.Endpoint().Remote
	if p.Moved(at, addrPort("198.51.100.7:1194"), true, 1001*second) || p.Endpoint().Local != addrPort("198.51.100.7:1194") {
		t.Error("learning our own address needs no budget")
	}
	// Time counts from the first move, also after the budget was full again.
	third := mustAdd(t, table, Config{ID: 9, Remote: addrPort("192.0.2.3:1")}, 0)
	for _, start := range []int64{1001 * second, 1501 * second} {
		for range 10 {
			move(third, start)
		}
		if move(third, start+2*second-1) || !move(third, start+2*second) {
			t.Error("no move 2 s after the first, or one before")
		}
	}
	// A slow roamer is never refused.
	for i := range int64(100) {
		if !move(p, 2000*second+i*2*second) {
			t.Fatalf("move %d in as many times 2 s is refused", i)
		}
	}
}

// TestFloatConcurrently moves peers to and fro from several workers while they
// are set, removed and added, and then compares index and endpoints.
func TestFloatConcurrently(t *testing.T) {
	table, _ := newTable(false)
	const peers = 4
	add := func(id uint32) {
		_, _ = table.Add(Config{ID: id, Remote: addrPort(fmt.Sprintf("192.0.2.%d:1", id))}, 0)
	}
	for id := range uint32(peers) {
		add(id)
	}
	var wg sync.WaitGroup
	for w := range 3 {
		wg.Go(func() {
			for i := range 3000 {
				now := int64(i) * 100 * second // refills, and lets silent ones lose their address
				p := table.Lookup(uint32(i % peers))
				if p == nil {
					continue
				}
				if i%5 == 0 {
					p.Received(now)
				}
				p.Moved(addrPort(fmt.Sprintf("192.0.2.%d:%d", (i*w)%peers, 1+i%3)), ours, true, now)
			}
		})
	}
	wg.Go(func() {
		for i := range 1000 {
			id := uint32(i % peers)
			switch i % 3 {
			case 0:
				_ = table.Remove(id, ReasonUser)
			case 1:
				add(id)
			case 2:
				_, _ = table.Set(id, Change{Remote: ptr(addrPort("192.0.2.200:1"))}, 0)
			}
		}
	})
	wg.Wait()
	held := 0
	for at, newest := range table.remotes {
		for p := newest; p != nil; p = p.older {
			held++
			if p.Gone() || p.Endpoint().Remote != at || table.Lookup(p.ID) != p {
				t.Errorf("%s leads to peer %d, which is at %v (gone: %v)", at, p.ID, p.Endpoint(), p.Gone())
			}
		}
	}
	if all := table.All(); held != len(all) {
		t.Errorf("%d of %d peers are found by their address", held, len(all))
	} else if slices.ContainsFunc(all, func(p *Peer) bool { return p.Gone() }) {
		t.Error("a peer that is gone is listed")
	}
}
