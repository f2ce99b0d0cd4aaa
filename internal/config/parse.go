// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// ParseListen reads a UDP endpoint: "192.0.2.2:1194", "[2001:db8::2]:1194",
// an address alone (port 1194), or ":1194", which is the wildcard of both
// families and so gives two endpoints.
func ParseListen(s string) ([]netip.AddrPort, error) {
	if port, ok := strings.CutPrefix(s, ":"); ok && !strings.Contains(port, ":") {
		n, err := parsePort(port)
		if err != nil {
			return nil, fmt.Errorf("listen %q: %w", s, err)
		}
		return []netip.AddrPort{
			netip.AddrPortFrom(netip.IPv4Unspecified(), n),
			netip.AddrPortFrom(netip.IPv6Unspecified(), n),
		}, nil
	}
	ap, err := ParseEndpoint(s)
	if err != nil {
		return nil, fmt.Errorf("listen %w", err)
	}
	return []netip.AddrPort{ap}, nil
}

// ParseEndpoint reads an address with or without a port; DefaultPort is the
// default. IPv4-mapped addresses become IPv4. Names are not resolved.
func ParseEndpoint(s string) (netip.AddrPort, error) {
	bare := s
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
		bare = s[1 : len(s)-1]
	}
	if addr, err := netip.ParseAddr(bare); err == nil {
		return netip.AddrPortFrom(addr.Unmap(), DefaultPort), nil
	}
	ap, err := netip.ParseAddrPort(s)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%q: not an address with a port, such as 192.0.2.1:1194 or [2001:db8::1]:1194", s)
	}
	if ap.Port() == 0 {
		return netip.AddrPort{}, fmt.Errorf("%q: port 0: ports are 1 to 65535", s)
	}
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port()), nil
}

func parsePort(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("port %q: ports are 1 to 65535", s)
	}
	return uint16(n), nil
}

// ParsePrefix reads an inner address with its prefix length and keeps the
// host bits ("10.9.0.1/24").
func ParsePrefix(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		if _, e := netip.ParseAddr(s); e == nil {
			return p, fmt.Errorf("%q: prefix length missing, such as %s/24", s, s)
		}
		return p, fmt.Errorf("%q: not an address with a prefix length, such as 10.9.0.1/24 or fd00:9::1/64", s)
	}
	return p, nil
}

// ParseRoute reads a prefix of inner addresses; an address alone stands for
// itself. Host bits are refused, since they are usually a slip.
func ParseRoute(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return p, fmt.Errorf("%q: not a prefix, such as 10.9.0.2/32 or fd00:9::/64", s)
	}
	if p.Addr().Is4In6() {
		return p, fmt.Errorf("%q: IPv4-mapped prefix; write it as IPv4", s)
	}
	if m := p.Masked(); m != p {
		return p, fmt.Errorf("%q: host bits are set; for the whole prefix write %s", s, m)
	}
	return p, nil
}

// maxQueue bounds a receive queue's number: no driver has more, and a typo
// such as 0-30000 would ask for a socket each.
const maxQueue = 1023

// ParseQueues reads a list of receive queues such as "0,2-3", in any order.
func ParseQueues(s string) ([]int, error) {
	var out []int
	for part := range strings.SplitSeq(s, ",") {
		lo, hi, isRange := strings.Cut(strings.TrimSpace(part), "-")
		first, err := strconv.Atoi(lo)
		last := first
		if err == nil && isRange {
			last, err = strconv.Atoi(hi)
		}
		if err != nil || first < 0 || last < first {
			return nil, fmt.Errorf("queues %q: %q is not a queue or a range, such as 0,2-3", s, part)
		}
		if last > maxQueue {
			return nil, fmt.Errorf("queues %q: queue %d: the highest is %d", s, last, maxQueue)
		}
		for q := first; q <= last; q++ {
			out = append(out, q)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// ParseMSSFix reads "auto", "off" or a size in bytes.
func ParseMSSFix(s string) (int, error) {
	switch s {
	case "auto":
		return MSSFixAuto, nil
	case "off":
		return MSSFixOff, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < minMSSFix || n > maxMSSFix {
		return 0, fmt.Errorf("mssfix %q: \"auto\", \"off\" or %d to %d bytes", s, minMSSFix, maxMSSFix)
	}
	return n, nil
}
