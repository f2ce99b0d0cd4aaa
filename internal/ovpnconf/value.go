// SPDX-License-Identifier: Apache-2.0

package ovpnconf

import (
	"fmt"
	"math/bits"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// maxSeconds bounds times, 68 years: what fits OpenVPN's int.
const maxSeconds = 1<<31 - 1

func parseInt(s string, lo, hi int64) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < lo || n > hi {
		return 0, fmt.Errorf("%q is not a number from %d to %d", printable(s), lo, hi)
	}
	return n, nil
}

func parseSeconds(s string, lo int64) (time.Duration, error) {
	n, err := parseInt(s, lo, maxSeconds)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number of seconds from %d on", printable(s), lo)
	}
	return time.Duration(n) * time.Second, nil
}

func parseIPv4(s string) (netip.Addr, error) {
	a, err := netip.ParseAddr(s)
	if err != nil || !a.Is4() {
		return netip.Addr{}, fmt.Errorf("%q is not an IPv4 address", printable(s))
	}
	return a, nil
}

func parseIPv6(s string) (netip.Addr, error) {
	a, err := netip.ParseAddr(s)
	if err != nil || !a.Is6() || a.Is4In6() || a.Zone() != "" {
		return netip.Addr{}, fmt.Errorf("%q is not an IPv6 address", printable(s))
	}
	return a, nil
}

// parseNetmask returns the length of the prefix that a mask stands for; ok is
// false for an address that is no mask.
func parseNetmask(s string) (length int, ok bool) {
	a, err := parseIPv4(s)
	if err != nil {
		return 0, false
	}
	m := uint32FromAddr(a)
	length = bits.LeadingZeros32(^m)
	return length, m == ^uint32(0)<<(32-length)
}

// parsePrefix6 reads an IPv6 address with its prefix length, host bits kept.
func parsePrefix6(s string, lo, hi int) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil || !p.Addr().Is6() || p.Addr().Is4In6() {
		return netip.Prefix{}, fmt.Errorf("%q is not an IPv6 address with a prefix length, such as fd00:8::/64", printable(s))
	}
	if p.Bits() < lo || p.Bits() > hi {
		return netip.Prefix{}, fmt.Errorf("a prefix length of %d is not from %d to %d", p.Bits(), lo, hi)
	}
	return p, nil
}

func uint32FromAddr(a netip.Addr) uint32 {
	b := a.As4()
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}

func addrFromUint32(n uint32) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
}

// lastOf returns the highest address of an IPv4 prefix.
func lastOf(p netip.Prefix) netip.Addr {
	return addrFromUint32(uint32FromAddr(p.Masked().Addr()) | ^uint32(0)>>p.Bits())
}

// addTo returns the IPv6 address that is n after a.
func addTo(a netip.Addr, n uint64) netip.Addr {
	b := a.As16()
	for i := 15; i >= 0 && n > 0; i-- {
		n += uint64(b[i])
		b[i] = byte(n)
		n >>= 8
	}
	return netip.AddrFrom16(b)
}

// netmask writes a prefix length as a mask.
func netmask(length int) string {
	return addrFromUint32(^uint32(0) << (32 - length)).String()
}

func splitList(s string) (out []string) {
	for part := range strings.SplitSeq(s, ":") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}
