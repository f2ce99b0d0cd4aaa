// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// distance is how far b is from a, of the same family and not below it; at most MaxSize.
func distance(a, b netip.Addr) int {
	high, low := halves(a)
	high2, low2 := halves(b)
	if low2 < low {
		high2-- // the carry; a is not above b
	}
	if d := low2 - low; high == high2 && d < MaxSize {
		return int(d)
	}
	return MaxSize
}

// halves are an address as a number of 128 bits.
func halves(a netip.Addr) (high, low uint64) {
	b := a.As16()
	return binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
}

// size6 is how many addresses the IPv6 range has; at most MaxSize.
func size6(cfg Config) (int, error) {
	if !cfg.Base.Is6() || cfg.Base.Is4In6() {
		return 0, fmt.Errorf("make address pool: %s is no IPv6 address", cfg.Base)
	}
	if !cfg.Prefix6.IsValid() {
		return MaxSize, nil
	}
	if !cfg.Prefix6.Contains(cfg.Base) {
		return 0, fmt.Errorf("make address pool: %s is not in %s", cfg.Base, cfg.Prefix6)
	}
	last := cfg.Prefix6.Addr().As16()
	for bit := cfg.Prefix6.Bits(); bit < 128; bit++ {
		last[bit/8] |= 0x80 >> (bit % 8)
	}
	return min(distance(cfg.Base, netip.AddrFrom16(last))+1, MaxSize), nil
}

// index returns the place of an address.
func (p *Pool) index(addr netip.Addr) (at int, ok bool) {
	first := p.cfg.First
	if !addr.Is4() {
		first = p.cfg.Base
	}
	if !first.IsValid() || !addr.IsValid() || addr.Less(first) {
		return 0, false
	}
	at = distance(first, addr)
	return at, at < p.size
}

// addresses returns those of a place.
func (p *Pool) addresses(at int) (a Addresses) {
	if p.cfg.First.IsValid() {
		a.V4 = plus(p.cfg.First, at)
	}
	if p.cfg.Base.IsValid() {
		a.V6 = plus(p.cfg.Base, at)
	}
	return a
}

// plus is the address n after another.
func plus(a netip.Addr, n int) netip.Addr {
	high, low := halves(a)
	if low += uint64(n); low < uint64(n) {
		high++
	}
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], high)
	binary.BigEndian.PutUint64(b[8:], low)
	if a.Is4() {
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return netip.AddrFrom16(b)
}
