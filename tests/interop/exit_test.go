// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"fmt"
	"testing"
	"time"
)

// awaitNames waits until the status file has these clients.
func awaitNames(t *testing.T, s server, want ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("status file has the clients %v", want), func() bool {
		return fmt.Sprint(names(t, s)) == fmt.Sprint(want)
	})
}

// TestExitNotify lets clients say goodbye: a 2.5 client in the data channel, later
// ones in the control channel. The server forgets them long before its ping-restart.
func TestExitNotify(t *testing.T) {
	long(t)
	t.Parallel()
	for _, release := range []string{"2.5", "2.6", "2.7"} {
		t.Run(release, func(t *testing.T) {
			t.Parallel()
			d := newBed(t, 1)
			a := mustAuthority(t, p256)
			// Without a goodbye it would take four minutes, twice the limit of a wait.
			s := d.newServer(d.configure(a, transport{}, nil, "keepalive 10 240"))
			s.start()
			c := d.newClient(0, release, a, a.issue(t, "client", leaf{}), transport{}, "explicit-exit-notify 1").up()
			c.carries()
			awaitNames(t, s, "client")
			c.stop()
			awaitNames(t, s)
			s.stop()
		})
	}
}

// TestServerExit lets the server say goodbye: clients connect again at once
// instead of waiting for their ping-restart.
func TestServerExit(t *testing.T) {
	long(t)
	t.Parallel()
	releases := []string{"2.5", "2.6", "2.7"}
	d := newBed(t, len(releases))
	a := mustAuthority(t, p256)
	s := d.newServer(d.configure(a, transport{}, nil, "explicit-exit-notify 1", "keepalive 10 240"))
	s.start()
	var clients []*client
	for i, release := range releases {
		clients = append(clients, d.newClient(i, release, a, a.issue(t, fmt.Sprintf("client%d", i), leaf{}), transport{}).up())
	}
	s.stop()
	for _, c := range clients {
		c.says("Connection reset command was pushed by server", 1)
	}
	s.start()
	for _, c := range clients {
		c.wait(2).carries()
	}
	s.stop()
}

// TestReturn kills clients and starts them again, at the same port or at another:
// they are back at once, with the address they had, and traffic of before and
// after is not mixed up.
func TestReturn(t *testing.T) {
	long(t)
	t.Parallel()
	for _, release := range []string{"2.5", "2.6", "2.7"} {
		for _, at := range []struct {
			port  string
			lines []string
		}{{"same port", []string{"lport 5000"}}, {"other port", nil}} {
			t.Run(release+" "+at.port, func(t *testing.T) {
				t.Parallel()
				d := newBed(t, 1)
				a, keys, w := mustAuthority(t, p256), mustKeys(t), wrappingNamed(t, "tls-crypt")
				s := d.newServer(d.configure(a, transport{}, nil, w.server(keys)))
				s.start()
				c := d.newClient(0, release, a, a.issue(t, "client", leaf{}), transport{}, append(at.lines, w.client(keys))...).up()
				before, _ := c.addresses()
				c.carries()
				for range 3 {
					c.kill()
					from := time.Now()
					c.up()
					took := time.Since(from)
					t.Logf("back after %s", took.Round(time.Millisecond))
					// A server that takes the new session for a repetition of the old one
					// answers its push request after 27 s.
					if took > 20*time.Second && !s.stock() {
						t.Errorf("the client was back after %s", took)
					}
					if v4, _ := c.addresses(); v4 != before {
						t.Errorf("the address was %s, is %s", before, v4)
					}
					if s.stock() {
						// The key ids of old and new session are the same, and so is the peer id.
						eventually(t, "the server answers", func() bool { return pings(t, c.ns, inner4, 1, time.Second) == 1 })
					}
					c.carries()
					up, down := c.flows(d.server, 400)
					up.advance(100)
					down.advance(100)
					up.whole()
					down.whole()
					if !s.stock() {
						c.clean()
					}
				}
				awaitNames(t, s, "client")
				s.stop()
			})
		}
	}
}
