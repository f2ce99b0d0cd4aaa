// SPDX-License-Identifier: Apache-2.0

package vnet

import (
	"encoding/binary"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/packet"
)

// saved is what a super-packet changes in the header of its first packet.
type saved struct {
	ipLen  uint16 // IPv4 total length or IPv6 payload length
	ipCsum uint16 // IPv4 only
	udpLen uint16 // UDP only
	csum   uint16
	flags  uint8 // TCP only
}

// plain is the header of a packet that asks for nothing.
var plain [HeaderLen]byte

// Units returns the number of writes that the packets take, each a packet or a
// super-packet. They are to be written in the order of their index.
func (g *GRO) Units() int { return int(g.made) }

// Unit returns what to write for unit i (0 to Units()-1): the virtio-net header
// first, then pieces of the packets, in pieces' memory if it has the room (2 +
// MaxPackets at most, so 66), and the number of packets in it. For a super-packet
// the header of its first packet is changed in place to that of the super-packet;
// asking again gives the same. pieces must not be changed but may be reused; they
// are good until Reset or a call of Singles for that unit. No more packets should
// be added once a unit was asked for.
func (g *GRO) Unit(i int, pieces [][]byte) (out [][]byte, packets int) {
	u := &g.units[:g.made][i]
	head := g.packets[u.first]
	if u.count == 1 {
		return append(pieces[:0], plain[:], head), 1
	}
	u.open = false
	if !u.fixed {
		u.fix(head)
	}
	out = append(pieces[:0], u.vnet[:], head)
	for at := u.first; at != u.last; {
		at = g.next[at]
		out = append(out, g.packets[at][u.header:])
	}
	return out, int(u.count)
}

// Singles calls visit for every packet of unit i by itself, in order and with its
// original bytes: for a kernel that refused the super-packet. It is given the
// virtio-net header and the packet, in pieces' memory if that has room for two,
// good until visit returns.
func (g *GRO) Singles(i int, pieces [][]byte, visit func(pieces [][]byte)) {
	u := &g.units[:g.made][i]
	if u.fixed {
		u.restore(g.packets[u.first])
	}
	for at := u.first; ; at = g.next[at] {
		visit(append(pieces[:0], plain[:], g.packets[at]))
		if at == u.last {
			return
		}
	}
}

// fix turns the header of the first packet into that of the super-packet, with a
// partial checksum, and writes the virtio-net header.
func (u *unit) fix(head []byte) {
	l3, l4 := head[:u.l3], head[u.l3:u.header]
	length := uint16(u.total - int32(u.l3)) // transport header and payload
	h := Header{
		Flags:      NeedsCsum,
		HdrLen:     uint16(u.header),
		GSOSize:    uint16(u.size),
		CsumStart:  uint16(u.l3),
		CsumOffset: tcpCsumOffset,
	}
	proto := uint8(packet.ProtoTCP)
	if u.udp {
		proto, h.GSOType, h.CsumOffset = packet.ProtoUDP, GSOUDPL4, udpCsumOffset
	}
	var pseudo uint64
	if u.l3 == packet.IPv4Len {
		if !u.udp {
			h.GSOType = GSOTCPv4
		}
		u.saved.ipLen = exchange(l3[2:], uint16(u.total))
		u.saved.ipCsum = exchange(l3[10:], 0)
		binary.BigEndian.PutUint16(l3[10:], ^packet.Fold(packet.Checksum(l3, 0)))
		pseudo = packet.PseudoSum(l3[12:16], l3[16:20], proto, int(length))
	} else {
		if !u.udp {
			h.GSOType = GSOTCPv6
		}
		u.saved.ipLen = exchange(l3[4:], length)
		pseudo = packet.PseudoSum(l3[8:24], l3[24:40], proto, int(length))
	}
	u.saved.csum = exchange(l4[h.CsumOffset:], packet.Fold(pseudo))
	if u.udp {
		u.saved.udpLen = exchange(l4[4:], length)
	} else {
		u.saved.flags = l4[13]
		l4[13] |= u.endFlags
	}
	h.Put(u.vnet[:])
	u.fixed = true
}

// restore undoes fix.
func (u *unit) restore(head []byte) {
	l3, l4 := head[:u.l3], head[u.l3:u.header]
	if u.l3 == packet.IPv4Len {
		binary.BigEndian.PutUint16(l3[2:], u.saved.ipLen)
		binary.BigEndian.PutUint16(l3[10:], u.saved.ipCsum)
	} else {
		binary.BigEndian.PutUint16(l3[4:], u.saved.ipLen)
	}
	if u.udp {
		binary.BigEndian.PutUint16(l4[4:], u.saved.udpLen)
		binary.BigEndian.PutUint16(l4[udpCsumOffset:], u.saved.csum)
	} else {
		l4[13] = u.saved.flags
		binary.BigEndian.PutUint16(l4[tcpCsumOffset:], u.saved.csum)
	}
	u.fixed = false
}

// exchange writes v to b and returns what was there.
func exchange(b []byte, v uint16) uint16 {
	old := binary.BigEndian.Uint16(b)
	binary.BigEndian.PutUint16(b, v)
	return old
}
