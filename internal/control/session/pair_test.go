// SPDX-License-Identifier: Apache-2.0

package session

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/keyex"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wire"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wrap"
)

var (
	clientID = wire.SessionID([]byte("CLIENTID"))
	serverID = wire.SessionID([]byte("SERVERID"))
)

// options say which kind of session a test wants.
type options struct {
	version uint16 // of TLS; 0: 1.3
	crypt   bool   // tls-crypt
	stream  bool
	pki     *pki
	edit    func(*Config)
}

// configs returns a server's and a client's configuration. The server's is for
// one that gets the client's reset.
func (o options) configs() (server, client Config) {
	if o.version == 0 {
		o.version = tls.VersionTLS13
	}
	if o.pki == nil {
		o.pki = ecdsaPKI()
	}
	var key *[256]byte
	serverWrap, clientWrap := wrap.Plain(), wrap.Plain()
	if o.crypt {
		key = new([256]byte)
		for i := range key {
			key[i] = byte(i)
		}
		serverWrap, clientWrap = wrap.TLSCrypt(key, wrap.Server), wrap.TLSCrypt(key, wrap.Client)
	}
	hello := func(who string) func(uint8, *keyex.Message, bool) keyex.Message {
		return func(id uint8, peer *keyex.Message, _ bool) keyex.Message {
			return keyex.Message{Options: "V4,tls-" + who, HasUser: who == "client", Username: who, Password: "secret",
				PeerInfo: fmt.Sprintf("IV_VER=%d\n", id)}
		}
	}
	server = Config{Role: Server, Wrap: serverWrap, Static: key, Local: serverID, Remote: clientID,
		SendReset: true, Stream: o.stream, Hello: hello("server")}
	client = Config{Role: Client, Wrap: clientWrap, Static: key, Local: clientID,
		Stream: o.stream, Hello: hello("client")}
	server.TLS, client.TLS = o.pki.configs(o.version)
	if o.edit != nil {
		o.edit(&server)
		o.edit(&client)
	}
	return server, client
}

// end is a session with an owner that answers at once and notes all events.
type end struct {
	*Session
	events []Event
	hold   bool // doesn't answer
}

func (e *end) act(now time.Time) (out [][]byte) {
	for _, ev := range e.Session.Events() {
		e.events = append(e.events, ev)
		if ev.Type == KeyExchanged && !e.hold {
			e.Answer(ev.KeyID, now)
		}
	}
	return e.Outgoing()
}

// types lists events of a key id, as text.
func (e *end) types(keyID uint8) (types []Type) {
	for _, ev := range e.events {
		if ev.KeyID == keyID && ev.Type != Message {
			types = append(types, ev.Type)
		}
	}
	return types
}

func (e *end) texts() (texts []string) {
	for _, ev := range e.events {
		if ev.Type == Message {
			texts = append(texts, ev.Text)
		}
	}
	return texts
}

func (e *end) event(t testing.TB, keyID uint8, typ Type) Event {
	t.Helper()
	for _, ev := range e.events {
		if ev.KeyID == keyID && ev.Type == typ {
			return ev
		}
	}
	t.Fatalf("no event %d of key %d in %v", typ, keyID, e.types(keyID))
	return Event{}
}

// pair is a client and a server with nothing between them but a test's wishes.
type pair struct {
	t              testing.TB
	now            time.Time
	server, client *end
	toServer       [][]byte
	toClient       [][]byte
	// drop, if set, loses datagrams for which it is true.
	drop func(fromClient bool, b []byte) bool
}

func newPair(t testing.TB, o options) *pair {
	t.Helper()
	server, client := o.configs()
	p := &pair{t: t, now: began}
	p.server = &end{Session: closing(t, New(server, began))}
	p.client = &end{Session: closing(t, New(client, began))}
	return p
}

// collect fetches what both have to send.
func (p *pair) collect() {
	for _, b := range p.client.act(p.now) {
		if p.drop == nil || !p.drop(true, b) {
			p.toServer = append(p.toServer, b)
		}
	}
	for _, b := range p.server.act(p.now) {
		if p.drop == nil || !p.drop(false, b) {
			p.toClient = append(p.toClient, b)
		}
	}
}

// exchange carries datagrams to and fro until there are none.
func (p *pair) exchange() {
	p.t.Helper()
	p.collect()
	for range 1000 {
		if len(p.toServer) == 0 && len(p.toClient) == 0 {
			return
		}
		toServer, toClient := p.toServer, p.toClient
		p.toServer, p.toClient = nil, nil
		for _, b := range toServer {
			p.server.Datagram(slices.Clone(b), p.now)
		}
		for _, b := range toClient {
			p.client.Datagram(slices.Clone(b), p.now)
		}
		p.collect()
	}
	p.t.Fatal("peers never stop talking")
}

// pass lets time go by, with all that happens in it.
func (p *pair) pass(d time.Duration) {
	p.t.Helper()
	until := p.now.Add(d)
	p.exchange()
	for range 10_000 {
		next := until
		for _, e := range []*end{p.server, p.client} {
			if n := e.Next(); !n.IsZero() && n.Before(next) {
				next = n
			}
		}
		if next.After(p.now) {
			p.now = next
		}
		p.server.Tick(p.now)
		p.client.Tick(p.now)
		p.exchange()
		if p.now.Equal(until) {
			return
		}
	}
	p.t.Fatal("busy loop")
}

// connected returns a pair with the first key established.
func connected(t testing.TB, o options) *pair {
	t.Helper()
	p := newPair(t, o)
	p.exchange()
	p.established(0)
	return p
}

// established checks that a key is, and that both sides derive the same from it.
func (p *pair) established(keyID uint8) {
	p.t.Helper()
	for _, e := range []*end{p.server, p.client} {
		for _, ev := range e.events {
			if ev.Type == Failed {
				p.t.Fatalf("key %d failed: %v", ev.KeyID, ev.Err)
			}
		}
		e.event(p.t, keyID, KeyExchanged)
		e.event(p.t, keyID, Acknowledged)
		if e.established == nil || e.established.id != keyID || e.negotiating != nil {
			p.t.Fatalf("key %d is not the established one", keyID)
		}
	}
	for _, ekm := range []bool{false, true} {
		a, errA := p.server.Derive(keyID, ekm)
		b, errB := p.client.Derive(keyID, ekm)
		if errA != nil || errB != nil || *a != *b || *a == [256]byte{} {
			p.t.Fatalf("key blocks differ: %v, %v", errA, errB)
		}
	}
}

func (p *pair) failed(e *end, keyID uint8, target error) {
	p.t.Helper()
	if ev := e.event(p.t, keyID, Failed); target != nil && !errors.Is(ev.Err, target) {
		p.t.Errorf("key %d failed with %v, not %v", keyID, ev.Err, target)
	}
}
