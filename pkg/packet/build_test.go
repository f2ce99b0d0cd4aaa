// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"encoding/binary"
	"net/netip"
)

var (
	addr4A = netip.MustParseAddr("192.0.2.1")
	addr4B = netip.MustParseAddr("198.51.100.2")
	addr6A = netip.MustParseAddr("2001:db8::1")
	addr6B = netip.MustParseAddr("2001:db8:1::2")
)

// ipPacket builds an IP packet around a transport header and payload, by the
// slow sum. options are IPv4 options, or IPv6 extension headers whose first is of
// type first and whose last already names proto.
func ipPacket(src, dst netip.Addr, proto uint8, first uint8, options, l4 []byte) []byte {
	if src.Is4() {
		p := make([]byte, 20, 20+len(options)+len(l4))
		p[0] = byte(0x40 | (20+len(options))/4)
		binary.BigEndian.PutUint16(p[2:], uint16(20+len(options)+len(l4)))
		binary.BigEndian.PutUint16(p[4:], 0x1234)
		binary.BigEndian.PutUint16(p[6:], 0x4000)
		p[8], p[9] = 63, proto
		copy(p[12:], src.AsSlice())
		copy(p[16:], dst.AsSlice())
		p = append(p, options...)
		binary.BigEndian.PutUint16(p[10:], ^naiveSum(p, 0))
		return append(p, l4...)
	}
	p := make([]byte, 40, 40+len(options)+len(l4))
	p[0] = 0x60
	binary.BigEndian.PutUint16(p[4:], uint16(len(options)+len(l4)))
	p[6], p[7] = proto, 63
	if len(options) > 0 {
		p[6] = first
	}
	copy(p[8:], src.AsSlice())
	copy(p[24:], dst.AsSlice())
	return append(append(p, options...), l4...)
}

// pseudo is the pseudo header in bytes.
func pseudo(src, dst netip.Addr, proto uint8, length int) []byte {
	b := append(src.AsSlice(), dst.AsSlice()...)
	b = binary.BigEndian.AppendUint32(b, uint32(length))
	return binary.BigEndian.AppendUint32(b, uint32(proto))
}

// transportValid tells by the slow sum whether the transport checksum is right.
func transportValid(src, dst netip.Addr, proto uint8, l4 []byte) bool {
	return naiveSum(append(pseudo(src, dst, proto, len(l4)), l4...), 0) == 0xffff
}

// tcpSegment builds a TCP header with options (padded by the caller to four
// bytes) and payload, checksum included.
func tcpSegment(src, dst netip.Addr, flags uint8, options, payload []byte) []byte {
	h := make([]byte, 20)
	binary.BigEndian.PutUint16(h[0:], 443)
	binary.BigEndian.PutUint16(h[2:], 50000)
	binary.BigEndian.PutUint32(h[4:], 0x01020304)
	h[12], h[13] = byte((20+len(options))/4)<<4, flags
	binary.BigEndian.PutUint16(h[14:], 0xfaf0)
	h = append(append(h, options...), payload...)
	binary.BigEndian.PutUint16(h[16:], ^naiveSum(append(pseudo(src, dst, ProtoTCP, len(h)), h...), 0))
	return h
}

// udpDatagram builds a UDP header and payload, checksum included.
func udpDatagram(src, dst netip.Addr, sport, dport uint16, payload []byte) []byte {
	h := binary.BigEndian.AppendUint16(nil, sport)
	h = binary.BigEndian.AppendUint16(h, dport)
	h = binary.BigEndian.AppendUint16(h, uint16(8+len(payload)))
	h = append(append(h, 0, 0), payload...)
	binary.BigEndian.PutUint16(h[6:], ^naiveSum(append(pseudo(src, dst, ProtoUDP, len(h)), h...), 0))
	return h
}

// ether puts an Ethernet header with the given VLAN tags (EtherTypes) in front.
func ether(ipPacket []byte, tags ...uint16) []byte {
	f := []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2}
	for _, t := range tags {
		f = binary.BigEndian.AppendUint16(f, t)
		f = append(f, 0x20, 0x64)
	}
	if ipPacket[0]>>4 == 4 {
		f = append(f, 0x08, 0x00)
	} else {
		f = append(f, 0x86, 0xdd)
	}
	return append(f, ipPacket...)
}
