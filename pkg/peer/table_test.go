// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/aead"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/record"
)

func TestAddAndRemove(t *testing.T) {
	table, heard := newTable(false)
	c := Config{ID: 7, Remote: addrPort("192.0.2.1:1194"), Local: netip.MustParseAddr("192.0.2.2"),
		Prefixes: prefixes("10.9.0.2/32", "fd00::2/128"), Interval: 10 * time.Second, Timeout: 60 * time.Second}
	p := mustAdd(t, table, c, 5)
	heard.want(t, []*Peer{p})
	if p.ID != 7 || p.TxID != 7 || p.Gone() || table.Len() != 1 || table.P2P() {
		t.Errorf("peer %d, in records sent %d; %d peers", p.ID, p.TxID, table.Len())
	}
	if e := p.Endpoint(); e == nil || e.Remote != c.Remote || e.Local != netip.AddrPortFrom(c.Local, 0) {
		t.Errorf("endpoint %+v", e)
	}
	if i, to := p.Keepalive(); i != c.Interval || to != c.Timeout {
		t.Errorf("keepalive %v:%v", i, to)
	}
	c.Prefixes[0] = netip.Prefix{} // the table has its own
	found := func() []*Peer {
		return []*Peer{table.Lookup(7), table.LookupRemote(addrPort("192.0.2.1:1194")), table.Route(netip.MustParseAddr("10.9.0.2")),
			table.Route(netip.MustParseAddr("fd00::2")), table.Owner(prefixes("10.9.0.2/32")[0])}
	}
	for i, got := range found() {
		if got != p {
			t.Errorf("look-up %d found %v", i, got)
		}
	}
	if table.Lookup(8) != nil || table.Lookup(7|1<<24) != nil || table.Lookup(record.PeerIDUndef) != nil {
		t.Error("found a peer that is not there")
	}

	if err := table.Remove(8, ReasonUser); !errors.Is(err, ErrNotFound) {
		t.Errorf("removing nobody: %v", err)
	}
	heard.want(t, nil)
	if err := table.Remove(7, ReasonUser); err != nil {
		t.Fatal(err)
	}
	heard.want(t, []*Peer{p}, "peer_gone 7 userspace")
	for i, got := range found() {
		if got != nil {
			t.Errorf("look-up %d finds the peer that is gone", i)
		}
	}
	if !p.Gone() || table.Len() != 0 || len(table.All()) != 0 || len(table.remotes) != 0 {
		t.Error("something of the peer is left")
	}
	if err := table.Remove(7, ReasonUser); !errors.Is(err, ErrNotFound) {
		t.Errorf("removing twice: %v", err)
	}
	if p2 := mustAdd(t, table, Config{ID: 7, Prefixes: prefixes("10.9.0.2/32")}, 6); p2 == p || table.Lookup(7) != p2 {
		t.Error("the id is not free again")
	}
}

func TestNoObserver(t *testing.T) {
	table := NewTable(true, nil)
	mustAdd(t, table, Config{ID: 1}, 0).Exit()
	mustAdd(t, table, Config{ID: 1}, 0)
}

func TestTxID(t *testing.T) {
	table, _ := newTable(false)
	for id, tx := range map[uint32]uint32{1: 99, 2: 0, 3: record.PeerIDUndef} {
		if p := mustAdd(t, table, Config{ID: id, TxID: &tx}, 0); p.ID != id || p.TxID != tx || table.Lookup(id) != p {
			t.Errorf("peer %d, %d in records sent", p.ID, p.TxID)
		}
	}
	if table.Lookup(99) != nil {
		t.Error("a peer is found by the id in records sent")
	}
	if _, err := table.Add(Config{ID: 4, TxID: ptr(uint32(1 << 24))}, 0); !errors.Is(err, ErrInvalid) {
		t.Errorf("25 bits of id: %v", err)
	}
}

func TestAllIsSorted(t *testing.T) {
	table, _ := newTable(false)
	for _, id := range []uint32{500, 3, 0, record.PeerIDUndef - 1, 65536, 255} {
		mustAdd(t, table, Config{ID: id}, 0)
	}
	var got []uint32
	for _, p := range table.All() {
		got = append(got, p.ID)
	}
	if want := "[0 3 255 500 65536 16777214]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}

func TestAddConflicts(t *testing.T) {
	table, heard := newTable(false)
	mustAdd(t, table, Config{ID: 1, Prefixes: prefixes("10.0.0.0/8")}, 0)
	mustAdd(t, table, Config{ID: 2, Prefixes: prefixes("10.1.0.0/16")}, 0) // inside another's is no conflict
	heard.take()
	for name, c := range map[string]struct {
		config Config
		want   error
		says   string
	}{
		"same id":      {Config{ID: 1}, ErrExists, "id 1"},
		"same prefix":  {Config{ID: 3, Prefixes: prefixes("192.0.2.0/24", "10.1.0.0/16")}, ErrExists, "10.1.0.0/16 belongs to peer 2"},
		"undefined id": {Config{ID: record.PeerIDUndef}, ErrInvalid, "16777215"},
		"id too long":  {Config{ID: 1 << 24}, ErrInvalid, "16777216"},
	} {
		p, err := table.Add(c.config, 0)
		if p != nil || !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
	heard.want(t, nil)
	if table.Len() != 2 || table.Lookup(3) != nil || table.Route(netip.MustParseAddr("192.0.2.1")) != nil {
		t.Error("a refused peer left something behind")
	}
}

func TestValidation(t *testing.T) {
	type conf = Config
	for name, c := range map[string]struct {
		config Config
		ok     bool
	}{
		"nothing":                  {conf{}, true},
		"remote":                   {conf{Remote: addrPort("192.0.2.1:1")}, true},
		"remote and local":         {conf{Remote: addrPort("[2001:db8::1]:1"), Local: netip.MustParseAddr("2001:db8::2")}, true},
		"mapped remote":            {conf{Remote: addrPort("[::ffff:192.0.2.1]:1"), Local: netip.MustParseAddr("192.0.2.2")}, true},
		"mapped local":             {conf{Remote: addrPort("192.0.2.1:1"), Local: netip.MustParseAddr("::ffff:192.0.2.2")}, true},
		"remote port 0":            {conf{Remote: addrPort("192.0.2.1:0")}, false},
		"remote any":               {conf{Remote: addrPort("0.0.0.0:1194")}, false},
		"remote any 6":             {conf{Remote: addrPort("[::]:1194")}, false},
		"remote multicast":         {conf{Remote: addrPort("224.0.0.1:1194")}, false},
		"remote multicast 6":       {conf{Remote: addrPort("[ff02::1]:1194")}, false},
		"remote broadcast":         {conf{Remote: addrPort("255.255.255.255:1194")}, false},
		"remote mapped broadcast":  {conf{Remote: addrPort("[::ffff:255.255.255.255]:1194")}, false},
		"local without remote":     {conf{Local: netip.MustParseAddr("192.0.2.2")}, false},
		"families differ":          {conf{Remote: addrPort("192.0.2.1:1"), Local: netip.MustParseAddr("2001:db8::2")}, false},
		"families differ 6":        {conf{Remote: addrPort("[2001:db8::1]:1"), Local: netip.MustParseAddr("192.0.2.2")}, false},
		"local any":                {conf{Remote: addrPort("192.0.2.1:1"), Local: netip.IPv4Unspecified()}, false},
		"local multicast":          {conf{Remote: addrPort("192.0.2.1:1"), Local: netip.MustParseAddr("224.0.0.5")}, false},
		"local broadcast":          {conf{Remote: addrPort("192.0.2.1:1"), Local: netip.MustParseAddr("255.255.255.255")}, false},
		"keepalive":                {conf{Interval: time.Second, Timeout: time.Second}, true},
		"interval alone":           {conf{Interval: time.Second}, false},
		"timeout alone":            {conf{Timeout: time.Second}, false},
		"negative interval":        {conf{Interval: -time.Second, Timeout: time.Second}, false},
		"negative timeout":         {conf{Interval: time.Second, Timeout: -time.Second}, false},
		"routes":                   {conf{Prefixes: prefixes("10.0.0.0/8", "10.0.0.0/9", "fd00::/8", "192.0.2.7/32", "fe80::1/128")}, true},
		"default routes":           {conf{Prefixes: prefixes("0.0.0.0/0", "::/0")}, true},
		"half the internet":        {conf{Prefixes: prefixes("0.0.0.0/1", "128.0.0.0/1", "2000::/3")}, true},
		"no prefix":                {conf{Prefixes: []netip.Prefix{{}}}, false},
		"route any":                {conf{Prefixes: prefixes("0.0.0.0/32")}, false},
		"route any 6":              {conf{Prefixes: prefixes("::/128")}, false},
		"route loopback":           {conf{Prefixes: prefixes("127.0.0.0/8")}, false},
		"route loopback 6":         {conf{Prefixes: prefixes("::1/128")}, false},
		"route multicast":          {conf{Prefixes: prefixes("224.0.0.0/4")}, false},
		"route multicast 6":        {conf{Prefixes: prefixes("ff00::/8")}, false},
		"route broadcast":          {conf{Prefixes: prefixes("255.255.255.255/32")}, false},
		"route host bits":          {conf{Prefixes: prefixes("10.9.0.1/24")}, false},
		"route host bits 6":        {conf{Prefixes: prefixes("fd00::1/64")}, false},
		"route mapped":             {conf{Prefixes: []netip.Prefix{netip.PrefixFrom(netip.MustParseAddr("::ffff:10.9.0.1"), 128)}}, false},
		"route IPv4-compatible":    {conf{Prefixes: prefixes("::10.9.0.1/128")}, false},
		"routes IPv4-compatible":   {conf{Prefixes: prefixes("::/96")}, false},
		"route given twice":        {conf{Prefixes: prefixes("10.9.0.0/24", "10.8.0.0/24", "10.9.0.0/24")}, false},
		"one bad among good ones":  {conf{Prefixes: prefixes("10.9.0.0/24", "224.0.0.0/4", "10.8.0.0/24")}, false},
		"keepalive of a day":       {conf{Interval: 24 * time.Hour, Timeout: 48 * time.Hour}, true},
		"loopback remote in a lab": {conf{Remote: addrPort("127.0.0.1:1194")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			table, _ := newTable(false)
			_, err := table.Add(c.config, 0)
			if c.ok != (err == nil) || (err != nil && !errors.Is(err, ErrInvalid)) {
				t.Errorf("add: %v", err)
			}
			if table.Len() != map[bool]int{true: 1}[c.ok] {
				t.Errorf("%d peers", table.Len())
			}
			// The same by Set.
			p := mustAdd(t, table, Config{ID: 100}, 0)
			change := Change{Interval: &c.config.Interval, Timeout: &c.config.Timeout}
			if c.config.Remote.IsValid() {
				change.Remote = &c.config.Remote
			}
			if c.config.Local.IsValid() {
				change.Local = &c.config.Local
			}
			if !c.ok {
				change.Prefixes = &c.config.Prefixes
			}
			if _, err := table.Set(100, change, 0); c.ok != (err == nil) || (err != nil && !errors.Is(err, ErrInvalid)) {
				t.Errorf("set: %v", err)
			}
			if !c.ok && (p.Endpoint() != nil || len(p.Prefixes()) != 0) {
				t.Error("a refused change changed something")
			}
		})
	}
}

func TestMappedRemoteIsIPv4(t *testing.T) {
	table, _ := newTable(false)
	p := mustAdd(t, table, Config{ID: 1, Remote: addrPort("[::ffff:192.0.2.1]:1194"), Local: netip.MustParseAddr("::ffff:192.0.2.2")}, 0)
	if e := p.Endpoint(); e.Remote != addrPort("192.0.2.1:1194") || e.Local.Addr() != netip.MustParseAddr("192.0.2.2") {
		t.Errorf("endpoint %+v", e)
	}
	if table.LookupRemote(addrPort("192.0.2.1:1194")) != p {
		t.Error("not found by the IPv4 address")
	}
}

func TestPointToPoint(t *testing.T) {
	table, heard := newTable(true)
	if !table.P2P() || table.Route(netip.MustParseAddr("10.0.0.1")) != nil {
		t.Error("a route without a peer")
	}
	a := mustAdd(t, table, Config{ID: 1, Remote: addrPort("192.0.2.1:1194")}, 0)
	k := newKey(t, 0, aead.AES128GCM)
	mustSet(t, a, Primary, k)
	heard.take()
	for _, s := range []string{"10.0.0.1", "2001:db8::1", "fe80::1", "224.0.0.1"} {
		if addr := netip.MustParseAddr(s); table.Route(addr) != a || !a.AllowsSource(addr) {
			t.Errorf("%s is not the peer's", s)
		}
	}
	if _, err := table.Add(Config{ID: 2, Prefixes: prefixes("10.0.0.0/8")}, 0); !errors.Is(err, ErrInvalid) {
		t.Errorf("routes of a point-to-point peer: %v", err)
	}
	if _, err := table.Set(1, Change{Prefixes: ptr(prefixes("10.0.0.0/8"))}, 0); !errors.Is(err, ErrInvalid) {
		t.Errorf("routes of a point-to-point peer: %v", err)
	}
	heard.want(t, nil)

	// Another one, then one of the same id, takes its place.
	b := mustAdd(t, table, Config{ID: 2, Remote: addrPort("192.0.2.1:1194")}, 0)
	heard.want(t, []*Peer{a, b, b}, "peer_gone 1 teardown") // b has the address of a now
	if !a.Gone() || table.Lookup(1) != nil || table.Lookup(2) != b || table.Len() != 1 || table.Route(netip.MustParseAddr("10.0.0.1")) != b {
		t.Error("the new peer did not take the old one's place")
	}
	if _, use, _ := k.Reserve(1, 0); use != Spent {
		t.Error("the old peer's key still gives out ids")
	}
	c := mustAdd(t, table, Config{ID: 2}, 0)
	heard.want(t, []*Peer{b, c}, "peer_gone 2 teardown")
	if !b.Gone() || table.Lookup(2) != c || table.LookupRemote(addrPort("192.0.2.1:1194")) != nil || table.Len() != 1 {
		t.Error("the new peer did not take the place of one with its id")
	}

	// A peer that sends no id.
	d := mustAdd(t, table, Config{ID: record.PeerIDUndef, Remote: addrPort("192.0.2.9:1194")}, 0)
	if table.Lookup(record.PeerIDUndef) != d || table.LookupRemote(addrPort("192.0.2.9:1194")) != d || d.TxID != record.PeerIDUndef {
		t.Error("a peer without id is not found")
	}
	heard.take()
	if err := table.Remove(record.PeerIDUndef, ReasonUser); err != nil {
		t.Error(err)
	}
	heard.want(t, []*Peer{d}, "peer_gone 16777215 userspace")
	if table.Route(netip.MustParseAddr("10.0.0.1")) != nil || table.Len() != 0 {
		t.Error("a route to the peer that is gone")
	}
}

func TestExitOnce(t *testing.T) {
	table, heard := newTable(false)
	p := mustAdd(t, table, Config{ID: 7}, 0)
	heard.take()
	p.Exit()
	p.Exit()
	heard.want(t, nil, "occ_exit 7")
}

// TestSharedRemote has two sessions of a client that restarted: records without
// an id belong to the newer one, as long as it is there.
func TestSharedRemote(t *testing.T) {
	at := addrPort("192.0.2.1:1194")
	for _, order := range [][]uint32{{1, 2, 3}, {3, 2, 1}, {2, 1, 3}, {2, 3, 1}, {3, 1, 2}, {1, 3, 2}} {
		table, _ := newTable(false)
		there := map[uint32]*Peer{}
		for id := range uint32(3) {
			there[id+1] = mustAdd(t, table, Config{ID: id + 1, Remote: at}, 0)
		}
		for i, id := range order {
			if i == 1 {
				// Leaving by another way than being removed.
				if _, err := table.Set(id, Change{Remote: ptr(addrPort("192.0.2.77:1"))}, 0); err != nil {
					t.Fatal(err)
				}
			} else if err := table.Remove(id, ReasonUser); err != nil {
				t.Fatal(err)
			}
			if there[id].older != nil {
				t.Error("a peer that left still holds another")
			}
			delete(there, id)
			var want *Peer
			for id := range uint32(3) {
				if p := there[id+1]; p != nil {
					want = p
				}
			}
			if got := table.LookupRemote(at); got != want {
				t.Errorf("order %v, after %d: found %v, want %v", order, i+1, got, want)
			}
		}
		if len(table.remotes) != 1 {
			t.Errorf("%d remote addresses left, want that of the moved peer", len(table.remotes))
		}
	}
}
