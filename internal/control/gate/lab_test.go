// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"crypto/rand"
	"net/netip"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wire"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wrap"
)

var (
	home     = netip.MustParseAddrPort("192.0.2.7:40000")
	moment   = time.Unix(1610612707, 0) // where a slot begins with a hand-window of a minute
	clientID = wire.SessionID([]byte("CLIENTID"))
	hour     = Rate{Count: 1 << 20, Per: time.Hour}
)

func static() *[256]byte {
	var k [256]byte
	for i := range k {
		k[i] = byte(i)
	}
	return &k
}

func sha1(t testing.TB) wrap.Digest {
	t.Helper()
	d, err := wrap.ParseDigest("SHA1")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func newGate(t testing.TB, cfg Config) *Gate {
	t.Helper()
	if cfg.HandWindow == 0 {
		cfg.HandWindow = time.Minute
	}
	g, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// lab is a server's gate and one client of it.
type lab struct {
	t      testing.TB
	cfg    Config
	gate   *Gate
	wrap   *wrap.Wrap // the client's
	reset  uint8      // the client's opcode
	wkc    []byte
	server wire.SessionID // as the client knows it
}

// seal makes a client's packet.
func (l *lab) seal(opcode uint8, body wire.Body) []byte {
	b := l.wrap.Seal(nil, wire.Header{Opcode: opcode, Session: clientID}, body.Append(opcode, nil), moment)
	if opcode == wire.ControlHardResetClientV3 || opcode == wire.ControlWKCV1 {
		b = append(b, l.wkc...)
	}
	return b
}

// ask sends a client's reset and takes the answer in.
func (l *lab) ask(now time.Time) wire.Body {
	l.t.Helper()
	d := l.gate.Datagram(home, l.seal(l.reset, wire.Body{}), now)
	if d.Verdict != Reply {
		l.t.Fatalf("reset: %+v", d)
	}
	return l.answered(d.Reply, now)
}

// answered takes an answer in, which the client must not have had before.
func (l *lab) answered(reply []byte, now time.Time) wire.Body {
	l.t.Helper()
	h, raw, err := l.wrap.Open(nil, reply, now)
	if err != nil {
		l.t.Fatalf("open the answer: %v", err)
	}
	body, err := wire.ParseBody(h.Opcode, raw)
	if err != nil || h.Opcode != wire.ControlHardResetServerV2 || h.KeyID != 0 || body.NAcks != 1 || body.Acks[0] != 0 ||
		body.Remote != clientID || body.ID != 0 || h.Session.IsZero() {
		l.t.Fatalf("answer %+v %+v, %v", h, body, err)
	}
	l.server = h.Session
	return body
}

// labs are a client for each wrapping.
func labs(t *testing.T) map[string]*lab {
	key, server, digest := static(), serverKey(t), sha1(t)
	all := map[string]*lab{
		"plain": {cfg: Config{Static: wrap.Plain}, wrap: wrap.Plain()},
		"tls-auth": {cfg: Config{StaticKey: key, Static: func() *wrap.Wrap { return wrap.TLSAuth(key, digest, wrap.Normal) }},
			wrap: wrap.TLSAuth(key, digest, wrap.Inverse)},
		"tls-crypt": {cfg: cryptConfig(), wrap: wrap.TLSCrypt(key, wrap.Client)},
		"tls-crypt beside tls-crypt-v2": {cfg: func() Config { c := cryptConfig(); c.V2 = server; return c }(),
			wrap: wrap.TLSCrypt(key, wrap.Client)},
	}
	for _, l := range all {
		l.reset = wire.ControlHardResetClientV2
	}
	kc, wkc, err := wrap.GenerateClientKey(rand.Reader, server, []byte("\x00name"))
	if err != nil {
		t.Fatal(err)
	}
	v2 := func(cfg Config) *lab {
		l := &lab{cfg: cfg, wrap: wrap.TLSCrypt(&kc, wrap.Client), reset: wire.ControlHardResetClientV3, wkc: wkc}
		l.wrap.SetNextID(0x0f000001)
		return l
	}
	all["tls-crypt-v2"] = v2(Config{V2: server, ForceCookie: true})
	both := cryptConfig()
	both.V2 = server
	all["tls-crypt-v2 beside tls-crypt"] = v2(both)
	for _, l := range all {
		l.t, l.gate = t, newGate(t, l.cfg)
	}
	return all
}

func serverKey(t testing.TB) *wrap.ServerKey {
	t.Helper()
	k, _, err := wrap.GenerateServerKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func cryptConfig() Config {
	key := static()
	return Config{StaticKey: key, Static: func() *wrap.Wrap { return wrap.TLSCrypt(key, wrap.Server) }}
}

// first is the opcode of the packet that brings the cookie back.
func (l *lab) first() uint8 {
	if l.wkc != nil {
		return wire.ControlWKCV1
	}
	return wire.ControlV1
}

func (l *lab) hello() wire.Body {
	return wire.Body{NAcks: 1, Remote: l.server, ID: 1, Payload: []byte("hello")}
}

// speaks checks that the client takes the session's first packet, in the same second as
// the gate's.
func (l *lab) speaks(a *Accepted, now time.Time) {
	l.t.Helper()
	b := a.Wrap.Seal(nil, wire.Header{Opcode: wire.AckV1, Session: a.Server}, []byte{0}, now)
	if _, _, err := l.wrap.Open(nil, b, now); err != nil {
		l.t.Errorf("the session's first packet: %v", err)
	}
}
