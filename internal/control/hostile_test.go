// SPDX-License-Identifier: Apache-2.0

package control

import (
	"crypto/rand"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/session"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wire"
)

// sessions returns how many there are, and how many of them are half-open.
func (b *bed) sessions() (all, half int) {
	b.svc.mu.RLock()
	defer b.svc.mu.RUnlock()
	return len(b.svc.all), b.svc.halfOpen.len()
}

// quiet waits until the gate has seen all that was sent to it.
func (b *bed) quiet() {
	b.eventually("the queue is empty", func() bool { return len(b.svc.unknown) == 0 })
}

// offer sends a datagram, again if there is no room.
func (b *bed) offer(at netip.AddrPort, d []byte) {
	for !b.svc.Datagram(at, local, d) {
		runtime.Gosched()
	}
}

// TestForgedResets cost nothing, also from a connected client's address.
func TestForgedResets(t *testing.T) {
	b := newBed(t)
	c := b.dial(address(1), named("alice"))
	c.up()
	before, _ := b.sessions()
	for n := range 10_000 {
		at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{203, 0, byte(n >> 8), byte(n)}), uint16(n)+1)
		if n%2 == 0 {
			at = c.at
		}
		d := reset(byte(n))
		_, _ = rand.Read(d[1:9])
		b.offer(at, d)
	}
	b.quiet()
	if all, _ := b.sessions(); all != before {
		t.Errorf("%d sessions, %d before", all, before)
	}
	c.session(func(s *session.Session) { s.Renegotiate(time.Now()) })
	b.eventually("the client was not disturbed", func() bool { k := b.peer("10.8.0.2").PrimaryKey(); return k != nil && k.ID == 1 })
}

// halfOpen are sessions that stop after the cookie: n from an address.
func (b *bed) halfOpen(at netip.Addr, n int) {
	for port := range n {
		from := netip.AddrPortFrom(at, uint16(port)+1024)
		d := reset(0)
		_, _ = rand.Read(d[1:9])
		c := &dialler{b: b, at: from, in: make(chan []byte, 4)}
		b.mu.Lock()
		b.clients[from] = c
		b.mu.Unlock()
		b.offer(from, d)
		var answer []byte
		select {
		case answer = <-c.in:
		case <-time.After(patience):
			b.t.Fatal("no answer to a reset")
		}
		b.mu.Lock()
		delete(b.clients, from)
		b.mu.Unlock()
		h, _ := wire.ParseHeader(answer)
		own, _ := wire.ParseHeader(d)
		ack := wire.Body{NAcks: 1, Remote: h.Session}
		own.Opcode = wire.AckV1
		b.offer(from, ack.Append(wire.AckV1, own.Append(nil)))
	}
}

// TestHalfOpenSessions are bounded by where they come from; others get in.
func TestHalfOpenSessions(t *testing.T) {
	b := newBed(t, "hand-window 60")
	b.halfOpen(netip.MustParseAddr("203.0.113.1"), 2*halfOpenPerPrefix)
	b.quiet()
	if _, half := b.sessions(); half != halfOpenPerPrefix {
		t.Errorf("%d half-open sessions of one address, want %d", half, halfOpenPerPrefix)
	}
	b.dial(address(1), named("alice")).up()
	// IPv6 is counted by /64.
	for n := range 4 {
		a := netip.MustParseAddr("2001:db8::").As16()
		a[15] = byte(n)
		b.halfOpen(netip.AddrFrom16(a), halfOpenPerPrefix/2)
	}
	b.quiet()
	if _, half := b.sessions(); half != 2*halfOpenPerPrefix {
		t.Errorf("%d half-open sessions of two prefixes, want %d", half, 2*halfOpenPerPrefix)
	}
	b.dial(address(2), named("bob")).up()
}

// TestGarbage to a session, to the gate and with other opcodes.
func TestGarbage(t *testing.T) {
	b := newBed(t)
	c := b.dial(address(1), named("alice"))
	c.up()
	i := b.svc.clients()[0]
	sid := i.sid
	for n := range 5000 {
		d := make([]byte, n%1500)
		_, _ = rand.Read(d)
		if len(d) > 9 {
			d[0] = byte(n%12)<<3 | byte(n%8)
			if n%3 == 0 {
				copy(d[1:9], sid[:])
			}
		}
		b.svc.Datagram(c.at, local, d)
		b.svc.Datagram(address(n%50+100), local, d)
	}
	b.quiet()
	c.session(func(s *session.Session) { s.Renegotiate(time.Now()) })
	b.eventually("the client was not disturbed", func() bool { k := b.peer("10.8.0.2").PrimaryKey(); return k != nil && k.ID == 1 })
}

// TestOddNames end in no line of their own in log, status or file.
func TestOddNames(t *testing.T) {
	b := newBed(t)
	for n, cn := range []string{"a,b", "line\nbreak", "tab\tbell\a", "$(reboot)", "..", "-rf", "esc\x1b[31m", strings.Repeat("n", 300)} {
		c := b.dial(address(n+1), named(cn))
		if cn == strings.Repeat("n", 300) {
			continue // longer than X.509 allows; whatever becomes of it, nothing breaks
		}
		c.up()
	}
	for _, c := range b.svc.Report().Clients {
		if strings.ContainsAny(c.CommonName, "\n\t\a\x1b") {
			t.Errorf("name %q", c.CommonName)
		}
	}
	for line := range strings.Lines(b.log.String()) {
		if !strings.HasPrefix(line, "time=") {
			t.Errorf("line %q", line)
		}
	}
}

// TestManyReconnects of one client leave one session behind.
func TestManyReconnects(t *testing.T) {
	b := newBed(t)
	p := named("alice")
	for n := range 100 {
		b.dial(address(n%5+1), p).up()
	}
	b.eventually("one session is left", func() bool { all, _ := b.sessions(); return all == 1 })
	if b.peers.Len() != 1 || b.svc.books.count() != 1 {
		t.Errorf("%d peers, %d leases", b.peers.Len(), b.svc.books.count())
	}
}

// TestLargePeerInfo of 100 KB is cut, and the client is let in.
func TestLargePeerInfo(t *testing.T) {
	b := newBed(t)
	p := named("chatty")
	p.peerInfo = peerInfo26 + strings.Repeat("UV_X=y\n", 8000)
	b.dial(address(1), p).up()
}
