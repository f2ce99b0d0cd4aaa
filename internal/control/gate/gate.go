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
	Also     []byte    // a second answer, or empty; like Reply
	Accepted *Accepted // of Accept; the caller's
	// Evicted is a client accepted earlier with SendReset that has not been heard
	// of since and makes room for this one: its session ends. Its zero value
	// is none.
	Evicted Client
}

// maxDatagram bounds a control datagram in bytes: max-packet-size goes to 2048, and a
// wrapped client key adds up to 1024.
const maxDatagram = 4096

// resetAge is how long ago a client that sends without acks may have had our reset:
// it sends again 2, 6 and 14 seconds later, give or take.
const resetAge = 16 * time.Second

// Gate holds the cookies' key and what limits are counted by. It is not safe
// for concurrent use.
type Gate struct {
	cfg    Config
	cookie cookies
	static *wrap.Wrap // opens and answers without state; nil: refused
	rates  rates
	open   halfOpen
	// Scratch, so that what is dropped or answered costs no memory: decrypted
	// packets, an answer's body, the answers.
	clear, body, reply, also []byte
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
// tls-crypt clients. A packet with a genuine tls-crypt-v2 key behind it costs
// about 3 KB of garbage for the key, whatever becomes of it.
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

// Packet ids of what the gate sends. Receivers refuse an id that they have had with
// the same second, so a session goes on behind those that may have been used.
const (
	resetID = 1 // as stock servers
	againID = 2 // of a reset that is sent again, and the next one
)

// answer makes the server's reset with a cookie as session id.
func (g *Gate) answer(remote netip.AddrPort, client wire.SessionID, w *wrap.Wrap, flags uint16, now time.Time) Decision {
	if !g.rates.allow(remote.Addr(), now) {
		return drop(ReasonRate)
	}
	g.reply = g.appendReset(g.reply[:0], client, g.cookie.make(remote, client, now), w, flags, resetID, now)
	return Decision{Verdict: Reply, Reply: g.reply}
}

// answerAgain makes the reset again for a client that has had one, of which we
// don't know when. If it may have been in another time slot, that cookie goes out
// too: the client takes only a packet of the session id that it knows.
func (g *Gate) answerAgain(remote netip.AddrPort, client wire.SessionID, now time.Time) Decision {
	if !g.rates.allow(remote.Addr(), now) {
		return drop(ReasonRate)
	}
	own, before := g.cookie.make(remote, client, now), g.cookie.make(remote, client, now.Add(-resetAge))
	g.reply = g.appendReset(g.reply[:0], client, own, g.static, 0, againID, now)
	g.also = g.also[:0]
	if before != own {
		g.also = g.appendReset(g.also, client, before, g.static, 0, againID+1, now)
	}
	return Decision{Verdict: Reply, Reply: g.reply, Also: g.also}
}

// appendReset appends the server's reset: message id 0, which acknowledges the client's.
func (g *Gate) appendReset(dst []byte, client, own wire.SessionID, w *wrap.Wrap, flags uint16, id uint32, now time.Time) []byte {
	reset := wire.Body{NAcks: 1, Remote: client}
	g.body = reset.Append(wire.ControlHardResetServerV2, g.body[:0])
	if flags != 0 {
		g.body = wire.AppendEarlyNegotiation(g.body, flags)
	}
	h := wire.Header{Opcode: wire.ControlHardResetServerV2, Session: own}
	return w.SealStateless(dst, h, g.body, wrap.Stamp{ID: id, Time: uint32(now.Unix())})
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
