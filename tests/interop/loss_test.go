// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"fmt"
	"testing"
	"time"
)

// TestLoss drops a tenth of all packets, in both directions, while clients connect
// and while keys are renewed.
func TestLoss(t *testing.T) {
	long(t)
	t.Parallel()
	for _, wrapping := range []string{"tls-auth", "tls-crypt-v2"} {
		t.Run(wrapping, func(t *testing.T) {
			t.Parallel()
			releases := []string{"2.5", "2.6", "2.7"}
			d := newBed(t, len(releases))
			a, keys, w := mustAuthority(t, p256), mustKeys(t), wrappingNamed(t, wrapping)
			s := d.newServer(d.configure(a, transport{}, nil, w.server(keys), "reneg-sec 5"))
			s.start()
			d.lose(10)
			var clients []*client
			for i, release := range releases {
				clients = append(clients, d.newClient(i, release, a, a.issue(t, fmt.Sprintf("client%d", i), leaf{}),
					transport{}, w.client(keys), "reneg-sec 0").start())
			}
			for _, c := range clients {
				c.wait(1)
			}
			for _, c := range clients {
				c.says("Control Channel: TLSv1", c.keyExchanges()+3)
			}
			if n := d.dropped("loss"); n == 0 {
				t.Error("nothing was dropped")
			}
			d.lose(0)
			for _, c := range clients {
				if s.stock() {
					// A stock server may have lost one for good, which then begins anew.
					eventually(t, c.name+" reaches the server", func() bool { return pings(t, c.ns, inner4, 1, time.Second) == 1 })
				}
				c.carries()
				up, down := c.flows(d.server, 200)
				up.advance(400)
				down.advance(400)
				up.whole()
				down.whole()
				if n := c.count(connected); n != 1 && !s.stock() {
					t.Errorf("%s, OpenVPN %s: the tunnel came up %d times", c.name, c.release, n)
				}
			}
			s.stop()
		})
	}
}

// TestLostAcknowledgement drops the one packet by which a 2.5 client answers the
// server's reset. It never sends another, so a server that keeps no state before
// has to recognise the client by what comes next.
func TestLostAcknowledgement(t *testing.T) {
	long(t)
	t.Parallel()
	for _, wrapping := range []string{"none", "tls-auth", "tls-crypt"} {
		t.Run(wrapping, func(t *testing.T) {
			t.Parallel()
			d := newBed(t, 1)
			a, keys, w := mustAuthority(t, p256), mustKeys(t), wrappingNamed(t, wrapping)
			s := d.newServer(d.configure(a, transport{}, nil, w.server(keys)))
			s.start()
			const ackV1 = 5 << 3
			d.loseFirst(ackV1)
			// A client that is not recognised ends after its hand-window.
			c := d.newClient(0, "2.5", a, a.issue(t, "client", leaf{}), transport{}, w.client(keys), "hand-window 20").up()
			if n := d.dropped("first"); n != 1 {
				t.Errorf("%d packets dropped, want 1", n)
			}
			if n := c.count("TLS key negotiation failed"); n > 0 && !s.stock() {
				t.Errorf("%d handshakes failed before one did not", n)
			}
			c.carries()
			s.stop()
		})
	}
}
