// SPDX-License-Identifier: Apache-2.0

package vnet

import (
	"encoding/binary"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/packet"
)

// Ports of UDP tunnels (IANA, and Linux's own default for VXLAN). The kernel
// hands packets for them to the tunnel's receiver, which wants each by itself.
const (
	portVXLAN      = 4789
	portVXLANGPE   = 4790
	portVXLANLinux = 8472
	portGeneve     = 6081
)

// segment is what GRO wants to know about one packet.
type segment struct {
	flow      bool  // a whole TCP or UDP packet without IP options and extension headers
	mergeable bool  // nothing in the packet itself forbids merging
	v4, udp   bool  // else IPv6, TCP
	df        bool  // IPv4 "don't fragment"
	l3        uint8 // bytes of the IP header: 20 or 40
	header    uint8 // bytes of IP and transport header
	endFlags  uint8 // PSH and FIN
	id        uint16
	hash      uint32 // of the flow; never 0
	seq       uint32
	payload   int32
}

// parse fills s and returns pkt cut to the length in its IP header, or as it is
// if that does not fit.
func (s *segment) parse(pkt []byte) []byte {
	if len(pkt) >= packet.IPv4Len && pkt[0]>>4 == 4 {
		return s.parse4(pkt)
	}
	if len(pkt) >= packet.IPv6Len && pkt[0]>>4 == 6 {
		return s.parse6(pkt)
	}
	return pkt
}

func (s *segment) parse4(pkt []byte) []byte {
	total := int(binary.BigEndian.Uint16(pkt[2:]))
	if total < packet.IPv4Len || total > len(pkt) {
		return pkt
	}
	fragment := binary.BigEndian.Uint16(pkt[6:])
	id, header := binary.BigEndian.Uint16(pkt[4:]), pkt[0]
	addresses := binary.BigEndian.Uint64(pkt[12:])
	proto := pkt[9]
	pkt = pkt[:total]
	if header != 0x45 || fragment&0x3fff != 0 {
		return pkt
	}
	s.v4, s.l3, s.id, s.df = true, packet.IPv4Len, id, fragment&0x4000 != 0
	s.parseTransport(pkt, packet.IPv4Len, proto, addresses)
	return pkt
}

func (s *segment) parse6(pkt []byte) []byte {
	total := packet.IPv6Len + int(binary.BigEndian.Uint16(pkt[4:]))
	if total > len(pkt) {
		return pkt
	}
	a := pkt[8:40:40]
	addresses := mix(binary.BigEndian.Uint64(a), binary.BigEndian.Uint64(a[8:])) ^
		mix(binary.BigEndian.Uint64(a[16:])+1, binary.BigEndian.Uint64(a[24:]))
	proto := pkt[6]
	pkt = pkt[:total]
	s.l3 = packet.IPv6Len
	s.parseTransport(pkt, packet.IPv6Len, proto, addresses)
	return pkt
}

// parseTransport reads the header at offset l3; addresses is a digest of the two.
func (s *segment) parseTransport(pkt []byte, l3 int, proto uint8, addresses uint64) {
	l4 := pkt[l3:]
	switch proto {
	case packet.ProtoTCP:
		if len(l4) < packet.TCPLen {
			return
		}
		header := int(l4[12]>>4) * 4
		if header < packet.TCPLen || header > len(l4) {
			return
		}
		flags := l4[13]
		s.header = uint8(l3 + header)
		s.payload = int32(len(l4) - header)
		s.seq = binary.BigEndian.Uint32(l4[4:])
		s.endFlags = flags & (packet.TCPPsh | packet.TCPFin)
		s.mergeable = s.payload > 0 &&
			flags&(packet.TCPSyn|packet.TCPRst|packet.TCPUrg|packet.TCPCwr) == 0
	case packet.ProtoUDP:
		if len(l4) < packet.UDPLen || int(binary.BigEndian.Uint16(l4[4:])) != len(l4) {
			return
		}
		s.udp = true
		s.header = uint8(l3 + packet.UDPLen)
		s.payload = int32(len(l4) - packet.UDPLen)
		s.mergeable = s.payload > 0 && l4[6]|l4[7] != 0 && !tunnelPort(binary.BigEndian.Uint16(l4[2:]))
	default:
		return
	}
	s.flow = true
	h := mix(addresses, uint64(binary.BigEndian.Uint32(l4))<<8|uint64(proto))
	s.hash = uint32(h>>32) | 1
}

func tunnelPort(port uint16) bool {
	return port == portVXLAN || port == portVXLANGPE || port == portVXLANLinux || port == portGeneve
}

// mix digests two words. Its quality decides only how many flows are merged at
// once: flows with one digest are still told apart.
func mix(a, b uint64) uint64 {
	h := (a ^ b*0x9e3779b97f4a7c15) * 0xff51afd7ed558ccd
	return h ^ h>>29
}

// sameFlow compares addresses, protocol and ports of a packet a that is in a unit
// with those of b, which s describes.
func sameFlow(a, b []byte, s *segment) bool {
	if s.v4 {
		return a[0]>>4 == 4 && a[9] == b[9] &&
			binary.BigEndian.Uint64(a[12:]) == binary.BigEndian.Uint64(b[12:]) &&
			binary.BigEndian.Uint32(a[20:]) == binary.BigEndian.Uint32(b[20:])
	}
	return a[0]>>4 == 6 && a[6] == b[6] && [32]byte(a[8:40]) == [32]byte(b[8:40]) &&
		binary.BigEndian.Uint32(a[40:]) == binary.BigEndian.Uint32(b[40:])
}

const (
	flowSets = 16 // a power of two
	flowWays = 4
)

// flowTable finds the open unit of a flow. It is a cache of 16 sets of 4: where a
// fifth flow of a set comes along, the oldest's unit just does not grow further.
type flowTable struct {
	hash [flowSets * flowWays]uint32 // 0: empty
	unit [flowSets * flowWays]int32
	turn [flowSets]uint8 // the way to take next
	used bool
}

func (t *flowTable) reset() {
	if t.used {
		clear(t.hash[:])
		t.used = false
	}
}

// closeAll makes all units stop growing.
func (t *flowTable) closeAll() { t.reset() }

// find returns the slot that holds the flow of pkt, or else the one to use for it.
func (t *flowTable) find(s *segment, pkt []byte, g *GRO) (slot int, found bool) {
	set := int(s.hash>>8) % flowSets
	ways := t.hash[set*flowWays:][:flowWays]
	for i, h := range ways {
		if h == s.hash && sameFlow(g.packets[g.units[t.unit[set*flowWays+i]].first], pkt, s) {
			return set*flowWays + i, true
		}
	}
	for i, h := range ways {
		if h == 0 {
			return set*flowWays + i, false
		}
	}
	return set*flowWays + int(t.turn[set])%flowWays, false
}

// set records the open unit of a flow in the slot that find returned.
func (t *flowTable) set(slot int, hash uint32, unit int32) {
	if t.hash[slot] != 0 && t.hash[slot] != hash {
		t.turn[slot/flowWays]++
	}
	t.hash[slot], t.unit[slot], t.used = hash, unit, true
}

// drop empties a slot.
func (t *flowTable) drop(slot int) { t.hash[slot] = 0 }
