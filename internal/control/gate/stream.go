// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"net/netip"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wire"
)

// Stream decides about the first packet on a TCP connection, whose sender's
// address needs no proof: a reset begins the session, anything else is dropped. b is
// only read and not kept. Rates apply as to answered resets.
func (g *Gate) Stream(remote netip.AddrPort, b []byte, now time.Time) Decision {
	h, ok := wire.ParseHeader(b)
	if !ok || h.Session.IsZero() || len(b) > maxDatagram {
		return drop(ReasonMalformed)
	}
	if h.KeyID != 0 {
		return drop(ReasonNoSession)
	}
	var d Decision
	switch h.Opcode {
	case wire.ControlHardResetClientV2:
		d = g.streamV2(b, now)
	case wire.ControlHardResetClientV3:
		d = g.streamV3(b, now)
	default:
		return drop(ReasonNoSession)
	}
	if d.Verdict == Accept && !g.rates.allow(remote.Addr(), now) {
		return drop(ReasonRate)
	}
	return d
}

func (g *Gate) streamV2(b []byte, now time.Time) Decision {
	if g.static == nil {
		return drop(ReasonWrapping)
	}
	h, body, stamp, reason := g.opened(b)
	switch {
	case reason != "":
		return drop(reason)
	case !isReset(&body):
		return drop(g.notReset())
	}
	w := g.cfg.Static()
	w.Seen(stamp, now)
	return Decision{Verdict: Accept, Accepted: &Accepted{Client: h.Session, Server: fresh(), Wrap: w, Static: g.cfg.StaticKey,
		NextRecv: 1, SendReset: true}}
}

func (g *Gate) streamV3(b []byte, now time.Time) Decision {
	u, reason := g.unwrap(b)
	switch {
	case reason != "":
		return drop(reason)
	case !isReset(&u.body):
		return drop(ReasonMalformed)
	}
	u.wrap.Seen(u.stamp, now)
	return Decision{Verdict: Accept, Accepted: u.accepted(fresh(), true)}
}
