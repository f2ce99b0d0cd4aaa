// SPDX-License-Identifier: Apache-2.0

package session

import (
	"crypto/tls"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wire"
)

func TestRenegotiate(t *testing.T) {
	eachKind(t, func(t *testing.T, o options) {
		p := connected(t, o)
		want := uint8(0)
		for round := range 17 {
			want = []uint8{1, 2, 3, 4, 5, 6, 7}[round%7]
			by, other := p.server, p.client
			if round%3 == 1 {
				by, other = other, by
			}
			if !by.Renegotiate(p.now) {
				t.Fatal("no renegotiation")
			}
			if by.Renegotiate(p.now) {
				t.Error("a second renegotiation beside the first")
			}
			if round%3 == 2 && !other.Renegotiate(p.now) {
				t.Error("no simultaneous renegotiation")
			}
			p.server.events, p.client.events = nil, nil
			p.exchange()
			p.established(want)
			reset := slices.Contains(other.types(want), SoftReset)
			if reset != (round%3 != 2) || slices.Contains(by.types(want), SoftReset) {
				t.Errorf("soft reset reported to the side that began: %v, %v", by.types(want), other.types(want))
			}
			text := fmt.Sprint("round ", round)
			if err := by.Send(text, p.now); err != nil {
				t.Fatal(err)
			}
			p.exchange()
			if got := other.event(t, want, Message).Text; got != text {
				t.Errorf("message %q", got)
			}
		}
	})
}

func TestNoRenegotiationBeforeFirstKey(t *testing.T) {
	p := newPair(t, options{})
	p.server.hold = true
	p.exchange()
	if p.server.Renegotiate(p.now) || p.client.Renegotiate(p.now) {
		t.Error("renegotiated before the first key was established")
	}
	reset := wire.Header{Opcode: wire.ControlSoftResetV1, KeyID: 1, Session: clientID}.Append(nil)
	p.server.Datagram((&wire.Body{}).Append(wire.ControlSoftResetV1, reset), p.now)
	if p.server.find(1) != nil || p.server.Counters().DropKeyID != 1 {
		t.Error("took a soft reset before the first key was established")
	}
}

func TestSoftResetKeyIDs(t *testing.T) {
	for keyID := range uint8(8) {
		p := connected(t, options{})
		reset := wire.Header{Opcode: wire.ControlSoftResetV1, KeyID: keyID, Session: clientID}.Append(nil)
		p.server.Datagram((&wire.Body{}).Append(wire.ControlSoftResetV1, reset), p.now)
		if got := p.server.negotiating != nil; got != (keyID == 1) {
			t.Errorf("soft reset to key id %d after 0: %v", keyID, got)
		}
	}
}

// TestSoftResetTellsOfLostAck has the client's last acknowledgements lost: the
// server learns from the soft reset that the client has everything.
func TestSoftResetTellsOfLostAck(t *testing.T) {
	p := newPair(t, options{})
	p.drop = func(fromClient bool, b []byte) bool {
		return fromClient && b[0] == wire.AckV1<<3 && p.server.find(0).mark > 0
	}
	p.exchange()
	if p.server.ready || !p.client.ready {
		t.Fatal("the test lost the wrong packets")
	}
	p.client.Renegotiate(p.now)
	p.exchange()
	p.established(1)
	if got := p.server.types(0); !slices.Equal(got, []Type{KeyExchanged, Acknowledged}) {
		t.Errorf("events of the first key: %v", got)
	}
}

func TestMessagesWaitForRenegotiation(t *testing.T) {
	p := connected(t, options{})
	p.server.hold = true
	p.client.Renegotiate(p.now)
	p.exchange()
	p.server.event(t, 1, KeyExchanged)
	if err := p.server.Send("RESTART", p.now); err != nil {
		t.Fatal(err)
	}
	sent := false
	p.drop = func(fromClient bool, b []byte) bool {
		if !fromClient && b[0]&7 == 0 {
			t.Errorf("server sent %x with the old key id", b[0])
		}
		sent = sent || !fromClient
		return false
	}
	p.exchange()
	if sent {
		t.Error("server sent before the answer")
	}
	p.server.Answer(1, p.now)
	p.exchange()
	p.established(1)
	if ev := p.client.event(t, 1, Message); ev.Text != "RESTART" {
		t.Errorf("client got %q", ev.Text)
	}
}

func TestHeldMessagesAreBounded(t *testing.T) {
	p := connected(t, options{})
	p.server.Renegotiate(p.now)
	for n := 0; p.server.Send("0123456789", p.now) != ErrBacklog; n++ {
		if n > maxBacklog {
			t.Fatal("no limit")
		}
	}
}

func TestSoftResetWaitsForMessages(t *testing.T) {
	p := connected(t, options{})
	if err := p.server.Send("PUSH_REPLY", p.now); err != nil {
		t.Fatal(err)
	}
	if !p.server.Renegotiate(p.now) {
		t.Fatal("no renegotiation")
	}
	for _, b := range p.server.Outgoing() {
		if b[0]>>3 == wire.ControlSoftResetV1 {
			t.Error("soft reset with a message under way")
		}
		p.client.Datagram(b, p.now)
	}
	p.exchange()
	p.established(1)
	if got := p.client.texts(); !slices.Equal(got, []string{"PUSH_REPLY"}) {
		t.Errorf("client got %q", got)
	}

	// A client that acknowledges nothing doesn't hold it up for ever.
	if err := p.server.Send("PUSH_REPLY", p.now); err != nil {
		t.Fatal(err)
	}
	p.drop = func(fromClient bool, b []byte) bool { return fromClient }
	p.server.Renegotiate(p.now)
	p.pass(2*DefaultTimeout - 1)
	if p.server.negotiating != nil {
		t.Error("soft reset early")
	}
	p.pass(1)
	if p.server.negotiating == nil {
		t.Error("no soft reset")
	}
}

func TestFailedRenegotiationLeavesOldKey(t *testing.T) {
	eachKind(t, func(t *testing.T, o options) {
		if o.stream {
			return // nothing gets lost
		}
		p := connected(t, o)
		p.drop = func(_ bool, b []byte) bool { return b[0]&7 == 1 }
		p.server.Renegotiate(p.now)
		p.pass(DefaultHandWindow)
		p.failed(p.server, 1, ErrTimeout)
		if p.server.established == nil || p.server.established.id != 0 {
			t.Fatal("old key state is gone")
		}
		if err := p.server.Send("still there", p.now); err != nil {
			t.Fatal(err)
		}
		p.exchange()
		if got := p.client.texts(); !slices.Equal(got, []string{"still there"}) {
			t.Errorf("client got %q", got)
		}
		// The client has not heard of key id 1: its next one is 1, and so must ours be.
		p.drop = nil
		p.server.events = nil
		p.server.Renegotiate(p.now)
		p.exchange()
		p.established(1)
	})
}

// TestKeyIDsAfterFailure has both sides go on after a renegotiation that failed half-way.
func TestKeyIDsAfterFailure(t *testing.T) {
	for _, fromClient := range []bool{false, true} {
		p := connected(t, options{})
		p.drop = func(from bool, b []byte) bool { return b[0]>>3 == wire.ControlV1 }
		p.client.Renegotiate(p.now)
		p.pass(2 * DefaultHandWindow)
		p.failed(p.server, 1, ErrTimeout)
		p.failed(p.client, 1, ErrTimeout)
		p.drop = nil
		p.server.events, p.client.events = nil, nil
		by := p.server
		if fromClient {
			by = p.client
		}
		by.Renegotiate(p.now)
		p.exchange()
		p.established(2)
	}
}

func TestDynamicWrap(t *testing.T) {
	eachKind(t, func(t *testing.T, o options) {
		p := newPair(t, o)
		if p.server.UseDynamicWrap() == nil {
			t.Error("dynamic wrapping before there is a key")
		}
		p.exchange()
		for _, e := range []*end{p.server, p.client} {
			for range 2 {
				if err := e.UseDynamicWrap(); err != nil {
					t.Fatal(err)
				}
			}
		}
		var first [][]byte
		p.drop = func(_ bool, b []byte) bool {
			if b[0]>>3 == wire.ControlSoftResetV1 {
				first = append(first, slices.Clone(b))
			}
			return false
		}
		for keyID := uint8(1); keyID < 4; keyID++ {
			p.server.Renegotiate(p.now)
			p.exchange()
			p.established(keyID)
		}
		if p.server.wrapping(1) == p.server.wrapping(0) || len(first) != 6 {
			t.Fatalf("%d soft resets", len(first))
		}
		if _, _, err := p.server.cfg.Wrap.Open(nil, first[1], p.now); err == nil && o.crypt {
			t.Error("soft reset has the old wrapping")
		}
		// A soft reset that is not wrapped so is no soft reset.
		reset := wire.Header{Opcode: wire.ControlSoftResetV1, KeyID: 4, Session: clientID}.Append(nil)
		p.server.Datagram((&wire.Body{}).Append(wire.ControlSoftResetV1, reset), p.now)
		if p.server.negotiating != nil {
			t.Error("took a soft reset without wrapping")
		}
	})
}

func TestConfigurationOfEachHandshake(t *testing.T) {
	var asked []uint8
	p := connected(t, options{edit: func(c *Config) {
		if c.Role != Server {
			return
		}
		cfg := c.TLS
		c.TLS = nil
		c.NewTLS = func(keyID uint8) (*tls.Config, error) {
			asked = append(asked, keyID)
			if keyID == 2 {
				return nil, fmt.Errorf("read crl: gone")
			}
			return cfg, nil
		}
	}})
	for range 2 {
		p.client.Renegotiate(p.now)
		p.exchange()
	}
	if !slices.Equal(asked, []uint8{0, 1, 2}) {
		t.Errorf("asked for %v", asked)
	}
	p.server.event(t, 2, Failed)
}

func TestForget(t *testing.T) {
	p := connected(t, options{})
	p.server.Forget(0)
	p.client.Send("x", p.now)
	p.exchange()
	if p.server.Counters().DropKeyID == 0 || p.server.Send("x", p.now) != ErrNotEstablished {
		t.Error("key state is not forgotten")
	}
	if _, err := p.server.Derive(0, false); err == nil {
		t.Error("derived a key that is forgotten")
	}
	p.pass(time.Minute)
}
