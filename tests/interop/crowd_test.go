// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"fmt"
	"slices"
	"sync"
	"testing"
)

// TestCrowd connects a hundred clients of all releases at once, each of which then
// passes checked traffic both ways at the same time as the others.
func TestCrowd(t *testing.T) {
	long(t)
	const crowd = 100
	releases := []string{"2.5", "2.6", "2.7"}
	d := newBed(t, crowd)
	a, keys, w := mustAuthority(t, p256), mustKeys(t), wrappingNamed(t, "tls-crypt-v2")
	s := d.newServer(d.configure(a, transport{}, nil, w.server(keys)))
	s.start()
	clients := make([]*client, crowd)
	var want []string
	for i := range clients {
		name := fmt.Sprintf("client%03d", i)
		want = append(want, name)
		clients[i] = d.newClient(i, releases[i%len(releases)], a, a.issue(t, name, leaf{}), transport{}, w.client(keys), "verb 3")
	}
	for _, c := range clients {
		c.start()
	}
	seen := map[string]string{}
	for _, c := range clients {
		c.wait(1)
		v4, _ := c.addresses()
		if other, ok := seen[v4.String()]; ok {
			t.Errorf("%s and %s have the address %s", c.name, other, v4)
		}
		seen[v4.String()] = c.name
	}
	var flows []*flow
	for _, c := range clients {
		up, down := c.flows(d.server, 20)
		flows = append(flows, up, down)
	}
	for _, f := range flows {
		f.reach(200)
	}
	var stopped sync.WaitGroup
	for _, f := range flows {
		stopped.Go(f.whole)
	}
	stopped.Wait()
	slices.Sort(want)
	awaitNames(t, s, want...)
	if !s.stock() {
		for _, c := range clients {
			c.clean()
		}
		if n, _ := s.steered(); n < crowd*100 {
			t.Errorf("%d records came by AF_XDP, want at least %d", n, crowd*100)
		}
	}
	s.stop()
}
