// SPDX-License-Identifier: Apache-2.0

// Package gate decides about datagrams of senders that have no session. A reset
// is answered without keeping anything: the server's session id in the answer is a
// cookie, an HMAC of the sender's address, port and session id. Only who
// brings it back, and so can receive at its address, gets a session. It does no
// I/O and has no clock.
package gate

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"io"
	"net/netip"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wire"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wrap"
)

// Verdict is what becomes of a datagram.
type Verdict uint8

// The verdicts.
const (
	Drop   Verdict = iota // with a Reason
	Reply                 // with an answer to send; nothing is kept
	Accept                // a session begins
)

// Reasons of Drop.
const (
	ReasonRate      = "more resets than connect-freq-initial allows from one prefix"
	ReasonAuth      = "wrong key: the client's tls-auth, tls-crypt or tls-crypt-v2 key, key-direction or auth is not the server's"
	ReasonMalformed = "malformed control packet"
	ReasonNoSession = "no session: the packet belongs to one that has ended, or its cookie is too old"
	ReasonWrapping  = "unwrapped or tls-auth/tls-crypt client, but the server takes tls-crypt-v2 only"
	ReasonNoV2      = "tls-crypt-v2 client, but the server has no tls-crypt-v2 key"
	ReasonCookie    = "tls-crypt-v2 client without cookie support (before 2.6), which force-cookie refuses"
	ReasonNonCookie = "too many half-open tls-crypt-v2 clients without cookie support in one prefix"
)

// Rate is a number of events in a time; a zero Count is no limit.
type Rate struct {
	Count int
	Per   time.Duration
}

// Config is what a gate is made of.
type Config struct {
	// Static makes a fresh wrapping for clients that use one key for all; nil: such
	// clients are refused.
	Static func() *wrap.Wrap
	// StaticKey is the key that it is made of; nil for plain packets.
	StaticKey *[256]byte
	// V2 opens the keys of tls-crypt-v2 clients; nil: they are refused.
	V2 *wrap.ServerKey
	// ForceCookie refuses tls-crypt-v2 clients that cannot do without state.
	ForceCookie bool
	// HandWindow is how long a handshake may take. A cookie is good for at least as
	// long, and at most half as long again.
	HandWindow time.Duration
	// Rate limits answered resets from one IPv4 address or IPv6 /64.
	Rate Rate
	// Random is where the cookies' key comes from; nil: crypto/rand.
	Random io.Reader
}

// Accepted is what a session begins with.
type Accepted struct {
	Client, Server wire.SessionID
	Wrap           *wrap.Wrap
	// Static is the key that Wrap was made of, nil for plain packets.
	Static *[256]byte
	// Key is a tls-crypt-v2 client's key with its metadata, nil for others.
	Key *wrap.ClientKey
	// NextRecv and NextSend are the message ids to go on with.
	NextRecv, NextSend uint32
	// SendReset: the session has to answer the client's reset itself.
	SendReset bool
	// First is the datagram that the session has still to be given; nil: none.
	First []byte
}

// Decision is the outcome for one datagram.
type Decision struct {
	Verdict  Verdict
	Reason   string    // of Drop
	Reply    []byte    // of Reply; valid until the next call
	Accepted *Accepted // of Accept
}

// Gate holds the cookies' key and what limits are counted by. It is not safe
// for concurrent use.
type Gate struct {
	cfg    Config
	cookie hash.Hash
	slot   time.Duration
	opener *wrap.Wrap // opens packets of static clients, without their replay record
	rates  rates
	open   halfOpen
	reply  []byte
	body   []byte
	clear  []byte
	sum    [sha256.Size]byte
	input  [8 + 16 + 2 + 8]byte
}

// New makes a gate.
func New(cfg Config) (*Gate, error) {
	if cfg.Random == nil {
		cfg.Random = rand.Reader
	}
	var key [sha256.Size]byte
	if _, err := io.ReadFull(cfg.Random, key[:]); err != nil {
		return nil, err
	}
	g := &Gate{cfg: cfg, cookie: hmac.New(sha256.New, key[:]), slot: max((cfg.HandWindow+time.Second)/2, time.Second),
		rates: newRates(cfg.Rate), open: newHalfOpen()}
	if cfg.Static != nil {
		g.opener = cfg.Static()
	}
	return g, nil
}

// Datagram decides about a datagram from a sender without a session. b is
// only read; First refers to it.
func (g *Gate) Datagram(remote netip.AddrPort, b []byte, now time.Time) Decision {
	h, ok := wire.ParseHeader(b)
	if !ok || h.Session.IsZero() {
		return drop(ReasonMalformed)
	}
	if h.KeyID != 0 {
		return drop(ReasonNoSession)
	}
	switch h.Opcode {
	case wire.ControlHardResetClientV2:
		return g.reset(remote, b, now)
	case wire.ControlHardResetClientV3:
		return g.resetV3(remote, b, now)
	case wire.ControlV1, wire.AckV1, wire.ControlWKCV1:
		return g.answer(remote, b, now)
	}
	return drop(ReasonNoSession)
}

func drop(reason string) Decision { return Decision{Reason: reason} }

// reset answers the reset of a client that uses one key for all.
func (g *Gate) reset(remote netip.AddrPort, b []byte, now time.Time) Decision {
	if g.opener == nil {
		return drop(ReasonWrapping)
	}
	h, body, why := g.opened(g.opener, b)
	if why != "" {
		return drop(why)
	}
	if !isReset(body) {
		return drop(ReasonMalformed)
	}
	return g.replied(remote, h, g.cfg.Static(), nil, now)
}

// isReset reports whether a body is that of a client's reset: no acks, message
// id 0 and no payload.
func isReset(b wire.Body) bool { return b.NAcks == 0 && b.ID == 0 && len(b.Payload) == 0 }

// opened opens a packet without regard to its packet id, and parses it.
func (g *Gate) opened(w *wrap.Wrap, b []byte) (wire.Header, wire.Body, string) {
	h, raw, _, err := w.OpenStateless(g.clear, b)
	if cap(raw) > cap(g.clear) && w.Overhead() > 0 && cap(raw) <= 8192 {
		g.clear = raw[:0]
	}
	switch {
	case err == wrap.ErrAuth:
		return h, wire.Body{}, ReasonAuth
	case err != nil:
		return h, wire.Body{}, ReasonMalformed
	}
	body, err := wire.ParseBody(h.Opcode, raw)
	if err != nil {
		return h, body, ReasonMalformed
	}
	return h, body, ""
}

// replied makes the server's reset with a cookie as session id.
func (g *Gate) replied(remote netip.AddrPort, h wire.Header, w *wrap.Wrap, payload []byte, now time.Time) Decision {
	if !g.rates.allow(remote.Addr(), now) {
		return drop(ReasonRate)
	}
	answer := wire.Body{NAcks: 1, Remote: h.Session, Payload: payload}
	g.body = answer.Append(wire.ControlHardResetServerV2, g.body[:0])
	own := wire.Header{Opcode: wire.ControlHardResetServerV2, Session: g.session(remote, h.Session, g.slotOf(now))}
	g.reply = w.Seal(g.reply[:0], own, g.body, now)
	return Decision{Verdict: Reply, Reply: g.reply}
}

// answer decides about what follows a server's reset.
func (g *Gate) answer(remote netip.AddrPort, b []byte, now time.Time) Decision {
	h, _ := wire.ParseHeader(b)
	if h.Opcode == wire.ControlWKCV1 {
		return g.answerWKC(remote, b, now)
	}
	if g.opener == nil {
		return drop(ReasonNoSession)
	}
	h, body, why := g.opened(g.opener, b)
	if why != "" {
		return drop(why)
	}
	if h.Opcode == wire.ControlV1 && body.NAcks == 0 && body.ID == 1 {
		// OpenVPN before 2.6 acknowledges our reset once, by itself. If that is
		// lost, another reset makes it do so again.
		return g.replied(remote, h, g.cfg.Static(), nil, now)
	}
	own, ok := g.cookieOf(remote, h, body, now)
	if !ok {
		return drop(ReasonNoSession)
	}
	w := g.cfg.Static()
	w.SetNextID(2) // our reset was 1
	return Decision{Verdict: Accept, Accepted: &Accepted{Client: h.Session, Server: own, Wrap: w, Static: g.cfg.StaticKey,
		NextRecv: 1, NextSend: 1, First: b}}
}

// cookieOf reports whether a packet acknowledges our reset, and nothing that
// only an existing session can have sent, and returns our session id.
func (g *Gate) cookieOf(remote netip.AddrPort, h wire.Header, body wire.Body, now time.Time) (wire.SessionID, bool) {
	if body.NAcks == 0 || body.ID > 1 {
		return wire.SessionID{}, false
	}
	for _, id := range body.Acks[:body.NAcks] {
		if id > 1 {
			return wire.SessionID{}, false
		}
	}
	slot := g.slotOf(now)
	for n := range uint64(3) {
		own := g.session(remote, h.Session, slot-n)
		if hmac.Equal(own[:], body.Remote[:]) {
			return own, true
		}
	}
	return wire.SessionID{}, false
}

func (g *Gate) slotOf(now time.Time) uint64 { return uint64(now.UnixNano() / int64(g.slot)) }

// session is our session id for a client at a time.
func (g *Gate) session(remote netip.AddrPort, client wire.SessionID, slot uint64) (id wire.SessionID) {
	binary.BigEndian.PutUint64(g.input[:], slot)
	addr := remote.Addr().As16()
	copy(g.input[8:], addr[:])
	binary.BigEndian.PutUint16(g.input[24:], remote.Port())
	copy(g.input[26:], client[:])
	g.cookie.Reset()
	g.cookie.Write(g.input[:])
	copy(id[:], g.cookie.Sum(g.sum[:0]))
	if id.IsZero() {
		id[7] = 1
	}
	return id
}

// Done says that a session which was accepted with SendReset is authenticated
// or has ended; for others it does nothing.
func (g *Gate) Done(remote netip.AddrPort, client wire.SessionID) { g.open.leave(remote, client) }

// Tidy forgets limits that are over. It is called about once a second.
func (g *Gate) Tidy(now time.Time) { g.rates.tidy(now) }
