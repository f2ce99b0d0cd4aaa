// SPDX-License-Identifier: Apache-2.0

package netdev_test

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/internal/netdev"
	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestVethLifecycle(t *testing.T) {
	testlab.New(t).Namespace("x").Do(func() {
		must(t, netdev.CreateVeth("ov0", "ov1", 3, 1700))
		l, err := netdev.LinkByName("ov0")
		must(t, err)
		peer, err := netdev.LinkByName("ov1")
		must(t, err)
		if l.Kind != "veth" || l.MTU != 1700 || l.NumRxQueues != 3 || l.NumTxQueues != 3 || l.RxQueues != 3 || l.Up() ||
			l.Lower != peer.Index || l.XDP.Attached || len(l.MAC) != 6 || l.Driver != "veth" {
			t.Errorf("got %+v", l)
		}
		if peer.MTU != 1700 || peer.NumRxQueues != 3 {
			t.Errorf("got %+v", peer)
		}
		must(t, netdev.DisableIPv6Autoconf("ov0"))
		must(t, netdev.SetARP("ov0", false))
		must(t, netdev.SetUp("ov0"))
		must(t, netdev.SetUp("ov1"))
		must(t, netdev.SetMTU("ov0", 1600))
		l, err = netdev.LinkByIndex(l.Index)
		must(t, err)
		if !l.Up() || !l.Running() || l.MTU != 1600 {
			t.Errorf("got %+v", l)
		}
		addrs, err := netdev.LinkAddresses("ov0")
		must(t, err)
		if len(addrs) != 0 {
			t.Errorf("a link without autoconfiguration has %v", addrs)
		}
		if addrs, err = netdev.LinkAddresses("ov1"); err != nil || len(addrs) != 1 || !addrs[0].IsLinkLocalUnicast() {
			t.Errorf("the other end should have a link-local address, has %v, %v", addrs, err)
		}
		if err := netdev.CreateVeth("ov0", "ov2", 1, 0); err == nil {
			t.Error("a taken name was created again")
		}
		if _, err := netdev.LinkByName("ov2"); !errors.Is(err, netdev.ErrNotFound) {
			t.Errorf("a failed creation left %v", err)
		}
		must(t, netdev.SetDown("ov0"))
		must(t, netdev.DeleteLink("ov0"))
		must(t, netdev.DeleteLink("ov0"))
		links, err := netdev.Links()
		must(t, err)
		if len(links) != 1 || links[0].Name != "lo" {
			t.Errorf("left %+v", links)
		}
	})
}

func TestMissingLink(t *testing.T) {
	testlab.New(t).Namespace("x").Do(func() {
		for _, name := range []string{"", "nope", "name-too-long-for-a-link"} {
			if _, err := netdev.LinkByName(name); !errors.Is(err, netdev.ErrNotFound) {
				t.Errorf("%q: %v", name, err)
			}
		}
		if _, err := netdev.LinkByIndex(4711); !errors.Is(err, netdev.ErrNotFound) {
			t.Error(err)
		}
		if err := netdev.SetUp("nope"); !errors.Is(err, netdev.ErrNotFound) {
			t.Error(err)
		}
		if err := netdev.CreateVeth("ok", "", 1, 0); err == nil {
			t.Error("a link without a name")
		}
		if err := netdev.CreateVLAN("v", "lo", 4095); err == nil {
			t.Error("vlan id 4095")
		}
	})
}

func TestAddressesRoutesNeighbours(t *testing.T) {
	ns := testlab.New(t).Namespace("x")
	ns.Do(func() {
		must(t, netdev.CreateVeth("ov0", "ov1", 1, 0))
		must(t, netdev.DisableIPv6Autoconf("ov0"))
		must(t, netdev.DisableIPv6Autoconf("ov1"))
		must(t, netdev.SetUp("ov0"))
		must(t, netdev.SetUp("ov1"))
		v4, v6 := netip.MustParsePrefix("192.0.2.1/24"), netip.MustParsePrefix("2001:db8::1/64")
		for range 2 { // the second time is no error
			must(t, netdev.AddAddress("ov0", v4))
			must(t, netdev.AddAddress("ov0", v6))
		}
		got, err := netdev.Addresses()
		must(t, err)
		want := []netip.Addr{netip.MustParseAddr("127.0.0.1"), v4.Addr(), netip.MustParseAddr("::1"), v6.Addr()}
		if !slices.Equal(got, want) {
			t.Errorf("addresses %v, want %v", got, want)
		}
		for addr, want := range map[string]bool{"192.0.2.1": true, "127.0.0.1": true, "192.0.2.9": false, "203.0.113.1": false, "2001:db8:2::1": false} {
			if local, err := netdev.IsLocal(netip.MustParseAddr(addr)); local != want || err != nil {
				t.Errorf("%s is local: %v, %v", addr, local, err)
			}
		}
		for range 2 {
			must(t, netdev.AddRoute("ov0", netdev.Route{Dst: netip.MustParsePrefix("198.51.100.0/24"), Gateway: netip.MustParseAddr("192.0.2.9")}))
			must(t, netdev.AddRoute("ov0", netdev.Route{Dst: netip.MustParsePrefix("2001:db8:1::/48")}))
		}
		mac := net.HardwareAddr{2, 0, 0, 0, 0, 9}
		for range 2 {
			must(t, netdev.AddNeighbour("ov0", netip.MustParseAddr("192.0.2.9"), mac))
			must(t, netdev.AddNeighbour("ov0", netip.MustParseAddr("2001:db8::9"), mac))
		}
	})
	check := func(want string, args ...string) {
		t.Helper()
		if out := ns.Output("ip", args...); !strings.Contains(out, want) {
			t.Errorf("ip %v: %q lacks %q", args, out, want)
		}
	}
	check("via 192.0.2.9 dev ov0", "route", "show", "198.51.100.0/24")
	check("dev ov0", "-6", "route", "show", "2001:db8:1::/48")
	check("02:00:00:00:00:09 PERMANENT", "neigh", "show", "192.0.2.9")
	check("02:00:00:00:00:09 PERMANENT", "neigh", "show", "2001:db8::9")
	ns.Do(func() {
		for range 2 {
			must(t, netdev.DelRoute("ov0", netdev.Route{Dst: netip.MustParsePrefix("198.51.100.0/24"), Gateway: netip.MustParseAddr("192.0.2.9")}))
			must(t, netdev.DelAddress("ov0", netip.MustParsePrefix("2001:db8::1/64")))
		}
	})
	if out := ns.Output("ip", "route", "show", "198.51.100.0/24"); out != "" {
		t.Errorf("route is still there: %q", out)
	}
}

func TestLocalAddresses(t *testing.T) {
	ns := testlab.New(t).Namespace("x")
	ns.Do(func() {
		must(t, netdev.CreateVeth("ov0", "ov1", 1, 0))
		must(t, netdev.SetUp("ov0"))
		must(t, netdev.SetUp("ov1"))
		must(t, netdev.AddAddress("ov0", netip.MustParsePrefix("192.0.2.1/25")))
		must(t, netdev.AddAddress("ov0", netip.MustParsePrefix("198.51.100.4/31")))
		must(t, netdev.AddAddress("ov0", netip.MustParsePrefix("198.51.100.9/32")))
		must(t, netdev.AddAddress("ov0", netip.MustParsePrefix("2001:db8::1/64")))
	})
	ns.Output("ip", "address", "add", "203.0.113.1/24", "broadcast", "203.0.113.77", "dev", "ov1")
	ns.Output("ip", "address", "add", "10.0.0.1", "peer", "10.9.0.1/30", "dev", "ov1")
	ns.Do(func() {
		got, err := netdev.LocalAddresses()
		must(t, err)
		for addr, want := range map[string]bool{
			"192.0.2.1": true, "192.0.2.127": true, "192.0.2.0": false, "192.0.2.2": false, "192.0.2.255": false,
			"198.51.100.4": true, "198.51.100.5": false, "198.51.100.9": true,
			"203.0.113.1": true, "203.0.113.77": true, "203.0.113.255": true,
			"10.0.0.1": true, "10.9.0.3": true, "10.9.0.1": false, "10.0.0.3": false,
			"127.0.0.1": true, "127.255.255.255": true, "0.0.0.0": false,
			"2001:db8::1": true, "2001:db8::ffff:ffff:ffff:ffff": false,
		} {
			if slices.Contains(got, netip.MustParseAddr(addr)) != want {
				t.Errorf("%s is local: %v", addr, !want)
			}
			if ip := netip.MustParseAddr(addr); want && ip.Is4() && !ip.IsLoopback() {
				// The kernel's own word: a unicast address it would send to is none of it.
				if route := ns.Output("ip", "route", "get", addr); !strings.HasPrefix(route, "local ") && !strings.HasPrefix(route, "broadcast ") {
					t.Errorf("route to %s: %s", addr, route)
				}
			}
		}
		if !slices.IsSortedFunc(got, netip.Addr.Compare) || len(slices.Compact(slices.Clone(got))) != len(got) {
			t.Errorf("not sorted or not unique: %v", got)
		}
	})
}

func TestAlias(t *testing.T) {
	testlab.New(t).Namespace("x").Do(func() {
		must(t, netdev.CreateVeth("ov0", "ov1", 1, 0))
		must(t, netdev.SetAlias("ov0", "of gateway a"))
		for name, want := range map[string]string{"ov0": "of gateway a", "ov1": ""} {
			if l, err := netdev.LinkByName(name); err != nil || l.Alias != want {
				t.Errorf("%s: alias %q, %v, want %q", name, l.Alias, err, want)
			}
		}
	})
}

func TestFeatures(t *testing.T) {
	testlab.New(t).Namespace("x").Do(func() {
		must(t, netdev.CreateVeth("ov0", "ov1", 2, 0))
		before, err := netdev.Features("ov0")
		must(t, err)
		if !before[netdev.FeatureTSO6] || !before[netdev.FeatureGSO] {
			t.Fatalf("a fresh veth lacks TSO or GSO: %v", before)
		}
		must(t, netdev.SetFeatures("ov0", map[string]bool{netdev.FeatureTSO6: false, "no-such-feature": false}))
		after, err := netdev.Features("ov0")
		must(t, err)
		for name, on := range before {
			if after[name] != (on && name != netdev.FeatureTSO6) {
				t.Errorf("%s went from %v to %v", name, on, after[name])
			}
		}
		if err := netdev.SetFeatures("ov0", map[string]bool{"no-such-feature": true}); err == nil {
			t.Error("an unknown feature was switched on")
		}
		// Loopback's is fixed.
		if err := netdev.SetFeatures("lo", map[string]bool{netdev.FeatureRxChecksum: false}); err == nil {
			t.Error("a fixed feature was switched off")
		}
		channels, err := netdev.Channels("ov0")
		if errors.Is(err, unix.EOPNOTSUPP) { // a veth has had channels since 5.13
			link, err := netdev.LinkByName("ov0")
			must(t, err)
			if link.RxQueues != 2 {
				t.Errorf("%d receive queues without channels", link.RxQueues)
			}
			return
		}
		must(t, err)
		if channels.RxQueues() != 2 {
			t.Errorf("channels %+v", channels)
		}
	})
}
