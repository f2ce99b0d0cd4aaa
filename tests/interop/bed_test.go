// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
)

// port is where every server listens.
const port = 1194

// Addresses of the server on the wire and of its router.
var (
	outer4, outer6   = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	router4, router6 = netip.MustParseAddr("192.0.2.254"), netip.MustParseAddr("2001:db8::fe")
)

// Addresses inside: the server's, and of a network behind it, which is on its loopback.
var (
	inner4, inner6   = netip.MustParseAddr("10.8.0.1"), netip.MustParseAddr("fd00:8::1")
	behind4, behind6 = netip.MustParseAddr("10.66.0.1"), netip.MustParseAddr("fd00:66::1")
)

// bed is a server and a number of clients, each in a namespace whose wire is
// called eth0, and a router between them, where addresses are translated and
// packets lost.
type bed struct {
	t              *testing.T
	lab            *testlab.Lab
	server, router *testlab.Namespace
	clients        []*testlab.Namespace
}

// newBed lays one for 1 to 200 clients. Frames are as on a wire: at most 1500
// bytes, no aggregates.
func newBed(t *testing.T, clients int) *bed {
	t.Helper()
	// First, so that the folder outlives what is written at the end.
	t.ArtifactDir()
	lab := testlab.New(t)
	d := &bed{t: t, lab: lab, server: lab.Namespace("server"), router: lab.Namespace("router")}
	d.router.Forward()
	lab.Veth(testlab.Veth{
		A:        testlab.End{Namespace: d.server, Name: "eth0", Addresses: subnets(outer4, 24, outer6, 64)},
		B:        testlab.End{Namespace: d.router, Name: "eth0", Addresses: subnets(router4, 24, router6, 64)},
		WireLike: true,
	})
	defaultRoutes(d.server, router4, router6)
	d.server.Address("lo", netip.PrefixFrom(behind4, 24))
	d.server.Address("lo", netip.PrefixFrom(behind6, 64))
	for i := range clients {
		ns := lab.Namespace(fmt.Sprintf("client%d", i))
		near4, near6 := d.wire(i, 1)
		far4, far6 := d.wire(i, 2)
		lab.Veth(testlab.Veth{
			A:        testlab.End{Namespace: ns, Name: "eth0", Addresses: subnets(far4, 24, far6, 64)},
			B:        testlab.End{Namespace: d.router, Name: fmt.Sprintf("eth%d", i+1), Addresses: subnets(near4, 24, near6, 64)},
			WireLike: true,
		})
		defaultRoutes(ns, near4, near6)
		d.clients = append(d.clients, ns)
	}
	return d
}

// wire is a host's address in the network that joins client i to the router:
// 1 is the router, 2 the client.
func (d *bed) wire(i, host int) (v4, v6 netip.Addr) {
	return netip.AddrFrom4([4]byte{198, 18, byte(i), byte(host)}),
		netip.MustParseAddr(fmt.Sprintf("2001:db8:18:%x::%x", i, host))
}

func subnets(v4 netip.Addr, bits4 int, v6 netip.Addr, bits6 int) []netip.Prefix {
	return []netip.Prefix{netip.PrefixFrom(v4, bits4), netip.PrefixFrom(v6, bits6)}
}

func defaultRoutes(ns *testlab.Namespace, gateway4, gateway6 netip.Addr) {
	ns.Route("eth0", netip.PrefixFrom(netip.IPv4Unspecified(), 0), gateway4)
	ns.Route("eth0", netip.PrefixFrom(netip.IPv6Unspecified(), 0), gateway6)
}
