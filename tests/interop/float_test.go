// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"testing"
)

// TestFloat moves clients to another port and then to another address while
// traffic runs both ways. The session goes on: the client notices nothing, and
// what it sends is not lost.
func TestFloat(t *testing.T) {
	long(t)
	t.Parallel()
	for _, v := range []struct {
		release string
		n       transport
	}{{"2.5", transport{}}, {"2.6", transport{ipv6: true}}, {"2.7", transport{}}} {
		t.Run(v.release+" "+v.n.String(), func(t *testing.T) {
			t.Parallel()
			d := newBed(t, 1)
			a, keys, w := mustAuthority(t, p256), mustKeys(t), wrappingNamed(t, "tls-crypt")
			s := d.newServer(d.configure(a, v.n, nil, w.server(keys), "reneg-sec 4"))
			s.start()
			d.rebind(0, 10, 40000)
			c := d.newClient(0, v.release, a, a.issue(t, "client", leaf{}), v.n, w.client(keys), "lport 5000").up()
			up, down := c.flows(d.server, 200)
			up.advance(100)
			down.advance(100)
			for _, at := range []struct {
				host byte
				port uint16
			}{{10, 40001}, {11, 40001}, {12, 40002}} {
				d.rebind(0, at.host, at.port)
				up.advance(200)
				down.advance(200)
				// A renegotiation at the new address.
				c.says("VERIFY OK: depth=0", c.count("VERIFY OK: depth=0")+1)
			}
			up.whole()
			if sum := down.stop(); sum.damaged+sum.duplicated > 0 {
				t.Errorf("%s: %s", down.what, sum)
			}
			if n := c.count(connected); n != 1 {
				t.Errorf("the tunnel came up %d times, want once", n)
			}
			if !s.stock() {
				c.clean()
			}
			c.carries()
			s.stop()
		})
	}
}
