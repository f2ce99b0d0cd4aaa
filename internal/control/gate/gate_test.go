// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"bytes"
	"crypto/rand"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wire"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wrap"
)

func TestHandshake(t *testing.T) {
	for name, l := range labs(t) {
		t.Run(name, func(t *testing.T) {
			l.t = t
			answer := l.ask(moment)
			flags, err := wire.ParseEarlyNegotiation(answer.Payload)
			if err != nil || (flags == wire.ResendWKC) != (l.wkc != nil) {
				t.Errorf("payload of the answer %x, %v", answer.Payload, err)
			}
			b := l.seal(l.first(), l.hello())
			sent := bytes.Clone(b)
			d := l.gate.Datagram(home, b, moment.Add(time.Second))
			a := d.Accepted
			if d.Verdict != Accept || a == nil {
				t.Fatalf("cookie: %+v", d)
			}
			if a.Client != clientID || a.Server != l.server || a.NextRecv != 1 || a.NextSend != 1 || a.SendReset || !bytes.Equal(a.First, sent) {
				t.Errorf("accepted %+v", a)
			}
			switch {
			case l.wkc != nil && (a.Key == nil || string(a.Key.Metadata) != "name" || a.Static == nil || *a.Static != a.Key.Key),
				l.wkc == nil && (a.Key != nil || a.Static != l.cfg.StaticKey):
				t.Errorf("keys of the session: %v, %v", a.Static, a.Key)
			}
			packet := a.First
			if l.wkc != nil {
				packet, _, _ = wrap.SplitWKC(packet)
			}
			h, raw, err := a.Wrap.Open(nil, packet, moment)
			if err != nil {
				t.Fatalf("open the first packet: %v", err)
			}
			if body, err := wire.ParseBody(h.Opcode, raw); err != nil || string(body.Payload) != "hello" {
				t.Errorf("first packet %+v, %v", body, err)
			}
			l.speaks(a, moment)
		})
	}
}

// TestAckOpensSession: a bare ack is enough for a client that uses one key for all.
func TestAckOpensSession(t *testing.T) {
	for name, l := range labs(t) {
		l.ask(moment)
		d := l.gate.Datagram(home, l.seal(wire.AckV1, wire.Body{NAcks: 1, Remote: l.server}), moment)
		switch {
		case l.wkc == nil && (d.Verdict != Accept || d.Accepted.First == nil):
			t.Errorf("%s: %+v", name, d)
		case l.wkc != nil && (d.Verdict != Drop || d.Reason != ReasonNoSession):
			// It cannot be opened without the key; the client's next packet has it.
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// TestCookieLifetime: it is good for hand-window and not much longer, and for its
// own sender.
func TestCookieLifetime(t *testing.T) {
	for name, l := range labs(t) {
		l.ask(moment)
		hello := l.seal(l.first(), l.hello())
		for _, v := range []struct {
			from  netip.AddrPort
			after time.Duration
			want  Verdict
		}{
			{home, 0, Accept},
			{home, time.Minute, Accept},
			{home, 92 * time.Second, Drop}, // three slots of 30.5 s
			{home, -31 * time.Second, Drop},
			{netip.AddrPortFrom(home.Addr(), home.Port()+1), 0, Drop},
			{netip.AddrPortFrom(netip.MustParseAddr("192.0.2.8"), home.Port()), 0, Drop},
		} {
			if d := l.gate.Datagram(v.from, hello, moment.Add(v.after)); d.Verdict != v.want || d.Verdict == Drop && d.Reason != ReasonNoSession {
				t.Errorf("%s: from %v after %v: %+v", name, v.from, v.after, d)
			}
		}
		if d := newGate(t, l.cfg).Datagram(home, hello, moment); d.Verdict != Drop {
			t.Errorf("%s: another gate takes the cookie: %+v", name, d)
		}
	}
}

// TestCookiePackets: which packets can bring a cookie back.
func TestCookiePackets(t *testing.T) {
	for name, l := range labs(t) {
		l.ask(moment)
		for what, v := range map[string]struct {
			change func(*wire.Body)
			want   Verdict
		}{
			"as it should be":       {func(*wire.Body) {}, Accept},
			"two acks":              {func(b *wire.Body) { b.NAcks, b.Acks[1] = 2, 1 }, Accept},
			"ack of a later packet": {func(b *wire.Body) { b.Acks[0] = 2 }, Drop},
			"later message":         {func(b *wire.Body) { b.ID = 2 }, Drop},
			"another session":       {func(b *wire.Body) { b.Remote[0]++ }, Drop},
		} {
			body := l.hello()
			v.change(&body)
			if d := l.gate.Datagram(home, l.seal(l.first(), body), moment); d.Verdict != v.want {
				t.Errorf("%s, %s: %+v", name, what, d)
			}
		}
	}
}

// TestLostAck: OpenVPN 2.5 acknowledges our reset in a packet of its own, once.
// When that is lost, its next packet gets the reset again, with the session id
// that it knows.
func TestLostAck(t *testing.T) {
	for _, v := range []struct {
		asked, again time.Duration
		also         bool // two answers
	}{
		{0, 0, true}, // within the same second
		{0, 2 * time.Second, true},
		{14 * time.Second, 20 * time.Second, false},
		{30 * time.Second, 31 * time.Second, true}, // a slot ends between
		{30 * time.Second, 44 * time.Second, true},
	} {
		for name, l := range labs(t) {
			if l.wkc != nil {
				continue // such clients are given a session at once, or repeat their acks
			}
			l.ask(moment.Add(v.asked))
			before, now := l.server, moment.Add(v.again)
			hello := wire.Body{ID: 1, Payload: []byte("hello")}
			d := l.gate.Datagram(home, l.seal(wire.ControlV1, hello), now)
			if d.Verdict != Reply || (len(d.Also) > 0) != v.also {
				t.Fatalf("%s after %v: %+v", name, v.again, d)
			}
			l.answered(d.Reply, now)
			known := l.server == before
			if v.also {
				l.answered(d.Also, now)
				known = known || l.server == before
			}
			if !known {
				t.Errorf("%s after %v: the session id of the first answer is not among them", name, v.again)
			}
			l.server = before
			ack := l.seal(wire.AckV1, wire.Body{NAcks: 1, Remote: l.server})
			if d := l.gate.Datagram(home, ack, now); d.Verdict != Accept || d.Accepted.Server != before {
				t.Errorf("%s after %v: acknowledged again: %+v", name, v.again, d)
			} else {
				l.speaks(d.Accepted, now)
			}
			hello.ID = 2
			if d := l.gate.Datagram(home, l.seal(wire.ControlV1, hello), now); d.Verdict != Drop {
				t.Errorf("%s after %v: message 2 without acks: %+v", name, v.again, d)
			}
		}
	}
}

// TestSameAnswer: a reset that comes again gets the same session id.
func TestSameAnswer(t *testing.T) {
	for name, l := range labs(t) {
		l.ask(moment)
		before := l.server
		if l.ask(moment.Add(2 * time.Second)); l.server != before {
			t.Errorf("%s: another session id", name)
		}
	}
}

// TestDropped: what gets no answer, and what is said about it.
func TestDropped(t *testing.T) {
	all := labs(t)
	for name, v := range map[string]struct {
		lab    string
		b      []byte
		reason string
	}{
		"empty":            {"plain", nil, ReasonMalformed},
		"one byte":         {"plain", []byte{0x38}, ReasonMalformed},
		"data":             {"plain", bytes.Repeat([]byte{0x48}, 100), ReasonMalformed},
		"key method 1":     {"plain", append([]byte{0x08}, "CLIENTID\x00\x00\x00\x00\x00"...), ReasonMalformed},
		"session id zero":  {"plain", append([]byte{0x38}, make([]byte, 13)...), ReasonMalformed},
		"too long":         {"plain", append([]byte("\x38CLIENTID"), make([]byte, maxDatagram)...), ReasonMalformed},
		"short reset":      {"plain", []byte("\x38CLIENTID\x00\x00\x00\x00"), ReasonPlain},
		"reset with more":  {"plain", []byte("\x38CLIENTID\x00\x00\x00\x00\x00x"), ReasonPlain},
		"reset 1":          {"plain", []byte("\x38CLIENTID\x00\x00\x00\x00\x01"), ReasonPlain},
		"acking reset":     {"plain", []byte("\x38CLIENTID\x01\x00\x00\x00\x00SERVERID\x00\x00\x00\x00"), ReasonPlain},
		"server's reset":   {"plain", []byte("\x40SERVERID\x00\x00\x00\x00\x00"), ReasonNoSession},
		"soft reset":       {"plain", []byte("\x19CLIENTID\x00\x00\x00\x00\x00"), ReasonNoSession},
		"later key":        {"plain", []byte("\x39CLIENTID\x00\x00\x00\x00\x00"), ReasonNoSession},
		"tls-auth, plain":  {"plain", all["tls-auth"].seal(wire.ControlHardResetClientV2, wire.Body{}), ReasonPlain},
		"tls-crypt, plain": {"plain", all["tls-crypt"].seal(wire.ControlHardResetClientV2, wire.Body{}), ReasonPlain},
		"v2, plain":        {"plain", all["tls-crypt-v2"].seal(wire.ControlHardResetClientV3, wire.Body{}), ReasonNoV2},
		"plain, tls-auth":  {"tls-auth", []byte("\x38CLIENTID\x00\x00\x00\x00\x00"), ReasonShort},
		"plain, tls-crypt": {"tls-crypt", []byte("\x38CLIENTID\x00\x00\x00\x00\x00"), ReasonShort},
		"crypt, auth":      {"tls-auth", all["tls-crypt"].seal(wire.ControlHardResetClientV2, wire.Body{}), ReasonAuth},
		"plain, v2":        {"tls-crypt-v2", []byte("\x38CLIENTID\x00\x00\x00\x00\x00"), ReasonWrapping},
		"v2 of another":    {"tls-crypt-v2 beside tls-crypt", all["tls-crypt-v2"].seal(wire.ControlHardResetClientV3, wire.Body{})[:54], ReasonMalformed},
		"v2 random":        {"tls-crypt-v2", append(make([]byte, 0), append([]byte("\x50CLIENTID"), make([]byte, 345)...)...), ReasonMalformed},
		"v2 with an ack":   {"tls-crypt-v2", all["tls-crypt-v2"].seal(wire.ControlHardResetClientV3, wire.Body{NAcks: 1}), ReasonMalformed},
		"v2 bare ack":      {"tls-crypt-v2", all["tls-crypt-v2"].seal(wire.AckV1, wire.Body{NAcks: 1}), ReasonNoSession},
	} {
		d := all[v.lab].gate.Datagram(home, v.b, moment)
		if d.Verdict != Drop || d.Reason != v.reason || d.Accepted != nil || d.Reply != nil {
			t.Errorf("%s: %+v, want %q", name, d, v.reason)
		}
	}
	foreign := labs(t)["tls-crypt-v2"] // of another server
	for _, b := range [][]byte{foreign.seal(wire.ControlHardResetClientV3, wire.Body{}), foreign.seal(wire.ControlWKCV1, wire.Body{NAcks: 1, ID: 1})} {
		if d := all["tls-crypt-v2"].gate.Datagram(home, b, moment); d.Verdict != Drop || d.Reason != ReasonWKC {
			t.Errorf("key of another server: %+v", d)
		}
	}
	// A packet that the key behind it does not open.
	b := all["tls-crypt-v2"].seal(wire.ControlHardResetClientV3, wire.Body{})
	b[20]++
	if d := all["tls-crypt-v2"].gate.Datagram(home, b, moment); d.Verdict != Drop || d.Reason != ReasonMalformed {
		t.Errorf("changed packet: %+v", d)
	}
}

// TestDatagramIsOnlyRead: neither by what is decrypted nor by what comes after.
func TestDatagramIsOnlyRead(t *testing.T) {
	all := labs(t)
	auth := all["tls-auth"]
	server := serverKey(t)
	auth.cfg.V2 = server
	auth.gate = newGate(t, auth.cfg)
	auth.ask(moment)
	hello := auth.seal(wire.ControlV1, auth.hello())
	before := bytes.Clone(hello)
	first := auth.gate.Datagram(home, hello, moment).Accepted.First
	kc, wkc, err := wrap.GenerateClientKey(rand.Reader, server, nil)
	if err != nil {
		t.Fatal(err)
	}
	v2 := lab{wrap: wrap.TLSCrypt(&kc, wrap.Client), wkc: wkc}
	b := v2.seal(wire.ControlHardResetClientV3, wire.Body{})
	if d := auth.gate.Datagram(home, b, moment); d.Verdict != Accept {
		t.Fatalf("%+v", d)
	}
	if !bytes.Equal(first, before) {
		t.Errorf("first packet is %x now, was %x", first, before)
	}
}

func TestNewError(t *testing.T) {
	if _, err := New(Config{Random: bytes.NewReader(nil)}); err == nil || errors.Unwrap(err) == nil {
		t.Errorf("no random bytes: %v", err)
	}
}

// raced: under the race detector a sync.Pool forgets at random.
var raced bool

// TestAllocations: what is dropped or answered costs no memory.
func TestAllocations(t *testing.T) {
	all := labs(t)
	for name, l := range all {
		l.cfg.Rate = hour
		l.gate = newGate(t, l.cfg)
		forged := l.seal(l.reset, wire.Body{})
		forged[len(forged)-1]++
		short := forged[:len(forged)-1]
		l.ask(moment)
		stray := l.seal(wire.AckV1, wire.Body{NAcks: 1})
		for what, b := range map[string][]byte{"forged": forged, "short": short, "stray": stray} {
			var d Decision
			n := testing.AllocsPerRun(100, func() { d = l.gate.Datagram(home, b, moment) })
			if n != 0 && !(raced && l.wkc != nil) || d.Verdict != Drop {
				t.Errorf("%s, %s: allocates %v times, %+v", name, what, n, d)
			}
		}
		if l.wkc != nil {
			continue // its key is unwrapped, and answers are sealed with it
		}
		for what, b := range map[string][]byte{"reset": l.seal(l.reset, wire.Body{}), "lost ack": l.seal(wire.ControlV1, wire.Body{ID: 1})} {
			var d Decision
			if n := testing.AllocsPerRun(100, func() { d = l.gate.Datagram(home, b, moment) }); n != 0 || d.Verdict != Reply {
				t.Errorf("%s, %s: allocates %v times, %+v", name, what, n, d)
			}
		}
	}
}
