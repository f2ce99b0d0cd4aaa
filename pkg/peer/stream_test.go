// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"errors"
	"net/netip"
	"testing"
	"time"
)

type connection struct{ frames int }

func (c *connection) SendFrames([]byte) int { return c.frames }

// A peer with a connection has no endpoint and never gets one.
func TestPeerWithStream(t *testing.T) {
	table, _ := newTable(false)
	conn := new(connection)
	p := mustAdd(t, table, Config{ID: 1, Stream: conn, Prefixes: prefixes("10.9.0.2/32")}, 0)
	if p.Stream() != Stream(conn) || p.Endpoint() != nil {
		t.Errorf("stream %v, endpoint %v", p.Stream(), p.Endpoint())
	}
	remote := addrPort("192.0.2.1:1194")
	if p.Moved(remote, ours, true, second) || p.Endpoint() != nil || table.LookupRemote(remote) != nil {
		t.Error("it floats")
	}
	if table.FloatsRefused() != 0 {
		t.Error("counted as a refused float")
	}
	if _, err := table.Set(1, Change{Remote: &remote}, 0); !errors.Is(err, ErrInvalid) || p.Endpoint() != nil {
		t.Errorf("a remote address was set: %v", err)
	}
	if _, err := table.Set(1, Change{Interval: ptr(time.Second), Timeout: ptr(time.Minute), Prefixes: ptr(prefixes("10.9.0.3/32"))}, 0); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]Config{
		"remote": {ID: 2, Stream: conn, Remote: remote},
		"local":  {ID: 2, Stream: conn, Local: netip.MustParseAddr("192.0.2.2")},
	} {
		if _, err := table.Add(c, 0); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if q := mustAdd(t, table, Config{ID: 3}, 0); q.Stream() != nil {
		t.Error("a peer without a connection has one")
	}
}

func TestOther(t *testing.T) {
	table, _ := newTable(false)
	a := mustAdd(t, table, Config{ID: 1, Prefixes: prefixes("10.9.0.2/32", "192.168.0.0/16")}, 0)
	b := mustAdd(t, table, Config{ID: 2, Prefixes: prefixes("10.9.0.3/32", "192.168.7.0/24", "fd00::/64")}, 0)
	table.SetLocal([]netip.Addr{netip.MustParseAddr("192.168.7.1"), netip.MustParseAddr("192.168.7.255")})
	for dst, want := range map[string]*Peer{
		"10.9.0.3":      b,
		"192.168.7.9":   b,
		"fd00::9":       b,
		"10.9.0.2":      nil, // its own
		"192.168.6.9":   nil,
		"192.168.7.1":   nil, // this host's
		"192.168.7.255": nil,
		"10.9.0.4":      nil, // nobody's
		"224.0.0.1":     nil,
		"ff02::1":       nil,
	} {
		if got := a.Other(netip.MustParseAddr(dst)); got != want {
			t.Errorf("%s goes to %v", dst, got)
		}
	}
	if got := b.Other(netip.MustParseAddr("192.168.6.9")); got != a {
		t.Errorf("to a: %v", got)
	}
	p2p, _ := newTable(true)
	if got := mustAdd(t, p2p, Config{ID: 1}, 0).Other(netip.MustParseAddr("10.9.0.3")); got != nil {
		t.Errorf("point to point: %v", got)
	}
}
