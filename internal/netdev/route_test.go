// SPDX-License-Identifier: Apache-2.0

package netdev_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/ovpn-xdp/ovpn-xdp/internal/netdev"
	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
)

// linked is a namespace with two ends of a wire, both up and with addresses.
func linked(t *testing.T) *testlab.Namespace {
	t.Helper()
	ns := testlab.New(t).Namespace("x")
	ns.Do(func() {
		must(t, netdev.CreateVeth("ov0", "ov1", 1, 0))
		for _, name := range []string{"ov0", "ov1"} {
			must(t, netdev.DisableIPv6Autoconf(name))
			must(t, netdev.SetUp(name))
		}
		must(t, netdev.AddAddress("ov0", netip.MustParsePrefix("192.0.2.1/24")))
		must(t, netdev.AddAddress("ov0", netip.MustParsePrefix("2001:db8::1/64")))
	})
	return ns
}

func TestRoutes(t *testing.T) {
	ns := linked(t)
	show := func(dst string) string {
		family := "-4"
		if strings.Contains(dst, ":") {
			family = "-6"
		}
		return strings.TrimSpace(ns.Output("ip", family, "route", "show", dst))
	}
	for name, c := range map[string]struct {
		route netdev.Route
		want  []string
	}{
		"on link":       {netdev.Route{Dst: netip.MustParsePrefix("198.51.100.0/24")}, []string{"dev ov0", "scope link"}},
		"with a metric": {netdev.Route{Dst: netip.MustParsePrefix("198.51.101.0/24"), Metric: 77}, []string{"metric 77"}},
		"through a gateway, from an address": {netdev.Route{Dst: netip.MustParsePrefix("198.51.102.0/24"), Gateway: netip.MustParseAddr("192.0.2.9"),
			Src: netip.MustParseAddr("192.0.2.1")}, []string{"via 192.0.2.9", "src 192.0.2.1"}},
		"through a gateway beyond all routes": {netdev.Route{Dst: netip.MustParsePrefix("198.51.103.0/24"), Gateway: netip.MustParseAddr("203.0.113.1"),
			OnLink: true}, []string{"via 203.0.113.1", "onlink"}},
		"IPv6":               {netdev.Route{Dst: netip.MustParsePrefix("2001:db8:1::/48")}, []string{"dev ov0", "metric 1024"}},
		"IPv6 with a metric": {netdev.Route{Dst: netip.MustParsePrefix("2001:db8:2::/48"), Metric: 200}, []string{"metric 200"}},
		"IPv6 through a gateway": {netdev.Route{Dst: netip.MustParsePrefix("2001:db8:3::/48"), Gateway: netip.MustParseAddr("2001:db8::9")},
			[]string{"via 2001:db8::9"}},
		"host bits are cut off": {netdev.Route{Dst: netip.MustParsePrefix("198.51.104.7/24")}, []string{"198.51.104.0/24"}},
	} {
		t.Run(name, func(t *testing.T) {
			dst := c.route.Dst.Masked().String()
			for range 2 { // the second time is no error
				ns.Do(func() { must(t, netdev.AddRoute("ov0", c.route)) })
				got := show(dst)
				for _, want := range append(c.want, "ov0") {
					if !strings.Contains(dst+" "+got, want) {
						t.Errorf("%q lacks %q", got, want)
					}
				}
				if strings.Contains(got, "\n") {
					t.Errorf("more than one route: %q", got)
				}
			}
			for range 2 {
				ns.Do(func() { must(t, netdev.DelRoute("ov0", c.route)) })
				if got := show(dst); got != "" {
					t.Errorf("still there: %q", got)
				}
			}
		})
	}
}

// A route of somebody else is not touched, and one with another metric stands beside it.
func TestRouteOfAnother(t *testing.T) {
	ns := linked(t)
	for host, dst := range map[string]string{"198.51.100.1": "198.51.100.0/24", "2001:db8:1::1": "2001:db8:1::/48"} {
		theirs := netdev.Route{Dst: netip.MustParsePrefix(dst)}
		ours := theirs
		ns.Do(func() {
			must(t, netdev.AddRoute("ov1", theirs))
			if err := netdev.AddRoute("ov0", ours); !errors.Is(err, netdev.ErrRouteTaken) {
				t.Errorf("%s: %v", dst, err)
			}
			must(t, netdev.DelRoute("ov0", ours))
			must(t, netdev.AddRoute("ov1", theirs))
			ours.Metric = 5
			must(t, netdev.AddRoute("ov0", ours))
			must(t, netdev.DelRoute("ov0", ours))
		})
		if got := ns.Output("ip", "route", "get", host); !strings.Contains(got, "ov1") {
			t.Errorf("their route has gone: %q", got)
		}
	}
	ns.Do(func() {
		if err := netdev.AddRoute("nope", netdev.Route{Dst: netip.MustParsePrefix("198.51.100.0/24")}); !errors.Is(err, netdev.ErrNotFound) {
			t.Error(err)
		}
	})
}

func TestForwardingSettings(t *testing.T) {
	linked(t).Do(func() {
		must(t, netdev.SetSendRedirects(netdev.AllLinks, true))
		must(t, netdev.SetSendRedirects("ov0", false))
		if on, err := netdev.SendRedirects("ov0"); !on || err != nil {
			t.Errorf("the setting of all links does not count: %v, %v", on, err)
		}
		must(t, netdev.SetSendRedirects(netdev.AllLinks, false))
		if on, err := netdev.SendRedirects("ov0"); on || err != nil {
			t.Errorf("redirects are on: %v, %v", on, err)
		}
		must(t, netdev.SetSendRedirects("ov0", true))
		if on, err := netdev.SendRedirects("ov0"); !on || err != nil {
			t.Errorf("redirects are off: %v, %v", on, err)
		}
		must(t, netdev.SetRPFilter(netdev.AllLinks, netdev.RPFilterStrict))
		for _, own := range []netdev.RPFilter{netdev.RPFilterOff, netdev.RPFilterLoose} {
			must(t, netdev.SetRPFilter("ov0", own))
			if got, err := netdev.ReversePathFilter("ov0"); got != max(own, netdev.RPFilterStrict) || err != nil {
				t.Errorf("filter %d of its own: %d, %v", own, got, err)
			}
		}
		for _, name := range []string{"", ".", "..", "../all", "nope"} {
			if err := netdev.SetSendRedirects(name, false); err == nil {
				t.Errorf("%q taken", name)
			}
			if _, err := netdev.ReversePathFilter(name); err == nil {
				t.Errorf("%q taken", name)
			}
		}
	})
}
