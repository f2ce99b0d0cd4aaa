// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/admin"
	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/record"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/statickey"
)

// roamer is an injector whose records leave by ordinary sockets of several addresses.
type roamer struct {
	*injector
	t     *testing.T
	g     *gateway
	conns map[netip.AddrPort]*net.UDPConn
	sent  uint64
}

func (d *bed) roam(g *gateway, id uint32, to *sink) *roamer {
	d.t.Helper()
	return &roamer{injector: d.inject(g, id, outerB4, innerB4, to), t: d.t, g: g, conns: map[netip.AddrPort]*net.UDPConn{}}
}

func (r *roamer) conn(d *bed, at netip.AddrPort) *net.UDPConn {
	if r.conns[at] == nil {
		r.conns[at] = listenUDP(r.t, d.b, at)
	}
	return r.conns[at]
}

// from sends a record from an address and waits until the gateway has dealt with it.
func (r *roamer) from(d *bed, at netip.AddrPort, b []byte) *admin.Status {
	r.t.Helper()
	to := netip.AddrPortFrom(outerA4, port)
	if at.Addr().Is6() {
		to = netip.AddrPortFrom(outerA6, port)
	}
	sendTo(r.t, r.conn(d, at), to, b)
	r.sent++
	var s *admin.Status
	eventually(r.t, "record received", func() bool {
		s = r.g.settled()
		return s.Totals.In.Steered+s.Totals.In.Socket == r.sent
	})
	return s
}

// TestFloat moves a peer by authentic new records and by nothing else.
func TestFloat(t *testing.T) {
	long(t)
	for _, rung := range []string{"xdp", "tc", "socket"} {
		t.Run(rung, func(t *testing.T) {
			t.Parallel()
			d := newBed(t, testlab.Veth{})
			g := d.runA(rung).start()
			to := newSink(t, d.a, netip.AddrPortFrom(innerA4, sinkPort))
			r := d.roam(g, 7, to)
			// An address that a live peer holds.
			held := netip.AddrPortFrom(outerB4, 5099)
			g.do("peer", "add", "8", "--remote", held.String(), "--route", "10.9.0.8")
			e := g.watch()
			home, away := netip.AddrPortFrom(outerB4, injectorPort), netip.AddrPortFrom(outerB4, 5001)
			away6 := netip.AddrPortFrom(outerB6, 5001)
			floats := 0
			expect := func(what string, remote netip.AddrPort) {
				t.Helper()
				if at := g.peer("7").Remote; at != remote {
					t.Errorf("%s: the peer is at %s, want %s", what, at, remote)
				}
				e.sync(g)
				if n := len(e.of(admin.EventFloat)); n != floats {
					t.Errorf("%s: %d float events, want %d", what, n, floats)
				}
			}
			steered := func(what string, b []byte, at netip.AddrPort) {
				t.Helper()
				before := g.status().Totals.In.Steered
				if s := r.from(d, at, b); rung != "socket" && s.Totals.In.Steered != before+1 {
					t.Errorf("%s: a record from the peer's address was not steered", what)
				}
			}

			first := r.good()
			steered("home", first, home)
			expect("home", home)

			forged := r.good()
			forged[len(forged)-1] ^= 1
			if s := r.from(d, away, forged); s.Totals.Drops["auth"] != 1 {
				t.Errorf("forged: drops %v", s.Totals.Drops)
			}
			expect("forged", home)

			if s := r.from(d, away, first); s.Totals.Drops["replay"] != 1 {
				t.Errorf("replayed: drops %v", s.Totals.Drops)
			}
			expect("replayed", home)

			late := r.good()
			steered("newer", r.good(), home)
			if s := r.from(d, away, late); s.Totals.In.Delivered != 3 {
				t.Errorf("late: delivered %d, want 3", s.Totals.In.Delivered)
			}
			expect("authentic but older", home)

			if s := r.from(d, held, r.good()); s.Totals.In.Delivered != 4 {
				t.Errorf("held address: delivered %d, want 4", s.Totals.In.Delivered)
			}
			expect("address of a live peer", home)

			// Port 0 cannot be bound, so this one goes by the wire.
			ip := udpPacket(netip.AddrPortFrom(outerB4, 0), r.dst, r.good())
			r.wire.send(r.wire.ethernet(ip))
			r.sent++
			eventually(t, "record from port 0 received", func() bool { return g.settled().Totals.In.Delivered == 5 })
			expect("port 0", home)

			floats++
			r.from(d, away, r.good())
			expect("authentic and newest", away)
			if last := e.of(admin.EventFloat)[0]; last.Remote != away || last.Previous != home || *last.Peer != 7 {
				t.Errorf("float event %+v", last)
			}
			steered("after the float", r.good(), away)
			if s := r.from(d, home, first); s.Totals.Drops["replay"] != 2 {
				t.Errorf("replayed from home: drops %v", s.Totals.Drops)
			}
			expect("replayed from home", away)

			floats++
			r.from(d, away6, r.good())
			expect("IPv6", away6)
			steered("after the float to IPv6", r.good(), away6)

			floats++
			r.from(d, away, r.good())
			expect("back to IPv4", away)

			// What the gateway sends follows.
			reply := netip.AddrPortFrom(innerB4, 7000)
			conn := listenUDP(t, d.a, netip.AddrPortFrom(innerA4, 0))
			sendTo(t, conn, reply, numbered(77, 64))
			buf := make([]byte, 2048)
			_ = r.conns[away].SetReadDeadline(time.Now().Add(limit))
			n, from, err := r.conns[away].ReadFromUDPAddrPort(buf)
			if err != nil {
				t.Fatal(err)
			}
			if plain, ok := r.open(buf[:n]); !ok || netip.AddrPortFrom(from.Addr().Unmap(), from.Port()) != r.dst {
				t.Errorf("answer of %d bytes from %s does not open", n, from)
			} else if number, ok := intact(plain[28:]); number != 77 || !ok {
				t.Errorf("answer holds %x", plain)
			}
			g.stop()
		})
	}
}

// TestFloatBudget lets a peer roam faster than its budget allows: ten moves at
// once, later one more every two seconds. Its records are delivered all the same.
func TestFloatBudget(t *testing.T) {
	long(t)
	for _, rung := range []string{"xdp", "socket"} {
		t.Run(rung, func(t *testing.T) {
			d := newBed(t, testlab.Veth{})
			g := d.runA(rung).start()
			e := g.watch()
			to := newSink(t, d.a, netip.AddrPortFrom(innerA4, sinkPort))
			r := d.roam(g, 7, to)
			const sources, budget = 40, 10
			place := func(i int) netip.AddrPort { return netip.AddrPortFrom(outerB4, uint16(6000+i)) }
			for i := range sources {
				r.conn(d, place(i))
			}
			// One source after the other, none twice: none is ever where the peer is.
			for i := range sources {
				sendTo(t, r.conn(d, place(i)), r.dst, r.good())
			}
			to.exactly(t, 0, sources)
			s := g.settled()
			e.sync(g)
			floats := e.of(admin.EventFloat)
			refused := s.Totals.In.FloatsRefused
			if len(floats) < budget || refused == 0 || uint64(len(floats))+refused != sources || s.Totals.In.Delivered != sources {
				t.Errorf("%d records from as many places: %d moves, %d refused, %+v", sources, len(floats), refused, s.Totals.In)
			}
			for i, f := range floats[:min(budget, len(floats))] {
				if f.Remote != place(i) || i > 0 && f.Previous != place(i-1) {
					t.Errorf("move %d went from %s to %s, want to %s", i, f.Previous, f.Remote, place(i))
				}
			}
			if p := g.peer("7"); p.Remote != floats[len(floats)-1].Remote {
				t.Errorf("the peer is at %s, moved last to %s", p.Remote, floats[len(floats)-1].Remote)
			}
			// The budget fills up again.
			away := netip.AddrPortFrom(outerB4, 5999)
			eventually(t, "another move", func() bool {
				sendTo(t, r.conn(d, away), r.dst, r.good())
				return g.peer("7").Remote == away
			})
			to.exactly(t, 0, r.number)
			g.stop()
		})
	}
}

// TestUndefinedPeerID takes records without a peer id by their address.
func TestUndefinedPeerID(t *testing.T) {
	long(t)
	for _, rung := range []string{"xdp", "socket"} {
		t.Run(rung, func(t *testing.T) {
			d := newBed(t, testlab.Veth{})
			g := d.runA(rung).start()
			to := newSink(t, d.a, netip.AddrPortFrom(innerA4, sinkPort))
			r := d.roam(g, 7, to)
			undef := func() []byte {
				r.next++
				return r.sealAs(record.Word(record.DataV2, r.keyID, record.PeerIDUndef), r.next-1, r.payload())
			}
			s := r.from(d, netip.AddrPortFrom(outerB4, injectorPort), undef())
			if s.Totals.In.Delivered != 1 || s.Totals.In.Socket != 1 {
				t.Errorf("from the peer's address: %+v", s.Totals.In)
			}
			s = r.from(d, netip.AddrPortFrom(outerB4, 5001), undef())
			if s.Totals.In.Delivered != 1 || s.Totals.Drops["unknown_peer"] != 1 {
				t.Errorf("from elsewhere: %+v, drops %v", s.Totals.In, s.Totals.Drops)
			}
			if rung == "xdp" {
				if v := g.nic(s, "eth0").Verdicts; v["undef_peer"].Packets != 1 || v["unknown_peer"].Packets != 1 {
					t.Errorf("verdicts %v", v)
				}
			}
			to.exactly(t, 0, 1)
			g.stop()
		})
	}
}

// TestRemoteIsLearned lets the first authentic record say where a peer is.
func TestRemoteIsLearned(t *testing.T) {
	long(t)
	d := newBed(t, testlab.Veth{})
	g := d.runA("xdp").start()
	to := newSink(t, d.a, netip.AddrPortFrom(innerA4, sinkPort))
	g.do("peer", "add", "7", "--route", innerB4.String())
	key := newKey(t)
	g.do("key", "add", "7", "--cipher", "AES-128-GCM", "--key-file", key, "--role", "server")
	at := netip.AddrPortFrom(outerB4, 6000)
	x := &injector{session: newSession(t, key, "AES-128-GCM", statickey.Client, 7, 0), sink: to,
		inner: netip.AddrPortFrom(innerB4, 7000)}
	r := &roamer{injector: x, t: t, g: g, conns: map[netip.AddrPort]*net.UDPConn{}}
	if peer := g.peer("7"); peer.Remote.IsValid() {
		t.Errorf("remote %s before any record", peer.Remote)
	}
	if s := r.from(d, at, r.good()); s.Totals.In.Socket != 1 || s.Totals.In.Delivered != 1 {
		t.Errorf("first record: %+v", s.Totals.In)
	}
	if peer := g.peer("7"); peer.Remote != at || peer.Local != outerA4 {
		t.Errorf("learned %s and %s, want %s and %s", peer.Remote, peer.Local, at, outerA4)
	}
	if s := r.from(d, at, r.good()); s.Totals.In.Steered != 1 {
		t.Errorf("second record: %+v", s.Totals.In)
	}
	g.stop()
}

// TestExhaustion uses up a key's packet ids with an empty second slot.
func TestExhaustion(t *testing.T) {
	long(t)
	d := newBed(t, testlab.Veth{})
	g := d.runA("xdp").start()
	e := g.watch()
	g.do("peer", "add", "7", "--remote", netip.AddrPortFrom(outerB4, injectorPort).String(), "--route", innerB4.String())
	key := newKey(t)
	const first = 1<<32 - 5
	g.do("key", "add", "7", "--cipher", "AES-128-GCM", "--key-file", key, "--role", "server",
		"--next-packet-id", strconv.FormatUint(first, 10))
	peer := newSession(t, key, "AES-128-GCM", statickey.Client, 7, 0)
	sink := listenUDP(t, d.b, netip.AddrPortFrom(outerB4, injectorPort))
	conn := listenUDP(t, d.a, netip.AddrPortFrom(innerA4, 0))
	const sent = 20
	for i := range uint64(sent) {
		sendTo(t, conn, netip.AddrPortFrom(innerB4, 7000), numbered(i, 64))
		// One super-packet a datagram, so that each reserves by itself.
		eventually(t, "packet taken from the TUN", func() bool {
			s := g.status()
			return s.Totals.Out.Packets+s.Totals.Drops["id_exhausted"]+s.Totals.Drops["no_peer_key"] == i+1
		})
	}
	s := g.status()
	if s.Totals.Out.Packets != 5 || s.Totals.Drops["id_exhausted"] != 1 || s.Totals.Drops["no_peer_key"] != sent-6 {
		t.Errorf("sent %d, drops %v; want 5 sent, 1 without id, %d without key", s.Totals.Out.Packets, s.Totals.Drops, sent-6)
	}
	_ = sink.SetReadDeadline(time.Now().Add(limit))
	buf := make([]byte, 2048)
	for want := uint64(first); want < 1<<32; want++ {
		n, _, err := sink.ReadFromUDPAddrPort(buf)
		if err != nil {
			t.Fatal(err)
		}
		if _, id, ok := record.Parse(buf[:n]); !ok || uint64(id) != want {
			t.Errorf("record with packet id %d, want %d", id, want)
		}
		if _, ok := peer.open(buf[:n]); !ok {
			t.Errorf("record %d does not open", want)
		}
	}
	_ = sink.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, _, err := sink.ReadFromUDPAddrPort(buf); err == nil {
		t.Errorf("one more record, of %d bytes", n)
	}
	killed := e.wait(admin.EventKeyKilled, 1)
	e.sync(g)
	if len(killed) != 1 || killed[0].Reason != admin.KeyPacketID || *killed[0].Peer != 7 {
		t.Errorf("killed %+v", killed)
	}
	wanted := e.of(admin.EventKeyWanted)
	if len(wanted) != 2 || wanted[0].Reason != admin.KeyPacketID || wanted[1].Reason != admin.KeyPacketID {
		t.Errorf("wanted %+v: want one near the end and one at it", wanted)
	}
	if keys := g.peer("7").Keys; len(keys) != 0 {
		t.Errorf("keys %+v after exhaustion", keys)
	}
	// The gateway lives, and a new key works.
	key = newKey(t)
	g.do("key", "add", "7", "--key-id", "1", "--cipher", "AES-128-GCM", "--key-file", key, "--role", "server")
	sendTo(t, conn, netip.AddrPortFrom(innerB4, 7000), numbered(99, 64))
	_ = sink.SetReadDeadline(time.Now().Add(limit))
	if n, _, err := sink.ReadFromUDPAddrPort(buf); err != nil {
		t.Error(err)
	} else if _, ok := newSession(t, key, "AES-128-GCM", statickey.Client, 7, 1).open(buf[:n]); !ok {
		t.Error("a record under the new key does not open")
	}
	g.stop()
}

// TestSameRole gives both ends the same half of a key: it must be noticed.
func TestSameRole(t *testing.T) {
	long(t)
	d := newBed(t, testlab.Veth{})
	g := d.runA("xdp").start()
	e := g.watch()
	to := newSink(t, d.a, netip.AddrPortFrom(innerA4, sinkPort))
	remote := netip.AddrPortFrom(outerB4, injectorPort)
	g.do("peer", "add", "7", "--remote", remote.String(), "--route", innerB4.String())
	key := newKey(t)
	g.do("key", "add", "7", "--cipher", "AES-128-GCM", "--key-file", key, "--role", "server")
	x := &injector{session: newSession(t, key, "AES-128-GCM", statickey.Server, 7, 0), sink: to,
		inner: netip.AddrPortFrom(innerB4, 7000)}
	conn := listenUDP(t, d.b, remote)
	eventually(t, "key killed", func() bool {
		sendTo(t, conn, netip.AddrPortFrom(outerA4, port), x.good())
		return len(e.of(admin.EventKeyKilled)) > 0
	})
	if killed := e.of(admin.EventKeyKilled); len(killed) != 1 || killed[0].Reason != admin.KeySameRole {
		t.Errorf("killed %+v", killed)
	}
	if s := g.settled(); s.Totals.In.Delivered != 0 || s.Totals.Drops["auth"] == 0 {
		t.Errorf("totals %+v", s.Totals)
	}
	if keys := g.peer("7").Keys; len(keys) != 0 {
		t.Errorf("keys %+v", keys)
	}
	g.stop()
}
