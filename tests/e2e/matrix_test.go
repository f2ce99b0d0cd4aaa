// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/ovpn-xdp/ovpn-xdp/internal/admin"
	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
)

// ciphers are tested in full; the short suite, which is about kernels, takes one.
func ciphers() []string {
	if testing.Short() {
		return []string{"AES-128-GCM"}
	}
	return admin.Ciphers()
}

// TestMatrix sends every cipher's records over both outer families on every
// rung, with both inner families inside.
func TestMatrix(t *testing.T) {
	for _, rung := range rungs() {
		t.Run(rung, func(t *testing.T) {
			d := newBed(t, testlab.Veth{WireLike: true, Queues: 2})
			a, b := d.runA(rung).start(), d.runB(rung).start()
			a.onRung("eth0", rung)
			b.onRung("eth0", rung)
			id := 0
			for _, cipher := range ciphers() {
				for _, outer := range []struct {
					name string
					a, b netip.Addr
				}{{"over-ipv4", outerA4, outerB4}, {"over-ipv6", outerA6, outerB6}} {
					id++
					t.Run(cipher+"/"+outer.name, func(t *testing.T) {
						carries(t, d, a, b, tunnel{id: id, cipher: cipher, remoteA: outer.a, remoteB: outer.b})
					})
				}
			}
			for _, g := range []*gateway{a, b} {
				throughRung(t, g.settled(), rung)
				g.stop()
			}
		})
	}
}

// carries makes a tunnel, sends pings and TCP through it and removes it.
func carries(t *testing.T, d *bed, a, b *gateway, n tunnel) {
	t.Helper()
	d.connect(a, b, n)
	size := int64(2 << 20)
	if testing.Short() {
		size = 128 << 10
	}
	mustPing(t, d.a, innerB4, 3, "-s", "1000")
	mustPing(t, d.b, innerA6, 3, "-s", "1000")
	mustPing(t, d.a, innerB4, 2, "-s", "3000") // inner fragments
	transfer(t, d.b, d.a, innerB4, innerA4, size)
	transfer(t, d.b, d.a, innerB6, innerA6, size)
	id := fmt.Sprint(n.id)
	for _, g := range []*gateway{a, b} {
		p := g.peer(id)
		if p.In.Records == 0 || p.Out.Records == 0 || p.LinkIn.Bytes <= p.In.Bytes || p.LinkOut.Bytes <= p.Out.Bytes {
			t.Errorf("%s: peer counters %+v", g.name, p)
		}
		if len(p.Keys) != 1 || p.Keys[0].Cipher != n.cipher && n.cipher != "" || uint64(p.Keys[0].HighestReceived) < p.In.Records {
			t.Errorf("%s: keys %+v after %d records", g.name, p.Keys, p.In.Records)
		}
		g.do("peer", "del", id)
	}
}

// throughRung checks that records went the way they should have, and that
// nothing was dropped.
func throughRung(t *testing.T, s *admin.Status, rung string) {
	t.Helper()
	in := &s.Totals.In
	if rung == "socket" {
		if in.Steered != 0 || in.Socket == 0 || in.Rungs["socket"].Records != in.Socket {
			t.Errorf("%s: %d records steered, %d by socket, rungs %+v", s.Name, in.Steered, in.Socket, in.Rungs)
		}
	} else if in.Steered == 0 || in.Rungs[rung].Records == 0 || in.Steered < 10*in.Socket {
		t.Errorf("%s: %d records steered, %d by socket, rungs %+v: want nearly all by %s", s.Name, in.Steered, in.Socket, in.Rungs, rung)
	}
	for reason, n := range s.Totals.Drops {
		// The kernel speaks to multicast groups on a TUN, which no peer has.
		if n > 0 && reason != "no_route" && reason != "no_peer_key" {
			t.Errorf("%s: %d records dropped: %s", s.Name, n, reason)
		}
	}
	if in.Batches == 0 || in.MeanBatch < 1 || in.TunWrites == 0 || in.TunWrites > in.Delivered {
		t.Errorf("%s: %+v", s.Name, in)
	}
}

// TestKillAndRestart crashes a gateway three times on every rung. Each time
// it has to start with what the last one left, and refuse a key whose packet ids
// would start again.
func TestKillAndRestart(t *testing.T) {
	long(t)
	for _, rung := range rungs() {
		t.Run(rung, func(t *testing.T) {
			t.Parallel()
			d := newBed(t, testlab.Veth{WireLike: true})
			a, b := d.runA(rung), d.runB(rung).start()
			for life := 1; life <= 3; life++ {
				a.start()
				n := d.connect(a, b, tunnel{id: life})
				mustPing(t, d.a, innerB4, 3)
				transfer(t, d.a, d.b, innerA4, innerB4, 256<<10)
				a.kill()
				if link := d.a.Link("eth0"); link.XDP.Attached {
					t.Errorf("life %d: a killed gateway left XDP program %d", life, link.XDP.ProgID)
				}
				// Nobody answers, but what is not ours still passes.
				mustPing(t, d.b, outerA4, 2)
				a.start()
				a.do("peer", "add", "1")
				_, errs, code := a.try("key", "add", "1", "--cipher", "AES-128-GCM", "--key-file", n.keyFile, "--role", "server")
				if code != 1 || !strings.Contains(errs, "used before") {
					t.Errorf("life %d: a used key was answered with %d, %q", life, code, errs)
				}
				a.kill()
				b.do("peer", "del", fmt.Sprint(life))
			}
			a.start()
			d.connect(a, b, tunnel{id: 9})
			mustPing(t, d.a, innerB4, 3)
			throughRung(t, a.settled(), rung)
			a.stop()
			b.stop()
		})
	}
}

// TestOtherTrafficIsUnharmed sends everything that is not a record past
// attached gateways: neighbour resolution, ICMP, UDP to other ports, UDP to the
// listener that is no record, TCP.
func TestOtherTrafficIsUnharmed(t *testing.T) {
	for _, rung := range rungs() {
		t.Run(rung, func(t *testing.T) {
			d := newBed(t, testlab.Veth{NoNeighbours: true})
			a, b := d.runA(rung).start(), d.runB(rung).start()
			d.connect(a, b, tunnel{id: 1})
			mustPing(t, d.a, innerB4, 2)
			before := a.settled()
			for _, pair := range [][2]netip.Addr{{outerA4, outerB4}, {outerA6, outerB6}} {
				mustPing(t, d.b, pair[0], 5, "-s", "1400")
				mustPing(t, d.a, pair[1], 2, "-s", "4000")
				transfer(t, d.b, d.a, pair[1], pair[0], 1<<20)
				out := newSink(t, d.a, netip.AddrPortFrom(pair[0], 5353))
				conn := listenUDP(t, d.b, netip.AddrPortFrom(pair[1], 0))
				for i := range uint64(50) {
					sendTo(t, conn, out.addr, numbered(i, 1200))
				}
				out.exactly(t, 0, 50)
			}
			after := a.settled()
			if after.Totals.In.Steered != before.Totals.In.Steered || after.Totals.In.Socket != before.Totals.In.Socket {
				t.Errorf("other traffic was taken for records: %+v, before %+v", after.Totals.In, before.Totals.In)
			}
			a.stop()
			b.stop()
		})
	}
}

// TestPinsOfTwoNamespaces lets two gateways pin below one bpffs, and looks
// at the maps' files.
func TestPinsOfTwoNamespaces(t *testing.T) {
	d := newBed(t, testlab.Veth{})
	a, b := d.runA("xdp").start(), d.runB("tc").start()
	pinsA, pinsB := a.nic(a.status(), "eth0").Pins, b.nic(b.status(), "eth0").Pins
	if pinsA == pinsB {
		t.Errorf("both gateways pin at %s", pinsA)
	}
	for _, path := range []string{pinsA, pinsB} {
		for _, name := range []string{"listeners", "peers", "verdicts", "control"} {
			if _, err := os.Stat(path + "/" + name); err != nil {
				t.Error(err)
			}
		}
	}
	b.stop()
	if _, err := os.Stat(pinsA + "/peers"); err != nil {
		t.Errorf("the other gateway's pins went too: %v", err)
	}
	a.stop()
}
