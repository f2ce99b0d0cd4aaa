// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/aead"
)

func TestReplace(t *testing.T) {
	table, heard := newTable(false)
	at := addrPort("192.0.2.1:1194")
	old := mustAdd(t, table, Config{ID: 1, Remote: at, Prefixes: prefixes("10.9.0.2/32", "192.168.1.0/24")}, 0)
	key := newKey(t, 0, aead.AES128GCM)
	mustSet(t, old, Primary, key)
	heard.take()
	p, err := table.Replace(old, Config{ID: 2, Remote: at, Prefixes: prefixes("10.9.0.2/32", "192.168.2.0/24")}, "reconnected", 7)
	if err != nil {
		t.Fatal(err)
	}
	heard.want(t, []*Peer{old, p, p}, "peer_gone 1 reconnected") // p as the heir of old's address, and for itself
	if !old.Gone() || !key.Dead() || p.Gone() || table.Len() != 1 || table.Lookup(1) != nil || table.Lookup(2) != p || table.LookupRemote(at) != p {
		t.Error("the old peer is there, or the new one is not")
	}
	for dst, want := range map[string]*Peer{"10.9.0.2": p, "192.168.1.1": nil, "192.168.2.1": p} {
		if got := table.Route(netip.MustParseAddr(dst)); got != want {
			t.Errorf("%s is routed to %v", dst, got)
		}
	}
	// The same id again, and a peer that has gone.
	q, err := table.Replace(p, Config{ID: 2}, ReasonUser, 8)
	if err != nil || table.Lookup(2) != q || table.Len() != 1 {
		t.Errorf("the same id: %v, found %v", err, table.Lookup(2))
	}
	heard.take()
	r, err := table.Replace(old, Config{ID: 3, Prefixes: prefixes("10.9.0.2/32")}, ReasonUser, 9)
	if err != nil || table.Len() != 2 {
		t.Errorf("in the place of one that has gone: %v", err)
	}
	heard.want(t, []*Peer{r})
}

func TestReplaceRefused(t *testing.T) {
	table, heard := newTable(false)
	old := mustAdd(t, table, Config{ID: 1, Prefixes: prefixes("10.9.0.2/32")}, 0)
	mustAdd(t, table, Config{ID: 2, Prefixes: prefixes("10.9.0.3/32")}, 0)
	heard.take()
	for name, c := range map[string]struct {
		config Config
		want   error
		says   string
	}{
		"another's id":     {Config{ID: 2}, ErrExists, "id 2"},
		"another's prefix": {Config{ID: 3, Prefixes: prefixes("10.9.0.2/32", "10.9.0.3/32")}, ErrExists, "belongs to peer 2"},
		"invalid":          {Config{ID: 3, Prefixes: prefixes("10.9.0.2/31", "10.9.0.2/31")}, ErrInvalid, "twice"},
	} {
		if p, err := table.Replace(old, c.config, ReasonUser, 0); p != nil || !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
	heard.want(t, nil)
	if old.Gone() || table.Len() != 2 || table.Route(netip.MustParseAddr("10.9.0.2")) != old {
		t.Error("a refused change changed something")
	}
}

func TestReplacePointToPoint(t *testing.T) {
	table, _ := newTable(true)
	old := mustAdd(t, table, Config{ID: 1}, 0)
	p, err := table.Replace(old, Config{ID: 2}, ReasonUser, 0)
	if err != nil || table.Route(netip.MustParseAddr("192.0.2.1")) != p || table.Len() != 1 {
		t.Fatalf("%v, routed to %v", err, table.Route(netip.MustParseAddr("192.0.2.1")))
	}
	if _, err := table.Replace(old, Config{ID: 3}, ReasonUser, 0); !errors.Is(err, ErrExists) {
		t.Errorf("the peer of a newer session was replaced: %v", err)
	}
}

// A packet is never without a route, whichever session it goes to.
func TestReplaceLeavesNoGap(t *testing.T) {
	for name, p2p := range map[string]bool{"peers": false, "point-to-point": true} {
		t.Run(name, func(t *testing.T) {
			table, _ := newTable(p2p)
			c := Config{ID: 0}
			if !p2p {
				c.Prefixes = prefixes("10.9.0.2/32")
			}
			p := mustAdd(t, table, c, 0)
			stop := make(chan struct{})
			var reader sync.WaitGroup
			reader.Go(func() {
				for dst := netip.MustParseAddr("10.9.0.2"); ; {
					select {
					case <-stop:
						return
					default:
						if table.Route(dst) == nil {
							t.Error("no route")
							return
						}
					}
				}
			})
			for id := range uint32(2000) {
				c.ID = 1 + id
				next, err := table.Replace(p, c, ReasonUser, 0)
				if err != nil {
					t.Fatal(err)
				}
				p = next
			}
			close(stop)
			reader.Wait()
		})
	}
}
