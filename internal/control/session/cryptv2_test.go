// SPDX-License-Identifier: Apache-2.0

package session

import (
	"bytes"
	"crypto/rand"
	"slices"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wire"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wrap"
)

// v2Configs are a server's and a client's configuration with a tls-crypt-v2 key
// as long as such keys get.
func v2Configs(t *testing.T) (server, client Config, key *[256]byte) {
	t.Helper()
	serverKey, _, err := wrap.GenerateServerKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key = new([256]byte)
	if _, err := rand.Read(key[:]); err != nil {
		t.Fatal(err)
	}
	wkc, err := serverKey.Wrap(key, append([]byte{0}, bytes.Repeat([]byte("m"), 500)...))
	if err != nil {
		t.Fatal(err)
	}
	server, client = options{}.configs()
	server.Wrap, server.Static = wrap.TLSCrypt(key, wrap.Server), key
	client.Wrap, client.Static, client.WKC = wrap.TLSCrypt(key, wrap.Client), key, wkc
	return server, client, key
}

// TestTLSCryptV2 makes the server's session from the reset.
func TestTLSCryptV2(t *testing.T) {
	server, client, _ := v2Configs(t)
	p := &pair{t: t, now: began, server: &end{Session: closing(t, New(server, began))}, client: &end{Session: closing(t, New(client, began))}}
	p.collect()
	reset := slices.Clone(p.toServer[0])
	if reset[0] != wire.ControlHardResetClientV3<<3 || !bytes.HasSuffix(reset, client.WKC) {
		t.Errorf("client's reset is %x", reset)
	}
	p.exchange()
	p.established(0)
	for _, e := range []*end{p.server, p.client} {
		if err := e.UseDynamicWrap(); err != nil {
			t.Fatal(err)
		}
	}
	p.client.Renegotiate(p.now)
	p.exchange()
	p.established(1)
}

// TestTLSCryptV2Cookie makes the server's session from the packet with which
// the client sends its key again, which is lost the first time.
func TestTLSCryptV2Cookie(t *testing.T) {
	server, client, key := v2Configs(t)
	p := &pair{t: t, now: began, client: &end{Session: closing(t, New(client, began))}}
	p.client.Outgoing()
	body := wire.Body{NAcks: 1, Remote: clientID, Payload: wire.AppendEarlyNegotiation(nil, wire.ResendWKC)}
	opcode := uint8(wire.ControlHardResetServerV2)
	p.client.Datagram(wrap.TLSCrypt(key, wrap.Server).Seal(nil,
		wire.Header{Opcode: opcode, Session: serverID}, body.Append(opcode, nil), began), began)
	first := p.client.Outgoing()
	p.now = p.now.Add(DefaultTimeout)
	p.client.Tick(p.now)
	again := p.client.Outgoing()
	for _, out := range [][][]byte{first, again} {
		if len(out) == 0 || out[0][0] != wire.ControlWKCV1<<3 || !bytes.HasSuffix(out[0], client.WKC) {
			t.Fatalf("client sent %x", out)
		}
		for _, b := range out {
			if len(b) > DefaultMaxPacket {
				t.Errorf("packet of %d bytes", len(b))
			}
		}
	}
	server.SendReset, server.NextRecv, server.NextSend = false, 1, 1
	server.Wrap.SetNextID(2)
	p.server = &end{Session: closing(t, New(server, p.now))}
	p.toServer = append(again, first...)
	p.exchange()
	p.established(0)
	if c := p.server.Counters(); c.Duplicates == 0 || c.DropAuth+c.DropMalformed+c.DropReplay != 0 {
		t.Errorf("counted %+v", c)
	}
	p.pass(time.Minute)
}
