// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"encoding/binary"
	"net/netip"
	"slices"
)

// The endpoints of the prog-run tests.
var (
	local4  = netip.MustParseAddrPort("192.0.2.2:1194")
	remote4 = netip.MustParseAddrPort("192.0.2.1:40000")
	local6  = netip.MustParseAddrPort("[2001:db8::2]:1194")
	remote6 = netip.MustParseAddrPort("[2001:db8::1]:40000")
)

const (
	testPeer4 = 7
	testPeer6 = 0xf202de // as a P2P peer may choose it
	testKey   = 3
)

// record is a DATA_V2 record of that header word and size in bytes.
func record(peer uint32, key uint8, size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(i)
	}
	var word [4]byte
	binary.BigEndian.PutUint32(word[:], 9<<27|uint32(key)<<24|peer)
	copy(b, word[:])
	return b
}

// frame4 is an Ethernet frame with IPv4 and UDP.
func frame4(src, dst netip.AddrPort, payload []byte) []byte {
	b := ethernet(0x0800)
	ip := make([]byte, 20)
	ip[0], ip[8], ip[9] = 0x45, 64, 17
	binary.BigEndian.PutUint16(ip[2:], uint16(28+len(payload)))
	binary.BigEndian.PutUint16(ip[6:], 0x4000) // DF
	copy(ip[12:], src.Addr().AsSlice())
	copy(ip[16:], dst.Addr().AsSlice())
	sealIPv4(ip)
	return append(append(b, ip...), udpDatagram(src, dst, payload)...)
}

// frame6 is an Ethernet frame with IPv6 and UDP.
func frame6(src, dst netip.AddrPort, payload []byte) []byte {
	b := ethernet(0x86dd)
	ip := make([]byte, 40)
	ip[0], ip[6], ip[7] = 0x60, 17, 64
	binary.BigEndian.PutUint16(ip[4:], uint16(8+len(payload)))
	copy(ip[8:], src.Addr().AsSlice())
	copy(ip[24:], dst.Addr().AsSlice())
	return append(append(b, ip...), udpDatagram(src, dst, payload)...)
}

func ethernet(proto uint16) []byte {
	b := []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1}
	return binary.BigEndian.AppendUint16(b, proto)
}

// udpDatagram leaves a checksum that is not 0 and not right, as a local sender
// with checksum offload does.
func udpDatagram(src, dst netip.AddrPort, payload []byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, src.Port())
	b = binary.BigEndian.AppendUint16(b, dst.Port())
	b = binary.BigEndian.AppendUint16(b, uint16(8+len(payload)))
	b = append(b, 0x1a, 0x38)
	return append(b, payload...)
}

// sealIPv4 sets the header checksum over all of ip.
func sealIPv4(ip []byte) {
	ip[10], ip[11] = 0, 0
	sum := uint32(0)
	for i := 0; i < len(ip); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum))
}

// tagged puts VLAN tags between the addresses and the type, outermost first.
func tagged(frame []byte, tags ...uint32) []byte {
	out := slices.Clone(frame[:12])
	for _, tag := range tags {
		out = binary.BigEndian.AppendUint32(out, tag)
	}
	return append(out, frame[12:]...)
}

// edit changes a copy of the frame; sealed recomputes the IPv4 checksum after.
func edit(frame []byte, change func([]byte)) []byte {
	out := slices.Clone(frame)
	change(out)
	return out
}

func sealed(frame []byte, change func(ip []byte)) []byte {
	return edit(frame, func(b []byte) {
		change(b[14:])
		sealIPv4(b[14:34])
	})
}

func put16(b []byte, v int) { binary.BigEndian.PutUint16(b, uint16(v)) }
