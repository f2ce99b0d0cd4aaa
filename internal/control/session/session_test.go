// SPDX-License-Identifier: Apache-2.0

package session

import (
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// eachKind runs a test with both TLS versions, with and without tls-crypt, on
// datagrams and streams.
func eachKind(t *testing.T, test func(t *testing.T, o options)) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, crypt := range []bool{false, true} {
			for _, stream := range []bool{false, true} {
				o := options{version: version, crypt: crypt, stream: stream}
				t.Run(fmt.Sprintf("%s,crypt=%v,stream=%v", tls.VersionName(version), crypt, stream),
					func(t *testing.T) { test(t, o) })
			}
		}
	}
}

func TestConnect(t *testing.T) {
	eachKind(t, func(t *testing.T, o options) {
		p := connected(t, o)
		for _, e := range []*end{p.server, p.client} {
			if got := e.types(0); !slices.Equal(got, []Type{KeyExchanged, Acknowledged}) {
				t.Errorf("events %v", got)
			}
			if !e.event(t, 0, KeyExchanged).EKM {
				t.Error("exporter does not work")
			}
			if next := e.Next(); !next.IsZero() {
				t.Errorf("an idle session wants to be called at %v", next)
			}
		}
		m := p.server.event(t, 0, KeyExchanged).Message
		if m.Options != "V4,tls-client" || m.Username != "client" || m.Password != "secret" || m.PeerInfo != "IV_VER=0\n" {
			t.Errorf("server got %+v", m)
		}
		if m := p.client.event(t, 0, KeyExchanged).Message; m.Options != "V4,tls-server" {
			t.Errorf("client got %+v", m)
		}
		certs := p.server.event(t, 0, KeyExchanged).TLS.PeerCertificates
		if len(certs) != 1 || certs[0].Subject.CommonName != "client" {
			t.Errorf("client's certificates: %v", certs)
		}
		if p.client.Remote() != serverID {
			t.Errorf("client took %v for the server's session id", p.client.Remote())
		}
	})
}

// TestConnectAfterCookie has the reset answered before the session is made, as
// the stateless gate does.
func TestConnectAfterCookie(t *testing.T) {
	server, client := options{}.configs()
	p := &pair{t: t, now: began, client: &end{Session: closing(t, New(client, began))}}
	if out := p.client.Outgoing(); len(out) != 1 || out[0][0] != wire.ControlHardResetClientV2<<3 {
		t.Fatalf("client sent %x", out)
	}
	body := wire.Body{NAcks: 1, Remote: clientID}
	reset := wire.Header{Opcode: wire.ControlHardResetServerV2, Session: serverID}.Append(nil)
	p.client.Datagram(body.Append(wire.ControlHardResetServerV2, reset), began)
	server.SendReset, server.NextRecv, server.NextSend = false, 1, 1
	p.server = &end{Session: closing(t, New(server, began))}
	p.exchange()
	p.established(0)
}

func TestPacketsFitAndCarryFewAcks(t *testing.T) {
	for _, size := range []int{126, 500, 1222, 2020} {
		p := newPair(t, options{crypt: true, edit: func(c *Config) { c.MaxPacket = size }})
		longest := 0
		p.drop = func(_ bool, b []byte) bool {
			longest = max(longest, len(b))
			return false
		}
		p.exchange()
		p.established(0)
		if longest > size || size < 1000 && longest < size-3*4-8 {
			t.Errorf("longest packet has %d bytes with a limit of %d", longest, size)
		}
	}
}

func TestControlMessages(t *testing.T) {
	eachKind(t, func(t *testing.T, o options) {
		p := newPair(t, o)
		if err := p.server.Send("x", p.now); err != ErrNotEstablished {
			t.Errorf("sent before there is a key: %v", err)
		}
		p.exchange()
		want := []string{"PUSH_REQUEST", strings.Repeat("a", 5000), "EXIT"}
		for _, text := range want {
			for _, e := range []*end{p.server, p.client} {
				if err := e.Send(text, p.now); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, bad := range []string{"", "a\x00b", strings.Repeat("a", MaxText+1)} {
			if err := p.server.Send(bad, p.now); err == nil {
				t.Errorf("sent a message of %d bytes", len(bad))
			}
		}
		p.exchange()
		for _, e := range []*end{p.server, p.client} {
			if got := e.texts(); !slices.Equal(got, want) {
				t.Errorf("received %.100q", got)
			}
		}
	})
}

func TestBacklogIsBounded(t *testing.T) {
	p := connected(t, options{})
	text := strings.Repeat("a", 1000)
	for n := 0; ; n++ {
		if err := p.server.Send(text, p.now); err == ErrBacklog {
			break
		}
		if n > 2*maxBacklog/len(text) {
			t.Fatal("no limit")
		}
		p.server.Outgoing()
	}
}

// TestMessageIsOneRecord: stock OpenVPN reads no further than to the end of a
// TLS record, and crypto/tls would cut the first ones short.
func TestMessageIsOneRecord(t *testing.T) {
	c := newRawClient(newPair(t, options{}))
	if _, err := c.ks.conn.Write(make([]byte, 2048)); err != nil {
		t.Fatal(err)
	}
	out := c.ks.pipe.out
	if length := int(out[3])<<8 | int(out[4]); length != len(out)-5 {
		t.Errorf("record of %d bytes in a stream of %d", length, len(out))
	}
}

func TestAnswerWaits(t *testing.T) {
	p := newPair(t, options{})
	p.server.hold = true
	p.pass(10 * time.Second)
	p.server.event(t, 0, KeyExchanged)
	if p.client.types(0) != nil {
		t.Errorf("client got %v before the answer", p.client.types(0))
	}
	if _, err := p.server.Derive(0, true); err != nil {
		t.Errorf("server can't derive the key before it answers: %v", err)
	}
	if err := p.server.Send("AUTH_FAILED", p.now); err != ErrNotEstablished {
		t.Errorf("sent before the answer: %v", err)
	}
	p.server.Answer(3, p.now) // none such
	p.server.Answer(0, p.now)
	p.server.Answer(0, p.now)
	if err := p.server.Send("AUTH_FAILED", p.now); err != nil {
		t.Error(err)
	}
	p.exchange()
	p.established(0)
	if got := p.client.texts(); !slices.Equal(got, []string{"AUTH_FAILED"}) {
		t.Errorf("client got %q", got)
	}
}

func TestTimeout(t *testing.T) {
	for name, drop := range map[string]func(bool, []byte) bool{
		"client never heard":          func(fromClient bool, _ []byte) bool { return fromClient },
		"server never heard":          func(fromClient bool, _ []byte) bool { return !fromClient },
		"client stops after resets":   func(fromClient bool, b []byte) bool { return fromClient && b[0]>>3 == wire.ControlV1 },
		"client acknowledges nothing": func(fromClient bool, b []byte) bool { return fromClient && b[0]>>3 == wire.AckV1 },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, options{})
			p.drop = drop
			p.pass(DefaultHandWindow - 1)
			if got := slices.Concat(p.client.types(0), p.server.types(0)); slices.Contains(got, Failed) {
				t.Fatalf("failed early: %v", got)
			}
			p.pass(1)
			p.failed(p.server, 0, ErrTimeout)
			if !p.server.Next().IsZero() {
				t.Error("a dead session wants to be called")
			}
			if name == "client acknowledges nothing" { // it knows all there is to know
				if got := p.client.types(0); slices.Contains(got, Failed) {
					t.Errorf("client: %v", got)
				}
				return
			}
			p.failed(p.client, 0, ErrTimeout)
		})
	}
}

func TestClose(t *testing.T) {
	for steps := range 6 {
		p := newPair(t, options{crypt: true})
		for range steps {
			p.collect()
			toServer, toClient := p.toServer, p.toClient
			p.toServer, p.toClient = nil, nil
			for _, b := range toServer {
				p.server.Datagram(b, p.now)
			}
			for _, b := range toClient {
				p.client.Datagram(b, p.now)
			}
		}
		p.server.Close()
		p.server.Close()
		p.server.Datagram([]byte("x"), p.now)
		p.server.Tick(p.now.Add(time.Hour))
		p.server.Answer(0, p.now)
		p.server.Forget(0)
		if p.server.Renegotiate(p.now) || p.server.Send("x", p.now) == nil || !p.server.Next().IsZero() {
			t.Error("a closed session works")
		}
		if _, err := p.server.Derive(0, true); err == nil {
			t.Error("a closed session derives keys")
		}
		if c := p.server.Counters(); c.DropClosed != 1 {
			t.Errorf("counted %+v", c)
		}
	}
}

func TestGoodbyeSurvivesClose(t *testing.T) {
	p := connected(t, options{})
	if err := p.server.Send("RESTART", p.now); err != nil {
		t.Fatal(err)
	}
	p.server.Close()
	p.exchange()
	if got := p.client.texts(); !slices.Equal(got, []string{"RESTART"}) {
		t.Errorf("client got %q", got)
	}
}
