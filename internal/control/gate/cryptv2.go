// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"net/netip"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wire"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wrap"
)

// resends reports whether the packet id of a client's reset says that it can send
// its wrapped key again: such clients begin at 0x0f000001.
func resends(id uint32) bool { return id&0x0f000000 == 0x0f000000 }

// unwrapped is a packet with its client's key behind it, taken apart.
type unwrapped struct {
	key   *wrap.ClientKey
	wrap  *wrap.Wrap // of the key
	h     wire.Header
	body  wire.Body
	stamp wrap.Stamp
}

// unwrap opens a tls-crypt-v2 client's key and the packet in front of it. A
// reason says why not.
func (g *Gate) unwrap(b []byte) (u unwrapped, reason string) {
	if g.cfg.V2 == nil {
		return u, ReasonNoV2
	}
	packet, wkc, err := wrap.SplitWKC(b)
	if err != nil {
		return u, ReasonMalformed
	}
	u.key, err = g.cfg.V2.Unwrap(wkc)
	switch {
	case err == wrap.ErrAuth:
		return u, ReasonWKC
	case err != nil:
		return u, ReasonMalformed
	}
	u.wrap = wrap.TLSCrypt(&u.key.Key, wrap.Server)
	var raw []byte
	u.h, raw, u.stamp, err = u.wrap.OpenStateless(g.clear, packet)
	if err != nil {
		return u, ReasonMalformed // its own key does not open it
	}
	if u.body, err = wire.ParseBody(u.h.Opcode, raw); err != nil {
		return u, ReasonMalformed
	}
	return u, ""
}

// accepted is what a session of this client begins with. With reset it has yet
// to answer the client's.
func (u *unwrapped) accepted(own wire.SessionID, reset bool) *Accepted {
	return &Accepted{Client: u.h.Session, Server: own, Wrap: u.wrap, Static: &u.key.Key, Key: u.key, NextRecv: 1, SendReset: reset}
}

// resetV3 answers the reset of a tls-crypt-v2 client, or, if the client cannot
// send its key again, begins its session.
func (g *Gate) resetV3(remote netip.AddrPort, b []byte, now time.Time) Decision {
	if g.rates.spent(remote.Addr(), now) {
		return drop(ReasonRate) // before any cryptography
	}
	u, reason := g.unwrap(b)
	switch {
	case reason != "":
		return drop(reason)
	case !isReset(&u.body):
		return drop(ReasonMalformed)
	case resends(u.stamp.ID):
		return g.answer(remote, u.h.Session, u.wrap, wire.ResendWKC, now)
	case g.cfg.ForceCookie:
		return drop(ReasonCookie)
	case !g.rates.allow(remote.Addr(), now):
		return drop(ReasonRate)
	}
	evicted, ok := g.open.enter(Client{remote, u.h.Session}, now)
	if !ok {
		return drop(ReasonNonCookie)
	}
	u.wrap.Seen(u.stamp, now)
	return Decision{Verdict: Accept, Accepted: u.accepted(fresh(), true), Evicted: evicted}
}

// firstWKC decides about the packet with which a tls-crypt-v2 client sends its
// key again.
func (g *Gate) firstWKC(remote netip.AddrPort, b []byte, now time.Time) Decision {
	u, reason := g.unwrap(b)
	switch {
	case reason != "":
		return drop(reason)
	case !g.returned(remote, u.h, &u.body, now):
		return drop(ReasonNoSession)
	}
	u.wrap.SetNextID(resetID + 1)
	acc := u.accepted(u.body.Remote, false)
	acc.NextSend, acc.First = 1, b
	return Decision{Verdict: Accept, Accepted: acc}
}
