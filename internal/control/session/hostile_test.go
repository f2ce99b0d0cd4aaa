// SPDX-License-Identifier: Apache-2.0

package session

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wire"
)

// forge makes a plain packet of the client.
func forge(opcode, keyID uint8, body wire.Body) []byte {
	return body.Append(opcode, wire.Header{Opcode: opcode, KeyID: keyID, Session: clientID}.Append(nil))
}

// keeps is about how much of a peer's data a session keeps.
func (s *Session) keeps() (n int) {
	for _, ks := range []*keyState{s.established, s.negotiating} {
		if ks != nil {
			n += cap(ks.pipe.in) + cap(ks.pipe.out) + cap(ks.text)
		}
	}
	for _, e := range s.events {
		n += len(e.Text)
	}
	return n
}

func TestDropsAreCounted(t *testing.T) {
	other := wire.SessionID([]byte("ANOTHER1"))
	stranger := wire.Header{Opcode: wire.ControlV1, Session: other}.Append(nil)
	empty := wire.Body{}
	for _, c := range []struct {
		name   string
		packet []byte
		count  func(Counters) uint64
	}{
		{"nothing", nil, func(c Counters) uint64 { return c.DropMalformed }},
		{"header alone", forge(4, 0, empty)[:9], func(c Counters) uint64 { return c.DropMalformed }},
		{"data", append([]byte{9 << 3}, make([]byte, 40)...), func(c Counters) uint64 { return c.DropMalformed }},
		{"oversized", forge(4, 0, wire.Body{ID: 2, Payload: make([]byte, maxDatagram)}), func(c Counters) uint64 { return c.DropMalformed }},
		{"session of another", empty.Append(4, stranger), func(c Counters) uint64 { return c.DropSession }},
		{"acks for another", forge(4, 0, wire.Body{ID: 2, NAcks: 1, Remote: other}), func(c Counters) uint64 { return c.DropSession }},
		{"server's reset", forge(8, 0, empty), func(c Counters) uint64 { return c.DropOpcode }},
		{"hard reset of key 1", forge(7, 1, empty), func(c Counters) uint64 { return c.DropOpcode }},
		{"soft reset of key 0", forge(3, 0, empty), func(c Counters) uint64 { return c.DropOpcode }},
		{"hard reset with id 1", forge(7, 0, wire.Body{ID: 1}), func(c Counters) uint64 { return c.DropOpcode }},
		{"control with id 0", forge(4, 0, empty), func(c Counters) uint64 { return c.DropOpcode }},
		{"unknown key", forge(4, 1, wire.Body{ID: 1}), func(c Counters) uint64 { return c.DropKeyID }},
		{"far ahead", forge(4, 0, wire.Body{ID: 1 << 31}), func(c Counters) uint64 { return c.DropWindow }},
		{"again", forge(7, 0, empty), func(c Counters) uint64 { return c.Duplicates }},
	} {
		p := connected(t, options{})
		before := p.server.Counters()
		p.server.Datagram(c.packet, p.now)
		after := p.server.Counters()
		if after.In != before.In+1 || c.count(after) != c.count(before)+1 {
			t.Errorf("%s: %+v", c.name, after)
		}
		if out := p.server.Outgoing(); (len(out) == 1) != (c.name == "again") {
			t.Errorf("%s: answered %x", c.name, out)
		}
	}
}

func TestWrappingIsChecked(t *testing.T) {
	p := connected(t, options{crypt: true})
	p.client.Send("x", p.now)
	out := p.client.Outgoing()
	if len(out) != 1 {
		t.Fatalf("%d packets", len(out))
	}
	forged := slices.Clone(out[0])
	forged[len(forged)-1] ^= 1
	forgedTag := slices.Clone(out[0])
	forgedTag[17] ^= 1
	for _, b := range [][]byte{forged, forgedTag, out[0], out[0]} {
		p.server.Datagram(slices.Clone(b), p.now)
	}
	if c := p.server.Counters(); c.DropAuth != 2 || c.DropReplay != 1 {
		t.Errorf("counted %+v", c)
	}
	p.exchange()
	if got := p.server.texts(); !slices.Equal(got, []string{"x"}) {
		t.Errorf("got %q", got)
	}
}

func TestTLSGarbage(t *testing.T) {
	huge := append([]byte{22, 3, 1, 0xff, 0xff}, make([]byte, 1000)...)
	for name, garbage := range map[string][]byte{
		"text":             []byte(strings.Repeat("GET / HTTP/1.1\r\n", 10)),
		"oversized record": huge,
		"wrong version":    {22, 0x19, 9, 0, 1, 0},
	} {
		p := newPair(t, options{})
		p.server.Datagram(forge(7, 0, wire.Body{}), p.now)
		p.server.Datagram(forge(4, 0, wire.Body{ID: 1, Payload: garbage}), p.now)
		p.server.act(p.now)
		ev := p.server.event(t, 0, Failed)
		if ev.Err == nil {
			t.Errorf("%s: no error", name)
		}
		if !p.server.Next().IsZero() || p.server.negotiating != nil {
			t.Errorf("%s: session is not dead", name)
		}
	}
}

// TestEndlessHandshake sends a ClientHello that never ends, in records that are all right.
func TestEndlessHandshake(t *testing.T) {
	p := newPair(t, options{})
	p.server.Datagram(forge(7, 0, wire.Body{}), p.now)
	hello := append([]byte{22, 3, 1, 4, 0, 1, 0, 0xff, 0xff}, make([]byte, 1020)...)
	more := append([]byte{22, 3, 1, 4, 0}, make([]byte, 1024)...)
	for id := uint32(1); len(p.server.events) == 0; id++ {
		if id > 2*maxHandshake/1024 {
			t.Fatal("no limit")
		}
		p.server.Datagram(forge(4, 0, wire.Body{ID: id, Payload: hello}), p.now)
		p.server.act(p.now)
		hello = more
	}
	p.failed(p.server, 0, nil)
}

func TestEndlessAcks(t *testing.T) {
	p := newPair(t, options{})
	p.server.Datagram(forge(7, 0, wire.Body{}), p.now)
	p.server.Outgoing()
	ack := forge(wire.AckV1, 0, wire.Body{NAcks: 8, Remote: serverID, Acks: [8]uint32{0, 1, 2, 3, 4, 5, 6, 7}})
	for range 100_000 {
		p.server.Datagram(ack, p.now)
		if out := p.server.Outgoing(); out != nil {
			t.Fatalf("answered %x", out)
		}
	}
	if p.server.keeps() != 0 || p.server.negotiating.conn != nil {
		t.Error("acknowledgements alone cost memory")
	}
	p.pass(DefaultHandWindow)
	p.failed(p.server, 0, ErrTimeout)
}

// TestEveryIDAhead fills the receive window without its first message.
func TestEveryIDAhead(t *testing.T) {
	p := newPair(t, options{})
	for id := uint32(1); id < 1000; id++ {
		p.server.Datagram(forge(4, 0, wire.Body{ID: id, Payload: make([]byte, 4000)}), p.now)
	}
	if c := p.server.Counters(); c.DropWindow != 999-11 {
		t.Errorf("counted %+v", c)
	}
	if n := len(p.server.Outgoing()); n > 4 {
		t.Errorf("%d packets in answer", n)
	}
}

// raw has a client write what it likes behind its handshake.
func raw(p *pair, b []byte) {
	p.t.Helper()
	if _, err := p.client.established.conn.Write(b); err != nil {
		p.t.Fatal(err)
	}
}

func TestEndlessControlMessage(t *testing.T) {
	p := connected(t, options{})
	for n := 0; p.server.established != nil; n += 1000 {
		if n > 2*MaxText {
			t.Fatal("no limit")
		}
		raw(p, bytes.Repeat([]byte("a"), 1000))
		p.exchange()
		if got := p.server.keeps(); got > 3*MaxText {
			t.Fatalf("keeps %d bytes", got)
		}
	}
	p.failed(p.server, 0, ErrTooLong)
}

func TestFloodOfControlMessages(t *testing.T) {
	p := connected(t, options{})
	// Empty messages are none.
	raw(p, make([]byte, 10_000))
	p.exchange()
	if got := p.server.texts(); got != nil {
		t.Errorf("got %q", got)
	}
	// The owner fetches events after each datagram, so that this passes.
	for range 100 {
		raw(p, []byte("EXIT\x00"))
		p.exchange()
	}
	if got := len(p.server.texts()); got != 100 {
		t.Errorf("got %d messages", got)
	}
	raw(p, bytes.Repeat([]byte("a\x00"), 1000))
	p.exchange()
	p.failed(p.server, 0, ErrTooLong)
}

// rawClient is a client that says what a test likes once TLS is up.
type rawClient struct {
	p    *pair
	ks   keyState
	next uint32
}

func newRawClient(p *pair) *rawClient {
	_, cfg := options{}.configs()
	c := &rawClient{p: p, next: 1}
	p.server.Datagram(forge(7, 0, wire.Body{}), p.now)
	c.ks.begin(Client, cfg.TLS)
	c.run()
	if c.ks.stage != exchanging {
		p.t.Fatal("no TLS")
	}
	return c
}

// run carries bytes to and fro until nobody has any.
func (c *rawClient) run() {
	c.p.t.Helper()
	for idle := false; !idle; {
		if c.ks.stage == handshaking {
			if err := c.ks.handshake(false); err != nil {
				c.p.t.Fatal(err)
			}
		}
		idle = len(c.ks.pipe.out) == 0
		body := wire.Body{Remote: serverID}
		if out := c.ks.pipe.take(1000); len(out) > 0 {
			body.ID, body.Payload = c.next, out
			c.p.server.Datagram(forge(4, 0, body), c.p.now)
			c.next++
		}
		for _, b := range c.p.server.act(c.p.now) {
			idle = false
			h, _ := wire.ParseHeader(b)
			reply, err := wire.ParseBody(h.Opcode, b[wire.HeaderLen:])
			if err != nil {
				c.p.t.Fatal(err)
			}
			if h.Opcode != wire.AckV1 {
				ack := wire.Body{NAcks: 1, Remote: serverID, Acks: [8]uint32{reply.ID}}
				c.p.server.Datagram(forge(wire.AckV1, 0, ack), c.p.now)
				c.ks.pipe.in = append(c.ks.pipe.in, reply.Payload...)
			}
		}
	}
}

func TestBadKeyMethodMessage(t *testing.T) {
	lies := append([]byte{0, 0, 0, 0, 2}, make([]byte, 48+64)...)
	lies = append(lies, bytes.Repeat([]byte{0xff}, 40_000)...)
	for name, message := range map[string][]byte{
		"wrong method": append([]byte{0, 0, 0, 0, 1}, make([]byte, 300)...),
		"lengths lie":  lies,
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, options{})
			c := newRawClient(p)
			if _, err := c.ks.conn.Write(message); err != nil {
				t.Fatal(err)
			}
			c.run()
			p.failed(p.server, 0, nil)
			if slices.Contains(p.server.types(0), KeyExchanged) {
				t.Error("took it for a message")
			}
		})
	}
}

// TestPlaintextInPieces has key method message and control message come in
// records that end anywhere.
func TestPlaintextInPieces(t *testing.T) {
	p := newPair(t, options{})
	c := newRawClient(p)
	_, cfg := options{}.configs()
	m := cfg.Hello(0, nil, true)
	for _, b := range append(m.Append(nil, true), "PUSH_REQUEST\x00EXIT\x00"...) {
		if _, err := c.ks.conn.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
		c.run()
	}
	if got := p.server.event(t, 0, KeyExchanged).Message; got.PeerInfo != m.PeerInfo {
		t.Errorf("got %+v", got)
	}
	if got := p.server.texts(); !slices.Equal(got, []string{"PUSH_REQUEST", "EXIT"}) {
		t.Errorf("got %q", got)
	}
}

func TestAlertReachesPeer(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		p := newPair(t, options{version: version, edit: func(c *Config) {
			if c.Role == Server {
				c.TLS.ClientCAs = x509.NewCertPool()
			}
		}})
		p.exchange()
		var unknown x509.UnknownAuthorityError
		if err := p.server.event(t, 0, Failed).Err; !errors.As(err, &unknown) {
			t.Errorf("server failed with %v", err)
		}
		if err := p.client.event(t, 0, Failed).Err; !strings.Contains(err.Error(), "unknown certificate authority") {
			t.Errorf("client failed with %v", err)
		}
	}
}

func TestCloseNotify(t *testing.T) {
	p := connected(t, options{})
	if err := p.client.established.conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	p.exchange()
	p.failed(p.server, 0, ErrClosed)
}

func TestKeepsNothingAfterHandshake(t *testing.T) {
	p := connected(t, options{crypt: true})
	for _, e := range []*end{p.server, p.client} {
		ks := e.established
		if e.keeps() != 0 || ks.resume != nil || ks.stop != nil || ks.pipe.wait != nil || ks.parser != nil || ks.hello != nil {
			t.Errorf("%d bytes kept", e.keeps())
		}
	}
	p.pass(time.Hour)
}
