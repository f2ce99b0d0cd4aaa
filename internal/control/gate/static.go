// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"net/netip"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wire"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wrap"
)

// opened opens and parses a packet of a client that uses one key for all,
// without regard to its packet id. A reason says why not.
func (g *Gate) opened(b []byte) (h wire.Header, body wire.Body, stamp wrap.Stamp, reason string) {
	h, raw, stamp, err := g.static.OpenStateless(g.clear, b)
	switch {
	case err == wrap.ErrAuth:
		return h, body, stamp, ReasonAuth
	case err != nil:
		return h, body, stamp, ReasonShort
	}
	if body, err = wire.ParseBody(h.Opcode, raw); err == nil {
		return h, body, stamp, ""
	}
	if g.static.Overhead() == 0 {
		return h, body, stamp, ReasonPlain
	}
	return h, body, stamp, ReasonMalformed
}

// resetV2 answers the reset of a client that uses one key for all.
func (g *Gate) resetV2(remote netip.AddrPort, b []byte, now time.Time) Decision {
	if g.static == nil {
		return drop(ReasonWrapping)
	}
	if g.rates.spent(remote.Addr(), now) {
		return drop(ReasonRate) // before any cryptography
	}
	h, body, _, reason := g.opened(b)
	switch {
	case reason != "":
		return drop(reason)
	case !isReset(&body):
		return drop(g.notReset())
	}
	return g.answer(remote, h.Session, g.static, 0, now)
}

// notReset is the reason for a reset that is authentic and yet none.
func (g *Gate) notReset() string {
	if g.static.Overhead() == 0 {
		return ReasonPlain
	}
	return ReasonMalformed
}

// first decides about what follows our reset from a client that uses one key for all.
func (g *Gate) first(remote netip.AddrPort, b []byte, now time.Time) Decision {
	if g.static == nil {
		return drop(ReasonNoSession)
	}
	h, body, _, reason := g.opened(b)
	switch {
	case reason == ReasonAuth && g.cfg.V2 != nil:
		// A tls-crypt-v2 client sends acks by themselves too, and they may overtake
		// its key, without which they cannot be opened.
		return drop(ReasonNoSession)
	case reason != "":
		return drop(reason)
	case h.Opcode == wire.ControlV1 && body.NAcks == 0 && body.ID == 1:
		// OpenVPN before 2.6 acknowledges our reset once, by itself. If that is
		// lost, another reset makes it do so again.
		return g.answerAgain(remote, h.Session, now)
	case !g.returned(remote, h, &body, now):
		return drop(ReasonNoSession)
	}
	w := g.cfg.Static()
	w.SetNextID(againID + 2)
	return Decision{Verdict: Accept, Accepted: &Accepted{Client: h.Session, Server: body.Remote, Wrap: w, Static: g.cfg.StaticKey,
		NextRecv: 1, NextSend: 1, First: b}}
}

// returned reports whether a packet brings our cookie back, and nothing that only
// an existing session can have sent.
func (g *Gate) returned(remote netip.AddrPort, h wire.Header, body *wire.Body, now time.Time) bool {
	if body.NAcks == 0 || body.ID > 1 {
		return false
	}
	for _, id := range body.Acks[:body.NAcks] {
		if id > 1 {
			return false
		}
	}
	return g.cookie.check(body.Remote, remote, h.Session, now)
}
