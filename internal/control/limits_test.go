// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/keyex"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/session"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wire"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wrap"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/peer"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/statickey"
)

// outcomes waits until each client is in, refused, or given up by the server, and returns
// who is in.
func (b *bed) outcomes(clients []*dialler) (in []*dialler) {
	b.t.Helper()
	b.eventually("all have an answer", func() bool {
		in = in[:0]
		decided := 0
		for _, c := range clients {
			switch {
			case c.heard(keyex.AuthFailed):
				decided++
			case c.option("peer-id") != "":
				decided++
				in = append(in, c)
			}
		}
		return decided == len(clients)
	})
	return in
}

// TestMaxClientsAtOnce: no more get in when all come at the same time.
func TestMaxClientsAtOnce(t *testing.T) {
	b := newBed(t, "max-clients 3", "client-config-dir "+t.TempDir())
	var clients []*dialler
	for n := range 12 {
		clients = append(clients, b.dial(address(n+1), named(fmt.Sprint("client", n))))
	}
	if in := b.outcomes(clients); len(in) != 3 || b.peers.Len() != 3 {
		t.Errorf("%d clients with %d peers are in, want 3", len(in), b.peers.Len())
	}
}

// TestOneNameAtOnce: of sessions of one client that come at the same time one is
// left, with and without commands that delay them.
func TestOneNameAtOnce(t *testing.T) {
	slow := command(t, t.TempDir(), "slow", "sleep 0.05\n")
	for name, options := range map[string][]string{
		"plain":    nil,
		"files":    {"client-config-dir " + t.TempDir()},
		"commands": {"script-security 2", "client-connect " + slow, "client-disconnect " + slow},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, options...)
			p := named("alice")
			for n := range 10 {
				b.dial(address(n+1), p)
			}
			b.eventually("one is left", func() bool {
				all, half := b.sessions()
				return all == 1 && half == 0 && b.peers.Len() == 1 && b.svc.books.count() == 1
			})
		})
	}
}

// TestPoolExhausted: the client shall try again, and the log says what to do.
func TestPoolExhausted(t *testing.T) {
	b := newBed(t, "duplicate-cn", "max-clients 1000")
	for {
		if _, err := b.reserve(1, unnamed, ""); err != nil {
			break
		}
	}
	b.dial(address(1), named("late")).fails("AUTH_FAILED,TEMP:the server has no address left")
	b.logged("widen")
	for _, l := range b.svc.books.rivals(unnamed) {
		b.svc.books.release(l, peer.ReasonUser)
	}
}

// TestConnectFreq counts sessions by prefix.
func TestConnectFreq(t *testing.T) {
	b := newBed(t, "connect-freq 3 3600", "duplicate-cn")
	p := named("alice")
	site := netip.MustParseAddr("203.0.113.1")
	var clients []*dialler
	for port := range 8 {
		clients = append(clients, b.dial(netip.AddrPortFrom(site, uint16(port)+1000), p))
	}
	in := func() (n int) {
		for _, c := range clients {
			if c.option("peer-id") != "" {
				n++
			}
		}
		return n
	}
	b.eventually("three are in", func() bool { return in() == 3 })
	b.dial(address(1), p).up()
	b.eventually("others were turned down", func() bool { return b.svc.counters.refused.Load() >= 5 })
	if n := in(); n != 3 {
		t.Errorf("%d clients of one address are in, want 3", n)
	}
}

// TestHalfOpenSessionsEnd with hand-window and leave nothing behind; 10,000 of
// as many addresses let others in meanwhile.
func TestHalfOpenSessionsEnd(t *testing.T) {
	b := newBed(t, "hand-window 4")
	for n := range 10_000 {
		b.halfOpen(netip.AddrFrom4([4]byte{203, 0, byte(n >> 8), byte(n)}), 1)
	}
	c := b.dial(address(1), named("alice"))
	c.up()
	b.eventually("only the client is left", func() bool { all, half := b.sessions(); return all == 1 && half == 0 })
}

// TestAcksAlone: who has a session and sends acknowledgements for ever has it no
// longer than others.
func TestAcksAlone(t *testing.T) {
	b := newBed(t, "hand-window 2")
	b.halfOpen(netip.MustParseAddr("203.0.113.1"), 1)
	b.eventually("there is a session", func() bool { all, _ := b.sessions(); return all == 1 })
	b.svc.mu.RLock()
	var i *instance
	for _, i = range b.svc.all {
	}
	b.svc.mu.RUnlock()
	i.mu.Lock()
	ack := wire.Body{NAcks: 8, Remote: i.sess.Local()}
	i.mu.Unlock()
	d := ack.Append(wire.AckV1, wire.Header{Opcode: wire.AckV1, Session: i.sid}.Append(nil))
	b.eventually("the session has ended", func() bool {
		b.svc.Datagram(i.remote(), local, d)
		select {
		case <-i.gone:
			return true
		default:
			return false
		}
	})
}

// TestReplays of everything a client has sent, from its own address and from
// another, with and without wrapping.
func TestReplays(t *testing.T) {
	dir := t.TempDir()
	key := [256]byte{1: 1, 100: 2, 200: 3}
	file := filepath.Join(dir, "key")
	if err := os.WriteFile(file, statickey.Format(key), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]struct {
		option string
		wrap   func() (*wrap.Wrap, *[256]byte)
	}{
		"plain":     {"", nil},
		"tls-crypt": {"tls-crypt " + file, func() (*wrap.Wrap, *[256]byte) { return wrap.TLSCrypt(&key, wrap.Client), &key }},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, x.option)
			p := named("alice")
			p.wrap = x.wrap
			c := b.dial(address(1), p)
			c.up()
			c.session(func(s *session.Session) { s.Renegotiate(time.Now()) })
			b.eventually("renegotiated", func() bool { return b.peer("10.8.0.2").PrimaryKey().ID == 1 })
			for range 3 {
				c.mu.Lock()
				sent := slices.Clone(c.sent)
				c.mu.Unlock()
				for _, d := range sent {
					b.svc.Datagram(c.at, local, slices.Clone(d))
					b.offer(address(2), d)
				}
			}
			b.quiet()
			c.session(func(s *session.Session) { s.Renegotiate(time.Now()) })
			b.eventually("the client was not disturbed", func() bool { return b.peer("10.8.0.2").PrimaryKey().ID == 2 })
			if all, _ := b.sessions(); all != 1 {
				t.Errorf("%d sessions", all)
			}
		})
	}
}

// TestRenegotiatingWithoutEnd is slowed down, and goes on.
func TestRenegotiatingWithoutEnd(t *testing.T) {
	b := newBed(t)
	c := b.dial(address(1), named("alice"))
	c.up()
	for n := range resetBurst + 3 {
		c.session(func(s *session.Session) { s.Renegotiate(time.Now()) })
		b.eventually("the next key is there", func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return len(c.keys) == n+2
		})
	}
	b.logged("renegotiates too often")
	if c.failed != nil || b.peer("10.8.0.2") == nil {
		t.Errorf("the client is out: %v", c.failed)
	}
}

func TestBudget(t *testing.T) {
	var b budget
	now := time.Unix(1000, 0)
	count := func() (n int) {
		for b.allow(now) {
			n++
		}
		return n
	}
	if n := count(); n != resetBurst {
		t.Errorf("%d at once, want %d", n, resetBurst)
	}
	now = now.Add(resetEvery)
	if n := count(); n != 1 {
		t.Errorf("%d after a while, want 1", n)
	}
	now = now.Add(time.Hour)
	if n := count(); n != resetBurst {
		t.Errorf("%d after an hour, want %d", n, resetBurst)
	}
}

// TestTalkativeClient sends control messages without end, known and unknown ones.
func TestTalkativeClient(t *testing.T) {
	b := newBed(t)
	c := b.dial(address(1), named("alice"))
	c.up()
	for n := range 300 {
		c.session(func(s *session.Session) {
			_ = s.Send([]string{keyex.PushRequest, "CR_RESPONSE,!", "NO\nSUCH\x1bTHING", strings.Repeat("x", 900)}[n%4], time.Now())
		})
	}
	b.dial(address(2), named("bob")).up()
	c.session(func(s *session.Session) { s.Renegotiate(time.Now()) })
	b.eventually("renegotiated", func() bool { return b.peer("10.8.0.2").PrimaryKey().ID == 1 })
	c.mu.Lock()
	defer c.mu.Unlock()
	replies := 0
	for _, o := range c.pushed {
		if strings.HasPrefix(o, "peer-id ") {
			replies++
		}
	}
	if replies != 1 {
		t.Errorf("%d replies to repeated PUSH_REQUESTs", replies)
	}
	for line := range strings.Lines(b.log.String()) {
		if !strings.HasPrefix(line, "time=") || strings.Contains(line, "\x1b") {
			t.Errorf("line %q", line)
		}
	}
}

// TestEverythingAtOnce is for the race detector: clients come, go and renegotiate
// while the data path, the operator and a reload have something to say.
func TestEverythingAtOnce(t *testing.T) {
	dir := t.TempDir()
	options := []string{"client-config-dir " + dir, "script-security 2", "client-disconnect " + command(t, dir, "bye", "exit 0\n")}
	if err := os.WriteFile(filepath.Join(dir, "DEFAULT"), []byte("iroute 10.77.0.0 255.255.0.0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := newBed(t, options...)
	conf := configuration(t, options...)
	stop := make(chan struct{})
	var clients, others sync.WaitGroup
	others.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
			r := b.svc.Report()
			for _, c := range r.Clients {
				p := b.peers.Lookup(c.PeerID)
				if p == nil {
					continue
				}
				_, _, _ = b.svc.Client(p)
				switch n % 8 {
				case 0:
					b.svc.PeerEvent(peer.Event{Type: peer.KeyWanted, Peer: p})
				case 1:
					b.svc.PeerEvent(peer.Event{Type: peer.Floated, Peer: p, Remote: address(int(p.ID)%200 + 1000), Previous: c.Real})
				case 2:
					b.svc.PeerEvent(peer.Event{Type: peer.Exited, Peer: p})
				case 3:
					_ = b.peers.Remove(p.ID, peer.ReasonExpired)
				case 4:
					b.svc.KillClient(c.ClientID, Restart)
				}
			}
			if n%50 == 0 {
				if err := b.svc.Reload(conf); err != nil {
					t.Error(err)
				}
			}
		}
	})
	for n := range 5 {
		p := named(fmt.Sprint("client", n%3))
		clients.Go(func() {
			for k := range 20 {
				c := b.dial(address(10*n+k%2+1), p)
				select {
				case <-c.done:
				case <-time.After(time.Duration(k+10) * time.Millisecond):
				}
			}
		})
	}
	clients.Wait()
	close(stop)
	others.Wait()
	// And it still works.
	b.dial(address(500), named("last")).up()
}
