// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"crypto/rand"
	"net/netip"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wire"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wrap"
)

// cookieClient reports whether the packet id of a client's first packet says
// that it can send its wrapped key again: such clients begin at 0x0f000001.
func cookieClient(id uint32) bool { return id>>24 == 0x0f }

// unwrapped opens a tls-crypt-v2 client's key and the packet in front of it.
func (g *Gate) unwrapped(b []byte) (k *wrap.ClientKey, w *wrap.Wrap, h wire.Header, body wire.Body, stamp wrap.Stamp, why string) {
	if g.cfg.V2 == nil {
		return nil, nil, h, body, stamp, ReasonNoV2
	}
	packet, wkc, err := wrap.SplitWKC(b)
	if err != nil {
		return nil, nil, h, body, stamp, ReasonMalformed
	}
	if k, err = g.cfg.V2.Unwrap(wkc); err != nil {
		return nil, nil, h, body, stamp, ReasonAuth
	}
	w = wrap.TLSCrypt(&k.Key, wrap.Server)
	h, raw, stamp, err := w.OpenStateless(g.clear, packet)
	if err != nil {
		return nil, nil, h, body, stamp, ReasonAuth
	}
	if body, err = wire.ParseBody(h.Opcode, raw); err != nil {
		return nil, nil, h, body, stamp, ReasonMalformed
	}
	return k, w, h, body, stamp, ""
}

// resetV3 answers the reset of a tls-crypt-v2 client, or, if the client cannot
// send its key again, begins its session.
func (g *Gate) resetV3(remote netip.AddrPort, b []byte, now time.Time) Decision {
	k, w, h, body, stamp, why := g.unwrapped(b)
	if why != "" {
		return drop(why)
	}
	if !isReset(body) {
		return drop(ReasonMalformed)
	}
	if cookieClient(stamp.ID) {
		return g.replied(remote, h, w, wire.AppendEarlyNegotiation(nil, wire.ResendWKC), now)
	}
	if g.cfg.ForceCookie {
		return drop(ReasonCookie)
	}
	if !g.rates.allow(remote.Addr(), now) {
		return drop(ReasonRate)
	}
	if !g.open.enter(remote, h.Session) {
		return drop(ReasonNonCookie)
	}
	w.Seen(stamp, now)
	return Decision{Verdict: Accept, Accepted: &Accepted{Client: h.Session, Server: fresh(), Wrap: w, Static: &k.Key, Key: k,
		NextRecv: 1, SendReset: true}}
}

// fresh makes a session id that is no cookie.
func fresh() (id wire.SessionID) {
	for id.IsZero() {
		_, _ = rand.Read(id[:]) // never fails
	}
	return id
}

// answerWKC decides about the packet with which a tls-crypt-v2 client sends its
// key again.
func (g *Gate) answerWKC(remote netip.AddrPort, b []byte, now time.Time) Decision {
	k, w, h, body, _, why := g.unwrapped(b)
	if why != "" {
		return drop(why)
	}
	own, ok := g.cookieOf(remote, h, body, now)
	if !ok {
		return drop(ReasonNoSession)
	}
	w.SetNextID(2) // our reset was 1
	return Decision{Verdict: Accept, Accepted: &Accepted{Client: h.Session, Server: own, Wrap: w, Static: &k.Key, Key: k,
		NextRecv: 1, NextSend: 1, First: b}}
}

// Stream decides about the first packet on a TCP connection, whose sender's
// address needs no proof: a reset begins the session.
func (g *Gate) Stream(b []byte, now time.Time) Decision {
	h, ok := wire.ParseHeader(b)
	if !ok || h.Session.IsZero() || h.KeyID != 0 {
		return drop(ReasonMalformed)
	}
	acc := &Accepted{Client: h.Session, Server: fresh(), NextRecv: 1, SendReset: true}
	switch h.Opcode {
	case wire.ControlHardResetClientV2:
		if g.cfg.Static == nil {
			return drop(ReasonWrapping)
		}
		acc.Wrap, acc.Static = g.cfg.Static(), g.cfg.StaticKey
		_, raw, stamp, err := acc.Wrap.OpenStateless(nil, b)
		if err != nil {
			return drop(ReasonAuth)
		}
		body, err := wire.ParseBody(h.Opcode, raw)
		if err != nil || !isReset(body) {
			return drop(ReasonMalformed)
		}
		acc.Wrap.Seen(stamp, now)
	case wire.ControlHardResetClientV3:
		k, w, _, body, stamp, why := g.unwrapped(b)
		if why != "" {
			return drop(why)
		}
		if !isReset(body) {
			return drop(ReasonMalformed)
		}
		w.Seen(stamp, now)
		acc.Wrap, acc.Static, acc.Key = w, &k.Key, k
	default:
		return drop(ReasonNoSession)
	}
	return Decision{Verdict: Accept, Accepted: acc}
}
