// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"fmt"
	"testing"
	"time"
)

// keyExchanges is how many handshakes a client has completed since its start.
func (c *client) keyExchanges() int { return c.count("Control Channel: TLSv1") }

// TestRenegotiation renews keys every five seconds for a minute, asked for by
// the server or by the client, while traffic runs both ways, of which nothing is lost.
func TestRenegotiation(t *testing.T) {
	long(t)
	t.Parallel()
	for _, v := range []struct {
		by, wrapping string
		server       string
		client       string
		n            transport
	}{
		{"server", "tls-crypt-v2", "reneg-sec 5", "reneg-sec 0", transport{}},
		{"client", "tls-auth", "reneg-sec 0", "reneg-sec 5", transport{}},
		{"both", "none", "reneg-sec 5", "reneg-sec 5", transport{ipv6: true}},
		{"server", "tls-crypt", "reneg-sec 5", "reneg-sec 0", transport{tcp: true}},
	} {
		t.Run(v.by+" "+v.wrapping+" "+v.n.String(), func(t *testing.T) {
			t.Parallel()
			releases := []string{"2.5", "2.6", "2.7"}
			d := newBed(t, len(releases))
			a, keys, w := mustAuthority(t, p256), mustKeys(t), wrappingNamed(t, v.wrapping)
			s := d.newServer(d.configure(a, v.n, nil, w.server(keys), v.server))
			s.start()
			var clients []*client
			var flows []*flow
			for i, release := range releases {
				c := d.newClient(i, release, a, a.issue(t, fmt.Sprintf("client%d", i), leaf{}), v.n, w.client(keys), v.client).up()
				up, down := c.flows(d.server, 100)
				clients, flows = append(clients, c), append(flows, up, down)
			}
			time.Sleep(time.Minute)
			for _, f := range flows {
				f.whole()
			}
			for _, c := range clients {
				// Twelve and the first; a peer may take its time for one.
				if n := c.keyExchanges(); n < 9 {
					t.Errorf("%s, OpenVPN %s: %d key exchanges in a minute, want one every 5 s", c.name, c.release, n)
				}
				if n := c.count(connected); n != 1 {
					t.Errorf("%s, OpenVPN %s: the tunnel came up %d times", c.name, c.release, n)
				}
				if !s.stock() {
					c.clean()
				}
			}
			s.stop()
		})
	}
}

// TestIdle leaves clients without traffic for longer than the server's ping-restart,
// while keys are renewed more often than they ping. A client pings only when it has
// sent nothing else, so what says that it lives are its control packets.
func TestIdle(t *testing.T) {
	long(t)
	t.Parallel()
	releases := []string{"2.5", "2.6", "2.7"}
	d := newBed(t, len(releases))
	a := mustAuthority(t, p256)
	// The server's own ping-restart is twice as long: 24 s.
	s := d.newServer(d.configure(a, transport{}, nil, "keepalive 6 12", "reneg-sec 4"))
	s.start()
	var clients []*client
	for i, release := range releases {
		c := d.newClient(i, release, a, a.issue(t, fmt.Sprintf("client%d", i), leaf{}), transport{}).up()
		c.ns.Sysctl("net.ipv6.conf.tun0.router_solicitations", "0")
		clients = append(clients, c)
	}
	for _, c := range clients {
		c.says("Control Channel: TLSv1", 10)
	}
	for _, c := range clients {
		if n := c.count(connected); n != 1 {
			t.Errorf("%s, OpenVPN %s: the tunnel came up %d times", c.name, c.release, n)
		}
		c.carries()
	}
	s.stop()
}
