// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"net/netip"
	"testing"
	"time"
)

// TestClientConfig gives one client an address of its own, a route that only it is
// pushed, and a network behind it; another one what the server pushes to all; and a third
// what its file leaves of it.
func TestClientConfig(t *testing.T) {
	long(t)
	t.Parallel()
	for _, release := range []string{"2.5", "2.6", "2.7"} {
		t.Run(release, func(t *testing.T) {
			t.Parallel()
			d := newBed(t, 3)
			a, keys, w := mustAuthority(t, p256), mustKeys(t), wrappingNamed(t, "tls-crypt")
			s := d.newServer(d.configure(a, transport{}, map[string]string{
				"ccd/site": "ifconfig-push 10.8.0.50 255.255.255.0\nifconfig-ipv6-push fd00:8::50/64\n" +
					"iroute 10.77.0.0 255.255.255.0\niroute-ipv6 fd00:77::/64\npush \"route-ipv6 fd00:66::/64\"\n",
				"ccd/plain": "push-reset\npush \"topology subnet\"\npush \"route-gateway 10.8.0.1\"\n",
			}, w.server(keys), "client-config-dir ccd", "route 10.77.0.0 255.255.255.0", "route-ipv6 fd00:77::/64",
				`push "route 10.66.0.0 255.255.255.0"`, `push "dhcp-option DNS 10.8.0.1"`))
			s.start()
			var clients []*client
			for i, name := range []string{"site", "other", "plain"} {
				clients = append(clients, d.newClient(i, release, a, a.issue(t, name, leaf{}), transport{}, w.client(keys)).up())
			}
			site, other, plain := clients[0], clients[1], clients[2]
			if v4, v6 := site.addresses(); v4.String() != "10.8.0.50" || v6.String() != "fd00:8::50" {
				t.Errorf("the client with addresses of its own has %s and %s", v4, v6)
			}
			if v4, v6 := other.addresses(); !netip.MustParsePrefix("10.8.0.0/24").Contains(v4) || !netip.MustParsePrefix("fd00:8::/64").Contains(v6) {
				t.Errorf("the other client has %s and %s", v4, v6)
			}
			for _, c := range []*client{site, other} {
				c.carries()
				mustPing(t, c.ns, behind4, 2)
			}
			mustPing(t, site.ns, behind6, 2)
			if n := pings(t, plain.ns, behind4, 1, time.Second); n != 0 {
				t.Error("a client whose pushes were reset has the route")
			}
			mustPing(t, plain.ns, inner4, 2)
			// What is behind the client reaches what is behind the server, and back.
			lan4, lan6 := netip.MustParseAddr("10.77.0.1"), netip.MustParseAddr("fd00:77::1")
			site.ns.Address("lo", netip.PrefixFrom(lan4, 24))
			site.ns.Address("lo", netip.PrefixFrom(lan6, 64))
			mustPing(t, d.server, lan4, 2)
			mustPing(t, d.server, lan6, 2)
			transfer(t, site.ns, d.server, lan4, behind4, 1<<20)
			up := startFlow(t, "site to server", site.ns, d.server, lan4, behind4, 400)
			down := startFlow(t, "server to site", d.server, site.ns, behind4, lan4, 400)
			up.advance(200)
			down.advance(200)
			up.whole()
			down.whole()
			// The routes are the session's: a new one of the same client has them again.
			site.kill()
			site.up()
			site.carries()
			mustPing(t, d.server, lan4, 2)
			mustPing(t, d.server, lan6, 2)
			if !s.stock() {
				for _, c := range clients {
					c.clean()
				}
			}
			s.stop()
		})
	}
}

// TestClientToClient lets clients reach each other: inside the server, through its
// host's forwarding, and not at all when that is off.
func TestClientToClient(t *testing.T) {
	long(t)
	t.Parallel()
	for _, v := range []struct {
		name    string
		lines   []string
		forward string
		reaches bool
	}{
		{"inside", []string{"client-to-client"}, "0", true},
		{"through the host", nil, "1", true},
		{"not forwarded", nil, "0", false},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			d := newBed(t, 2)
			d.server.Sysctl("net.ipv4.ip_forward", v.forward)
			d.server.Sysctl("net.ipv6.conf.all.forwarding", v.forward)
			a := mustAuthority(t, p256)
			s := d.newServer(d.configure(a, transport{}, nil, v.lines...))
			s.start()
			one := d.newClient(0, "2.6", a, a.issue(t, "one", leaf{}), transport{}).up()
			two := d.newClient(1, "2.7", a, a.issue(t, "two", leaf{}), transport{}).up()
			from4, from6 := one.addresses()
			to4, to6 := two.addresses()
			for _, at := range [][2]netip.Addr{{from4, to4}, {from6, to6}} {
				if !v.reaches {
					if n := pings(t, one.ns, at[1], 2, time.Second); n > 0 {
						t.Errorf("%s answers", at[1])
					}
					continue
				}
				mustPing(t, one.ns, at[1], 3)
				transfer(t, one.ns, two.ns, at[0], at[1], 1<<20)
				up := startFlow(t, "one to two", one.ns, two.ns, at[0], at[1], 400)
				up.advance(400)
				up.whole()
			}
			one.carries()
			two.carries()
			s.stop()
		})
	}
}
