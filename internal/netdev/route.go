// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// ErrRouteTaken says that another route has the destination and metric of one to
// be added.
var ErrRouteTaken = errors.New("another route has this destination and metric")

// Route is a route over a link, in the main table.
type Route struct {
	Dst netip.Prefix
	// Gateway is the next hop; invalid: the destination is on the link.
	Gateway netip.Addr
	// OnLink takes the gateway for reachable on the link though no route says so.
	OnLink bool
	// Metric orders routes to one destination, the lowest first. 0 is the kernel's
	// default: 0 for IPv4, 1024 for IPv6.
	Metric int
	// Src is the source address preferred for what this host sends; invalid: the
	// kernel's choice.
	Src netip.Addr
}

// AddRoute adds a route over the link. One that is there already is no error; who
// made it is the caller's to know. A route of another link or gateway with the
// same destination and metric is left alone: ErrRouteTaken.
func AddRoute(link string, r Route) error {
	return change(link, fmt.Sprintf("add route %s over", r.Dst), func(nl netlink.Link) error {
		err := netlink.RouteAdd(r.of(nl))
		if !errors.Is(err, unix.EEXIST) {
			return err
		}
		if there, err := r.exists(nl); err != nil || there {
			return err
		}
		return ErrRouteTaken
	})
}

// DelRoute removes a route that AddRoute added; one that is gone is no error. With
// metric 0 it removes one of any metric.
func DelRoute(link string, r Route) error {
	return change(link, fmt.Sprintf("delete route %s over", r.Dst), func(nl netlink.Link) error {
		err := netlink.RouteDel(r.of(nl))
		if errors.Is(err, unix.ESRCH) {
			return nil
		}
		return err
	})
}

// of is the route as netlink has it.
func (r Route) of(nl netlink.Link) *netlink.Route {
	out := &netlink.Route{LinkIndex: nl.Attrs().Index, Dst: ipNet(r.Dst.Masked()), Priority: r.Metric}
	if r.Gateway.IsValid() {
		out.Gw = r.Gateway.WithZone("").AsSlice()
		if r.OnLink {
			out.Flags = int(netlink.FLAG_ONLINK)
		}
	} else if r.Dst.Addr().Is4() {
		out.Scope = netlink.SCOPE_LINK
	}
	if r.Src.IsValid() {
		out.Src = r.Src.AsSlice()
	}
	return out
}

// exists reports whether the link has this route.
func (r Route) exists(nl netlink.Link) (bool, error) {
	want := r.of(nl)
	family := netlink.FAMILY_V4
	if r.Dst.Addr().Is6() {
		family = netlink.FAMILY_V6
		if want.Priority == 0 {
			want.Priority = 1024 // IP6_RT_PRIO_USER
		}
	}
	want.Table = unix.RT_TABLE_MAIN
	list, err := retryDump(func() ([]netlink.Route, error) {
		return netlink.RouteListFiltered(family, want, netlink.RT_FILTER_TABLE|netlink.RT_FILTER_OIF|netlink.RT_FILTER_DST)
	})
	if err != nil {
		return false, fmt.Errorf("list routes: %w", err)
	}
	for _, have := range list {
		if have.Priority == want.Priority && have.Gw.Equal(want.Gw) {
			return true, nil
		}
	}
	return false, nil
}
