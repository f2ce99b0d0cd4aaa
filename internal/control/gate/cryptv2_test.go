// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"crypto/rand"
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wire"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wrap"
)

// oldClient is a tls-crypt-v2 client that cannot send its key again: its packet
// ids begin at 1. The reset is one that an attacker may have recorded.
func oldClient(t testing.TB, server *wrap.ServerKey) (*wrap.Wrap, []byte) {
	t.Helper()
	kc, wkc, err := wrap.GenerateClientKey(rand.Reader, server, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := wrap.TLSCrypt(&kc, wrap.Client)
	l := lab{wrap: w, wkc: wkc}
	return w, l.seal(wire.ControlHardResetClientV3, wire.Body{})
}

// from is the nth of many clients' addresses, each in a /32 of its own.
func from(n int) netip.AddrPort {
	var a [4]byte
	binary.BigEndian.PutUint32(a[:], uint32(0x0a000000+n))
	return netip.AddrPortFrom(netip.AddrFrom4(a), 1194)
}

func TestWithoutCookie(t *testing.T) {
	server := serverKey(t)
	client, reset := oldClient(t, server)
	g := newGate(t, Config{V2: server})
	d := g.Datagram(home, reset, moment)
	a := d.Accepted
	if d.Verdict != Accept || !a.SendReset || a.First != nil || a.NextRecv != 1 || a.NextSend != 0 || a.Client != clientID ||
		a.Server.IsZero() || a.Key == nil || a.Static == nil || d.Evicted != (Client{}) {
		t.Fatalf("%+v %+v", d, a)
	}
	packet, _, err := wrap.SplitWKC(reset)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.Wrap.Open(nil, packet, moment); err != wrap.ErrReplay {
		t.Errorf("the reset again: %v, want ErrReplay", err)
	}
	_, _, stamp, err := client.OpenStateless(nil, a.Wrap.Seal(nil, wire.Header{Opcode: wire.ControlHardResetServerV2, Session: a.Server}, nil, moment))
	if err != nil || stamp.ID != 1 {
		t.Errorf("the session's first packet id is %d, want 1; %v", stamp.ID, err)
	}
	if d := newGate(t, Config{V2: server, ForceCookie: true}).Datagram(home, reset, moment); d.Verdict != Drop || d.Reason != ReasonCookie {
		t.Errorf("force-cookie: %+v", d)
	}
}

// TestReplayedReset: one recorded reset makes few sessions in a prefix, from
// whatever ports, and its prefix is the only one to suffer.
func TestReplayedReset(t *testing.T) {
	server := serverKey(t)
	_, reset := oldClient(t, server)
	g := newGate(t, Config{V2: server})
	port := func(n int) netip.AddrPort { return netip.AddrPortFrom(home.Addr(), uint16(1000+n)) }
	for n := range 2 * halfOpenPerPrefix {
		d := g.Datagram(port(n), reset, moment)
		if want := n < halfOpenPerPrefix; (d.Verdict == Accept) != want || !want && d.Reason != ReasonNonCookie {
			t.Fatalf("port %d: %+v", n, d)
		}
	}
	if d := g.Datagram(from(1), reset, moment); d.Verdict != Accept {
		t.Errorf("another prefix: %+v", d)
	}
	if d := g.Datagram(port(5), reset, moment); d.Verdict != Accept {
		t.Errorf("a client whose session has ended unsaid: %+v", d) // counted once
	}
	if d := g.Datagram(port(halfOpenPerPrefix), reset, moment); d.Verdict != Drop {
		t.Errorf("one more: %+v", d)
	}
	g.Done(port(3), clientID)
	g.Done(port(3), clientID) // once only
	g.Done(port(999), clientID)
	for n, want := range []Verdict{Accept, Drop} {
		if d := g.Datagram(port(500+n), reset, moment); d.Verdict != want {
			t.Errorf("after one has answered, %d: %+v", n, d)
		}
	}
	g.Tidy(moment.Add(time.Minute))
	if d := g.Datagram(port(600), reset, moment); d.Verdict != Drop {
		t.Errorf("within hand-window: %+v", d)
	}
	g.Tidy(moment.Add(time.Minute + time.Second))
	if d := g.Datagram(port(600), reset, moment); d.Verdict != Accept || len(g.open.clients) != 1 || len(g.open.prefixes) != 1 || g.open.byAge.Len() != 1 {
		t.Errorf("after hand-window: %+v, %d left", d, len(g.open.clients))
	}
}

// TestReplayedFromEverywhere: the table stays bounded, and the oldest makes room.
func TestReplayedFromEverywhere(t *testing.T) {
	server := serverKey(t)
	_, reset := oldClient(t, server)
	g := newGate(t, Config{V2: server, Rate: hour})
	for n := range halfOpenMax + 100 {
		d := g.Datagram(from(n), reset, moment)
		var want Client
		if n >= halfOpenMax {
			want = Client{from(n - halfOpenMax), clientID}
		}
		if d.Verdict != Accept || d.Evicted != want {
			t.Fatalf("client %d: %+v, want %+v evicted", n, d, want)
		}
	}
	if len(g.open.clients) != halfOpenMax || len(g.open.prefixes) != halfOpenMax || g.open.byAge.Len() != halfOpenMax {
		t.Errorf("%d clients, %d prefixes, %d by age; want %d", len(g.open.clients), len(g.open.prefixes), g.open.byAge.Len(), halfOpenMax)
	}
}

// TestNewerClientKeepsNothing: resets of clients with cookie support, forged from
// anywhere, are not kept.
func TestNewerClientKeepsNothing(t *testing.T) {
	l := labs(t)["tls-crypt-v2 beside tls-crypt"]
	reset := l.seal(l.reset, wire.Body{})
	for n := range 1000 {
		if d := l.gate.Datagram(from(n), reset, moment); d.Verdict != Reply {
			t.Fatalf("%+v", d)
		}
	}
	if len(l.gate.open.clients) != 0 {
		t.Errorf("%d are kept", len(l.gate.open.clients))
	}
}
