// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"encoding/binary"
	"net/netip"
)

// IP is what an IP packet's headers say about it. It holds no reference to the
// packet.
type IP struct {
	Version   uint8 // 4 or 6
	Protocol  uint8 // transport protocol: IPv4 protocol, or the next header behind the last IPv6 extension header
	HeaderLen int   // bytes in front of the transport header, options and extension headers included
	TotalLen  int   // bytes of the whole packet by its IP header; never more than the bytes given
	Options   bool  // IPv4 options or IPv6 extension headers are there
	Fragment  bool  // part of a larger packet: more fragments flag or an offset
	Offset    int   // fragment offset in bytes; if not 0, there is no transport header in this packet
	DF        bool  // IPv4 "don't fragment"; false for IPv6
}

// ParseIP reads the headers of an IPv4 or IPv6 packet. ok is false if a header
// is truncated or malformed or if the packet is longer than pkt; bytes in pkt
// behind the packet's own length are allowed. An IPv6 jumbogram is refused.
// Whether the transport header is whole is left to the caller: HeaderLen may be
// equal to TotalLen.
func ParseIP(pkt []byte) (ip IP, ok bool) {
	if len(pkt) == 0 {
		return IP{}, false
	}
	switch pkt[0] >> 4 {
	case 4:
		return parseIPv4(pkt)
	case 6:
		return parseIPv6(pkt)
	}
	return IP{}, false
}

func parseIPv4(pkt []byte) (ip IP, ok bool) {
	if len(pkt) < IPv4Len {
		return IP{}, false
	}
	header := int(pkt[0]&0xf) * 4
	total := int(binary.BigEndian.Uint16(pkt[2:]))
	if header < IPv4Len || total < header || total > len(pkt) {
		return IP{}, false
	}
	fragment := binary.BigEndian.Uint16(pkt[6:])
	return IP{
		Version:   4,
		Protocol:  pkt[9],
		HeaderLen: header,
		TotalLen:  total,
		Options:   header > IPv4Len,
		Fragment:  fragment&(ipv4MF|ipv4OffsetMask) != 0,
		Offset:    int(fragment&ipv4OffsetMask) * 8,
		DF:        fragment&ipv4DF != 0,
	}, true
}

func parseIPv6(pkt []byte) (ip IP, ok bool) {
	if len(pkt) < IPv6Len {
		return IP{}, false
	}
	total := IPv6Len + int(binary.BigEndian.Uint16(pkt[4:]))
	if total > len(pkt) {
		return IP{}, false
	}
	ip = IP{Version: 6, Protocol: pkt[6], HeaderLen: IPv6Len, TotalLen: total}
	// A jumbogram says 0 here and has its length in a hop-by-hop option.
	if total == IPv6Len && ip.Protocol == ProtoHopByHop {
		return IP{}, false
	}
	for {
		length := 0
		switch ip.Protocol {
		case ProtoHopByHop, ProtoRouting, ProtoDestOpts:
			if ip.HeaderLen+8 > total {
				return IP{}, false
			}
			length = 8 + 8*int(pkt[ip.HeaderLen+1])
		case ProtoAH:
			if ip.HeaderLen+8 > total {
				return IP{}, false
			}
			length = 8 + 4*int(pkt[ip.HeaderLen+1])
		case ProtoFragment:
			if ip.HeaderLen+8 > total {
				return IP{}, false
			}
			length = 8
			field := binary.BigEndian.Uint16(pkt[ip.HeaderLen+2:])
			// An atomic fragment (RFC 6946) is a whole packet.
			ip.Fragment = ip.Fragment || field&^0x6 != 0
			ip.Offset = max(ip.Offset, int(field&^0x7))
		default:
			return ip, true
		}
		if ip.HeaderLen+length > total {
			return IP{}, false
		}
		ip.Options = true
		ip.Protocol = pkt[ip.HeaderLen]
		ip.HeaderLen += length
		if ip.Offset != 0 {
			return ip, true // what follows is from the middle of something
		}
	}
}

// Source returns the source address of an IPv4 or IPv6 packet; ok is false if
// the fixed header is not whole or of another version. An IPv4-mapped IPv6
// address is returned as such, not as IPv4.
func Source(pkt []byte) (a netip.Addr, ok bool) {
	if len(pkt) >= IPv4Len && pkt[0]>>4 == 4 {
		return netip.AddrFrom4([4]byte(pkt[12:16])), true
	}
	if len(pkt) >= IPv6Len && pkt[0]>>4 == 6 {
		return netip.AddrFrom16([16]byte(pkt[8:24])), true
	}
	return netip.Addr{}, false
}

// Destination returns the destination address of an IPv4 or IPv6 packet, on the
// terms of Source.
func Destination(pkt []byte) (a netip.Addr, ok bool) {
	if len(pkt) >= IPv4Len && pkt[0]>>4 == 4 {
		return netip.AddrFrom4([4]byte(pkt[16:20])), true
	}
	if len(pkt) >= IPv6Len && pkt[0]>>4 == 6 {
		return netip.AddrFrom16([16]byte(pkt[24:40])), true
	}
	return netip.Addr{}, false
}
