// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"fmt"
	"net/netip"
	"testing"
)

// TestSwap replaces the server under its clients, stock by ours and ours by stock,
// with the same configuration. They come back by themselves, with the addresses they had.
func TestSwap(t *testing.T) {
	long(t)
	t.Parallel()
	for _, wrapping := range []string{"tls-auth", "tls-crypt-v2"} {
		t.Run(wrapping, func(t *testing.T) {
			t.Parallel()
			releases := []string{"2.5", "2.6", "2.7"}
			d := newBed(t, len(releases))
			a, keys, w := mustAuthority(t, p256), mustKeys(t), wrappingNamed(t, wrapping)
			set := d.configure(a, transport{}, nil, w.server(keys), "explicit-exit-notify 1", "ifconfig-pool-persist ipp.txt 1")
			var clients []*client
			addresses := map[*client]netip.Addr{}
			for n, kind := range []string{stock26, serverKind(t), stock27, serverKind(t)} {
				s := d.newServerOf(kind, set)
				s.start()
				if n == 0 {
					for i, release := range releases {
						c := d.newClient(i, release, a, a.issue(t, fmt.Sprintf("client%d", i), leaf{}), transport{}, w.client(keys)).up()
						addresses[c], _ = c.addresses()
						clients = append(clients, c)
					}
				}
				for _, c := range clients {
					c.wait(n + 1)
					if v4, _ := c.addresses(); v4 != addresses[c] {
						t.Errorf("%s at %s: address %s, was %s", c.name, kind, v4, addresses[c])
					}
					c.carries()
					v4, _ := c.addresses()
					transfer(t, c.ns, d.server, v4, inner4, 1<<20)
				}
				if !s.stock() {
					if n, _ := s.steered(); n == 0 {
						t.Error("no record came by AF_XDP")
					}
				}
				s.stop()
			}
		})
	}
}
