// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"net/netip"
	"sync"
	"testing"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/tun"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/udp"
)

// Control datagrams leave from the address they are said to, in order.
func TestSendControl(t *testing.T) {
	b := newBed(t, false)
	var want [][]byte
	for i := range 150 { // more than one system call takes
		want = append(want, controlPacket(14+i))
	}
	local := addrPort("127.0.0.77:1194")
	if n := b.engine.SendControl(local, b.far.Addr(), want); n != len(want) {
		t.Errorf("%d sent", n)
	}
	for i, d := range b.received(len(want)) {
		if d.src != local || !bytes.Equal(d.data, want[i]) {
			t.Fatalf("datagram %d from %s differs", i, d.src)
		}
	}
	// Without a local address, and with one that no listener has.
	for _, local := range []netip.AddrPort{{}, netip.AddrPortFrom(netip.Addr{}, 1194)} {
		if n := b.engine.SendControl(local, b.far.Addr(), want[:1]); n != 1 {
			t.Errorf("from %s: %d sent", local, n)
		}
		b.received(1)
	}
	if n := b.engine.SendControl(local, addrPort("[2001:db8::1]:1194"), want[:2]); n != 0 {
		t.Errorf("%d sent without a listener of the family", n)
	}
	if n := b.engine.SendControl(local, addrPort("203.0.113.1:1194"), want[:3]); n != 0 {
		t.Errorf("%d sent without a route", n)
	}
	if n := b.engine.SendControl(local, b.far.Addr(), nil); n != 0 {
		t.Errorf("%d of none sent", n)
	}
	if s := b.engine.Stats(); s.ControlOut != 152 || s.ControlLost != 5 {
		t.Errorf("%d sent, %d lost", s.ControlOut, s.ControlLost)
	}
	b.nothingMore()
}

// Of several listeners the one that was asked answers.
func TestSendControlPicksTheListener(t *testing.T) {
	b := newBed(t, false, func(_ *Config, u *udp.Config, _ *tun.Config) { u.Addr = addrPort("127.0.0.1:1194") })
	second := listenIn(t, b.ns, udp.Config{Addr: addrPort("127.0.0.1:1195")})
	b.engine.cfg.Conns = append(b.engine.cfg.Conns, second)
	for _, local := range []netip.AddrPort{addrPort("127.0.0.1:1195"), addrPort("127.0.0.1:1194")} {
		b.engine.SendControl(local, b.far.Addr(), [][]byte{controlPacket(20)})
		if got := b.received(1)[0].src; got != local {
			t.Errorf("came from %s, want %s", got, local)
		}
	}
}

func TestSendControlFromManyGoroutines(t *testing.T) {
	b := newBed(t, false)
	var all sync.WaitGroup
	for i := range byte(8) {
		all.Go(func() {
			for range 20 {
				b.engine.SendControl(addrPort("127.0.0.1:1194"), b.far.Addr(), [][]byte{bytes.Repeat([]byte{i}, 30), bytes.Repeat([]byte{i}, 31)})
			}
		})
	}
	all.Wait()
	var last byte
	for n, d := range b.received(320) {
		if len(d.data) != 30+n%2 || (n%2 == 1 && d.data[0] != last) || bytes.Count(d.data, d.data[:1]) != len(d.data) {
			t.Fatalf("datagram %d is mixed up", n)
		}
		last = d.data[0]
	}
}
