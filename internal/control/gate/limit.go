// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"net/netip"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wire"
)

const (
	// maxPrefixes bounds the prefixes whose resets are counted: 65,536 at about
	// 100 bytes are 6 MB. When there are more, one of them, any, is
	// forgotten and may begin anew, so that nobody is locked out.
	maxPrefixes = 65536
	// nonCookiePerPrefix and nonCookieMax bound half-open sessions of
	// tls-crypt-v2 clients that cannot do without state: one recorded reset can
	// be sent again from any number of forged addresses.
	nonCookiePerPrefix = 32
	nonCookieMax       = 4096
)

// Prefix is what limits are counted by: an IPv4 address, or the /64 of an IPv6
// address, which is what one customer has at least.
func Prefix(a netip.Addr) netip.Prefix {
	bits := 64
	if a = a.Unmap().WithZone(""); a.Is4() {
		bits = 32
	}
	p, _ := a.Prefix(bits)
	return p
}

// rates are token buckets by prefix.
type rates struct {
	rate    Rate
	buckets map[netip.Prefix]bucket
}

type bucket struct {
	tokens float64
	at     time.Time
}

func newRates(r Rate) rates { return rates{rate: r, buckets: map[netip.Prefix]bucket{}} }

// allow takes one from a prefix's budget.
func (r *rates) allow(a netip.Addr, now time.Time) bool {
	if r.rate.Count <= 0 || r.rate.Per <= 0 {
		return true
	}
	p := Prefix(a)
	b, known := r.buckets[p]
	if known {
		b = r.filled(b, now)
	} else {
		if len(r.buckets) >= maxPrefixes {
			for any := range r.buckets {
				delete(r.buckets, any)
				break
			}
		}
		b = bucket{float64(r.rate.Count), now}
	}
	ok := b.tokens >= 1
	if ok {
		b.tokens--
	}
	r.buckets[p] = b
	return ok
}

func (r *rates) filled(b bucket, now time.Time) bucket {
	grown := b.tokens + now.Sub(b.at).Seconds()*float64(r.rate.Count)/r.rate.Per.Seconds()
	return bucket{max(0, min(grown, float64(r.rate.Count))), now}
}

// tidy forgets prefixes whose budget is whole again.
func (r *rates) tidy(now time.Time) {
	for p, b := range r.buckets {
		if r.filled(b, now).tokens >= float64(r.rate.Count) {
			delete(r.buckets, p)
		}
	}
}

// halfOpen counts sessions begun by a bare reset.
type halfOpen struct {
	sessions map[session]struct{}
	prefixes map[netip.Prefix]int
}

type session struct {
	remote netip.AddrPort
	client wire.SessionID
}

func newHalfOpen() halfOpen {
	return halfOpen{map[session]struct{}{}, map[netip.Prefix]int{}}
}

func (h *halfOpen) enter(remote netip.AddrPort, client wire.SessionID) bool {
	p := Prefix(remote.Addr())
	if len(h.sessions) >= nonCookieMax || h.prefixes[p] >= nonCookiePerPrefix {
		return false
	}
	h.sessions[session{remote, client}] = struct{}{}
	h.prefixes[p]++
	return true
}

func (h *halfOpen) leave(remote netip.AddrPort, client wire.SessionID) {
	s := session{remote, client}
	if _, ok := h.sessions[s]; !ok {
		return
	}
	delete(h.sessions, s)
	p := Prefix(remote.Addr())
	if h.prefixes[p]--; h.prefixes[p] <= 0 {
		delete(h.prefixes, p)
	}
}
