// SPDX-License-Identifier: Apache-2.0

// Package gate decides about datagrams of senders that have no session. A reset
// is answered without keeping anything: the server's session id in the answer is a
// cookie, an HMAC of the sender's address, port and session id. Only who
// brings it back, and so can receive at its address, gets a session. Limits are
// counted by prefix, in tables of fixed size. It does no I/O and has no clock.
package gate

import (
	"crypto/rand"
	"fmt"
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

// Rate is a number of events in a time; a zero Count or Per is no limit.
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
	// long, and at most half as long again; half-open clients are counted for as long.
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
	// First is the datagram that the session has still to be given; nil: none, as
	// Wrap has seen the packet already.
	First []byte
}

// Client is a client that has no session id of ours yet.
type Client struct {
	Remote  netip.AddrPort
	Session wire.SessionID
}

// Decision is the outcome for one datagram.
type Decision struct {
	Verdict  Verdict
	Reason   string    // of Drop
	Reply    []byte    // of Reply; the gate's, valid until the next call
	Accepted *Accepted // of Accept; the caller's
	// Evicted is a client accepted earlier with SendReset that has not been heard
	// of since and makes room for this one: its session ends. Its zero value
	// is none.
	Evicted Client
}

// maxDatagram bounds a control datagram in bytes: max-packet-size goes to 2048, and a
// wrapped client key adds up to 1024.
const maxDatagram = 4096

// Gate holds the cookies' key and what limits are counted by. It is not safe
// for concurrent use.
type Gate struct {
	cfg    Config
	cookie cookies
	static *wrap.Wrap // opens and answers without state; nil: refused
	rates  rates
	open   halfOpen
	// Scratch, so that what is dropped or answered costs no memory: decrypted
	// packets, an answer's body, the answer.
	clear, body, reply []byte
}

// New makes a gate. The error is Random's.
func New(cfg Config) (*Gate, error) {
	if cfg.Random == nil {
		cfg.Random = rand.Reader
	}
	c, err := newCookies(cfg.Random, cfg.HandWindow)
	if err != nil {
		return nil, fmt.Errorf("make cookie key: %w", err)
	}
	g := &Gate{cfg: cfg, cookie: c, rates: newRates(cfg.Rate), open: newHalfOpen(cfg.HandWindow), clear: make([]byte, 0, maxDatagram)}
	if cfg.Static != nil {
		g.static = cfg.Static()
	}
	return g, nil
}

// Datagram decides about a datagram from a sender without a session. b is
// only read; First is b.
//
// Nothing is allocated for what is dropped, and for answers to plain, tls-auth and
// tls-crypt clients. An answer to a genuine tls-crypt-v2 reset costs a few
// kilobytes of garbage for its client's key.
func (g *Gate) Datagram(remote netip.AddrPort, b []byte, now time.Time) Decision {
	h, ok := wire.ParseHeader(b)
	if !ok || h.Session.IsZero() || len(b) > maxDatagram {
		return drop(ReasonMalformed)
	}
	if h.KeyID != 0 {
		return drop(ReasonNoSession)
	}
	switch h.Opcode {
	case wire.ControlHardResetClientV2:
		return g.resetV2(remote, b, now)
	case wire.ControlHardResetClientV3:
		return g.resetV3(remote, b, now)
	case wire.ControlV1, wire.AckV1:
		return g.first(remote, b, now)
	case wire.ControlWKCV1:
		return g.firstWKC(remote, b, now)
	}
	return drop(ReasonNoSession)
}

func drop(reason string) Decision { return Decision{Reason: reason} }

// isReset reports whether a body is that of a client's reset: no acks, message
// id 0 and no payload.
func isReset(b *wire.Body) bool { return b.NAcks == 0 && b.ID == 0 && len(b.Payload) == 0 }

// answer makes the server's reset with a cookie as session id. Its packet id is 1
// every time, with the time of the day: the session goes on at 2.
func (g *Gate) answer(remote netip.AddrPort, client wire.SessionID, w *wrap.Wrap, flags uint16, now time.Time) Decision {
	if !g.rates.allow(remote.Addr(), now) {
		return drop(ReasonRate)
	}
	reset := wire.Body{NAcks: 1, Remote: client}
	g.body = reset.Append(wire.ControlHardResetServerV2, g.body[:0])
	if flags != 0 {
		g.body = wire.AppendEarlyNegotiation(g.body, flags)
	}
	h := wire.Header{Opcode: wire.ControlHardResetServerV2, Session: g.cookie.make(remote, client, now)}
	g.reply = w.SealStateless(g.reply[:0], h, g.body, wrap.Stamp{ID: 1, Time: uint32(now.Unix())})
	return Decision{Verdict: Reply, Reply: g.reply}
}

// Done says that a session which was accepted with SendReset has ended, or that its
// client has answered: any packet that the session takes carries our random
// session id, so its address is not forged. For others it does nothing.
func (g *Gate) Done(remote netip.AddrPort, client wire.SessionID) {
	g.open.leave(Client{remote, client})
}

// Tidy forgets half-open clients whose handshake can only have ended. It is called
// about once a second.
func (g *Gate) Tidy(now time.Time) { g.open.expire(now) }
