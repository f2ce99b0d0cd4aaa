// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"encoding/binary"
	"net/netip"
)

// Flow is the outer flow of a datagram: what must be equal for two records to
// stand in one batch. It is comparable and holds no reference to the frame.
type Flow struct {
	Src, Dst netip.AddrPort // IPv4 addresses are never in IPv4-mapped IPv6 form; no zone
	TOS      uint8          // IPv4 TOS or IPv6 traffic class, ECN bits included
	TTL      uint8          // IPv4 TTL or IPv6 hop limit
	DF       bool           // IPv4 "don't fragment"; false for IPv6, which has no such bit
}

// ParseFrame reads an Ethernet II frame with at most one VLAN tag that holds a
// whole UDP datagram: IPv4 without options, or IPv6 without extension headers,
// not fragmented. ok is false for anything else: a truncated header, a length
// that goes past the frame, a UDP length that differs from the IP payload's, and
// an IPv6 packet with an IPv4-mapped address, which may not appear on a wire.
//
// payload is the UDP payload, without Ethernet padding; it may be empty. It is a
// part of frame, and its capacity reaches to the end of frame's capacity.
//
// Checksums are not looked at: the classifier has verified that of the IPv4
// header, and a record's tag covers more than the UDP checksum would.
func ParseFrame(frame []byte) (f Flow, payload []byte, ok bool) {
	if len(frame) < EthernetLen {
		return Flow{}, nil, false
	}
	etherType := binary.BigEndian.Uint16(frame[12:])
	l3 := frame[EthernetLen:]
	if etherType == etherVLAN || etherType == etherQinQ {
		if len(l3) < VLANTagLen {
			return Flow{}, nil, false
		}
		etherType = binary.BigEndian.Uint16(l3[2:])
		l3 = l3[VLANTagLen:]
	}
	switch etherType {
	case etherIPv4:
		return parseOuter4(l3)
	case etherIPv6:
		return parseOuter6(l3)
	}
	return Flow{}, nil, false
}

func parseOuter4(p []byte) (f Flow, payload []byte, ok bool) {
	if len(p) < IPv4Len+UDPLen {
		return Flow{}, nil, false
	}
	total := int(binary.BigEndian.Uint16(p[2:]))
	fragment := binary.BigEndian.Uint16(p[6:])
	length := int(binary.BigEndian.Uint16(p[IPv4Len+4:]))
	if p[0] != 0x45 || p[9] != ProtoUDP || fragment&(ipv4MF|ipv4OffsetMask) != 0 ||
		total > len(p) || length < UDPLen || length != total-IPv4Len {
		return Flow{}, nil, false
	}
	f = Flow{
		Src: netip.AddrPortFrom(netip.AddrFrom4([4]byte(p[12:16])), binary.BigEndian.Uint16(p[IPv4Len:])),
		Dst: netip.AddrPortFrom(netip.AddrFrom4([4]byte(p[16:20])), binary.BigEndian.Uint16(p[IPv4Len+2:])),
		TOS: p[1],
		TTL: p[8],
		DF:  fragment&ipv4DF != 0,
	}
	return f, p[IPv4Len+UDPLen : total], true
}

func parseOuter6(p []byte) (f Flow, payload []byte, ok bool) {
	if len(p) < IPv6Len+UDPLen {
		return Flow{}, nil, false
	}
	length := int(binary.BigEndian.Uint16(p[4:]))
	if p[0]>>4 != 6 || p[6] != ProtoUDP || length < UDPLen || IPv6Len+length > len(p) ||
		length != int(binary.BigEndian.Uint16(p[IPv6Len+4:])) {
		return Flow{}, nil, false
	}
	src, dst := netip.AddrFrom16([16]byte(p[8:24])), netip.AddrFrom16([16]byte(p[24:40]))
	if src.Is4In6() || dst.Is4In6() {
		return Flow{}, nil, false
	}
	f = Flow{
		Src: netip.AddrPortFrom(src, binary.BigEndian.Uint16(p[IPv6Len:])),
		Dst: netip.AddrPortFrom(dst, binary.BigEndian.Uint16(p[IPv6Len+2:])),
		TOS: p[0]<<4 | p[1]>>4,
		TTL: p[7],
	}
	return f, p[IPv6Len+UDPLen : IPv6Len+length], true
}
