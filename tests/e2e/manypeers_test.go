// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/ovpn-xdp/ovpn-xdp/internal/admin"
	"github.com/ovpn-xdp/ovpn-xdp/internal/steer"
	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/record"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/statickey"
)

// crowd is a connection to a gateway's admin socket, for requests by the
// thousand, and makes peers that are told apart by their number.
type crowd struct {
	t *testing.T
	c *admin.Client
}

func (g *gateway) crowd() crowd {
	g.t.Helper()
	c, err := admin.Dial(context.Background(), filepath.Join(g.dir, g.name+".sock"))
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { c.Close() })
	return crowd{g.t, c}
}

func (c crowd) call(method string, params any) {
	c.t.Helper()
	if err := c.c.Call(context.Background(), method, params, nil); err != nil {
		c.t.Fatalf("%s: %v", method, err)
	}
}

// inner and outer are addresses of a peer, which no other has.
func (crowd) inner(i int) netip.Addr {
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, 10<<24|64<<16|uint32(i))))
}

func (crowd) outer(i int) netip.AddrPort { return netip.AddrPortFrom(outerB4, uint16(10000+i)) }

func (c crowd) add(i int) {
	c.t.Helper()
	c.call(admin.MethodPeerAdd, admin.PeerAdd{ID: uint32(i), Remote: c.outer(i),
		Routes: []netip.Prefix{netip.PrefixFrom(c.inner(i), 32)}, Keepalive: admin.Keepalive{Interval: 600, Timeout: 3600}})
}

func (c crowd) key(i int, block [statickey.Size]byte) {
	c.t.Helper()
	secret := admin.Secret(block)
	c.call(admin.MethodKeyAdd, admin.KeyAdd{Peer: uint32(i), Slot: admin.Primary, Cipher: "AES-128-GCM", Role: admin.RoleServer, Block: &secret})
}

// member makes an injector of a peer that is there already.
func (c crowd) member(d *bed, i int, to *sink) *injector {
	c.t.Helper()
	file := newKey(c.t)
	c.key(i, keyBlock(c.t, file))
	return &injector{session: newSession(c.t, file, "AES-128-GCM", statickey.Client, uint32(i), 0),
		wire: newWire(c.t, d.b, d.a, 0), src: c.outer(i), dst: netip.AddrPortFrom(outerA4, port),
		inner: netip.AddrPortFrom(c.inner(i), 7000), sink: to}
}

// TestMorePeersThanTheMapsHold adds more than there is room for. Those that
// the maps have are steered, the others take the socket, and attaching works.
func TestMorePeersThanTheMapsHold(t *testing.T) {
	long(t)
	const all, each = steer.DefaultPeers + 600, 50
	d := newBed(t, testlab.Veth{WireLike: true})
	g := d.runA("xdp").start()
	to := newSink(t, d.a, netip.AddrPortFrom(innerA4, sinkPort))
	c := g.crowd()
	for i := 1; i <= all; i++ {
		c.add(i)
	}
	first, last := c.member(d, 1, to), c.member(d, all, to)
	last.number = 1000
	// send sends `each` records of both and counts how they came.
	send := func(what string, steered, socket uint64) {
		t.Helper()
		was := g.settled().Totals.In
		for range each {
			first.wire.send(first.frame(first.good()))
			last.wire.send(last.frame(last.good()))
		}
		to.waitFor(func() bool { return to.total.Load() == was.Delivered+2*each })
		now := g.settled().Totals.In
		if now.Steered-was.Steered != steered || now.Socket-was.Socket != socket || now.Delivered-was.Delivered != 2*each {
			t.Errorf("%s: %d steered, %d by socket, %d delivered, want %d, %d, %d; drops %v", what, now.Steered-was.Steered,
				now.Socket-was.Socket, now.Delivered-was.Delivered, steered, socket, 2*each, now.Drops)
		}
	}
	send("added one by one", each, each)
	// Attaching writes peers in the order of their ids.
	g.do("detach", "eth0")
	g.do("attach", "eth0")
	g.onRung("eth0", "xdp")
	send("attached with all of them", each, each)

	// The maps cannot tell whom nobody knows, but the socket can.
	stranger := first.sealAs(record.Word(record.DataV2, 0, 0x777777), 1, []byte{0x45})
	first.wire.send(first.frame(stranger))
	eventually(t, "an unknown peer's record dropped", func() bool { return g.settled().Totals.Drops["unknown_peer"] == 1 })

	// When there is room again, it is used.
	for i := 2; i <= all-steer.DefaultPeers+1; i++ {
		c.call(admin.MethodPeerDel, admin.PeerRef{ID: uint32(i)})
	}
	eventually(t, "a record of the last peer steered", func() bool {
		was := g.settled().Totals.In
		last.wire.send(last.frame(last.good()))
		to.waitFor(func() bool { return to.total.Load() == was.Delivered+1 })
		return g.settled().Totals.In.Steered > was.Steered
	})
	send("with room again", 2*each, 0)
	if delivered := g.settled().Totals.In.Delivered; to.damaged > 0 || to.total.Load() != delivered {
		t.Errorf("%d payloads arrived, want %d; %d are damaged", to.total.Load(), delivered, to.damaged)
	}
	g.stop()
}

var vmRSS = regexp.MustCompile(`VmRSS:\s*(\d+) kB`)

// resident is the gateway's memory in bytes, that of maps in the kernel not included.
func (g *gateway) resident() int {
	g.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", g.proc.PID()))
	if err != nil {
		g.t.Fatal(err)
	}
	m := vmRSS.FindSubmatch(text)
	if m == nil {
		g.t.Fatalf("no VmRSS in %s", text)
	}
	kib, err := strconv.Atoi(string(m[1]))
	if err != nil {
		g.t.Fatal(err)
	}
	return kib << 10
}

// TestIdlePeersAreSmall has 10,000 peers, each with a route, a key and a
// replay window, and looks at what they take, garbage of adding them included.
func TestIdlePeersAreSmall(t *testing.T) {
	long(t)
	const peers, most = 10_000, 16 << 10
	d := newBed(t, testlab.Veth{})
	g := d.runA("xdp").start()
	c := g.crowd()
	before := g.resident()
	for i := 1; i <= peers; i++ {
		c.add(i)
		var block [statickey.Size]byte
		if _, err := rand.Read(block[:]); err != nil {
			t.Fatal(err)
		}
		c.key(i, block)
	}
	grown := g.resident() - before
	t.Logf("%d bytes for each of %d peers", grown/peers, peers)
	if grown > peers*most && !raceEnabled { // the race detector's own memory would count
		t.Errorf("%d peers take %d bytes each, want at most %d", peers, grown/peers, most)
	}
	var list struct{ Peers []admin.Peer }
	if err := c.c.Call(context.Background(), admin.MethodPeerList, nil, &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Peers) != peers || len(list.Peers[peers-1].Keys) != 1 {
		t.Errorf("%d peers are listed, want %d, each with a key", len(list.Peers), peers)
	}
	g.stop()
}
