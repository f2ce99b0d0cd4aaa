// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"encoding/binary"
	"net/netip"
)

// MaxICMP is the most bytes that Unreachable writes: the IPv6 minimum MTU, which
// an ICMPv6 error may fill (RFC 4443, section 2.4 c).
const MaxICMP = 1280

const (
	icmpLen = 8 // header of an ICMP or ICMPv6 error
	// maxICMPv4 is the length an ICMPv4 error may have (RFC 1812, section 4.3.2.3).
	maxICMPv4 = 576
	// icmpTTL is the recommended default TTL (IANA "IP Option Numbers").
	icmpTTL = 64
	// icmpTOS is precedence 6, internetwork control (RFC 1812, section 4.3.2.5).
	icmpTOS = 0xc0
)

// ICMP types and codes (IANA "ICMP Parameters" and "ICMPv6 Parameters").
const (
	icmpEchoReply      = 0
	icmpUnreachable    = 3
	icmpEcho           = 8
	icmpTimestamp      = 13
	icmpTimestampReply = 14
	codeNetUnreachable = 0

	icmpv6Unreachable   = 1
	icmpv6Informational = 128 // the lowest type that is not an error
	icmpv6Redirect      = 137
	codeNoRoute         = 0
)

// Unreachable writes to dst the ICMP answer of a router that has no route for
// pkt: destination unreachable, network unreachable (ICMPv4 type 3 code 0) or no
// route to destination (ICMPv6 type 1 code 0), from the address from to the
// source of pkt, quoting as much of pkt as such an answer may. It returns the
// length of the answer, a whole IP packet with all checksums complete.
//
// It returns 0, and leaves dst as it was, when no answer may be sent (RFC 1812
// section 4.3.2.7, RFC 4443 section 2.4 e): pkt is malformed, an ICMP error or
// redirect, a fragment other than the first, to or from a multicast or broadcast
// address, or from an address that names no single host; or when from is not of
// pkt's family. The caller limits the rate.
//
// dst should have MaxICMP bytes; a shorter one shortens the quote, and if not even
// the quoted IP header and eight bytes fit, the answer is 0. dst and pkt may not
// overlap. pkt is only read; a partial checksum in it is quoted as it is.
func Unreachable(dst, pkt []byte, from netip.Addr) int {
	ip, ok := answerable(pkt, from)
	if !ok {
		return 0
	}
	if ip.Version == 4 {
		return icmpError(dst, pkt, ip, from, icmpUnreachable, codeNetUnreachable)
	}
	return icmpError(dst, pkt, ip, from, icmpv6Unreachable, codeNoRoute)
}

// answerable tells whether an ICMP error about pkt may be sent from the address from.
func answerable(pkt []byte, from netip.Addr) (ip IP, ok bool) {
	ip, ok = ParseIP(pkt)
	if !ok || ip.Offset != 0 {
		return IP{}, false
	}
	l4 := pkt[ip.HeaderLen:ip.TotalLen]
	if ip.Version == 4 {
		src, dst := pkt[12:16], pkt[16:20]
		if !from.Is4() || src[0] == 0 || src[0] == 127 || src[0] >= 224 || // 224/4 multicast, 240/4 reserved and broadcast
			dst[0]&0xf0 == 224 || binary.BigEndian.Uint32(dst) == 0xffffffff {
			return IP{}, false
		}
		if ip.Protocol == ProtoICMP {
			if len(l4) == 0 {
				return IP{}, false
			}
			switch l4[0] {
			case icmpEchoReply, icmpEcho, icmpTimestamp, icmpTimestampReply:
			default: // errors, redirects and types that might be errors
				return IP{}, false
			}
		}
		return ip, true
	}
	src, dst := netip.AddrFrom16([16]byte(pkt[8:24])), pkt[24:40]
	if !from.Is6() || from.Is4In6() || src.IsUnspecified() || src.IsLoopback() || src.IsMulticast() ||
		dst[0] == 0xff {
		return IP{}, false
	}
	if ip.Protocol == ProtoICMPv6 {
		if len(l4) == 0 || l4[0] < icmpv6Informational || l4[0] == icmpv6Redirect {
			return IP{}, false
		}
	}
	return ip, true
}

// icmpError writes IP header, ICMP header, whose second word is unused, and quote.
func icmpError(dst, pkt []byte, ip IP, from netip.Addr, kind, code uint8) int {
	header, limit := IPv4Len, maxICMPv4
	if ip.Version == 6 {
		header, limit = IPv6Len, MaxICMP
	}
	room := min(limit, len(dst)) - header - icmpLen
	quote := min(room, ip.TotalLen)
	if quote < min(ip.TotalLen, ip.HeaderLen+8) {
		return 0
	}
	total := header + icmpLen + quote
	dst = dst[:total]
	icmp := dst[header:]
	icmp[0], icmp[1], icmp[2], icmp[3] = kind, code, 0, 0
	clear(icmp[4:icmpLen])
	copy(icmp[icmpLen:], pkt[:quote])
	sum := Checksum(icmp, 0)

	clear(dst[:header])
	if ip.Version == 4 {
		dst[0], dst[1] = 0x45, icmpTOS
		binary.BigEndian.PutUint16(dst[2:], uint16(total))
		// Never fragmented, so the id may be 0 (RFC 6864, section 4.1).
		binary.BigEndian.PutUint16(dst[6:], ipv4DF)
		dst[8], dst[9] = icmpTTL, ProtoICMP
		a := from.As4()
		copy(dst[12:16], a[:])
		copy(dst[16:20], pkt[12:16])
		binary.BigEndian.PutUint16(dst[10:], ^Fold(Checksum(dst[:IPv4Len], 0)))
	} else {
		dst[0] = 0x60
		binary.BigEndian.PutUint16(dst[4:], uint16(icmpLen+quote))
		dst[6], dst[7] = ProtoICMPv6, icmpTTL
		a := from.As16()
		copy(dst[8:24], a[:])
		copy(dst[24:40], pkt[8:24])
		sum += PseudoSum(dst[8:24], dst[24:40], ProtoICMPv6, icmpLen+quote)
	}
	binary.BigEndian.PutUint16(icmp[2:], ^Fold(sum))
	return total
}
