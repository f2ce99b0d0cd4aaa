// SPDX-License-Identifier: Apache-2.0

package vnet

import (
	"encoding/binary"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/packet"
)

const (
	// Capacity is the number of packets that a GRO holds between two Resets.
	Capacity = 1024

	// MaxPackets is the most packets in one super-packet: the most segments that
	// every kernel with the offload takes (UDP_MAX_SEGMENTS before it was doubled).
	MaxPackets = 64

	// maxTotal is the most bytes in one super-packet, IP header included. The IP
	// length fields would allow 65,535, but a kernel that forwards the super-packet
	// splits it in software, packet by packet, once its length with the link header
	// reaches gso_max_size, 65,536: leave room for Ethernet and two VLAN tags.
	maxTotal = 65535 - packet.EthernetLen - 2*packet.VLANTagLen
)

// Options says what may be merged.
type Options struct {
	TSO        bool // TCP: the TUN takes TSO4 and TSO6
	USO        bool // UDP: the TUN takes USO4 and USO6
	MaxPackets int  // packets in one super-packet, 1 (merge nothing) to 64; 0 and anything above is 64
}

// GRO merges neighbouring packets of a flow into super-packets for a TUN, by the
// rules of the kernel's GRO. It copies no payload: a super-packet is a list of
// pieces of the packets that were added. The order of the packets of a flow is
// never changed, and a packet that belongs to no TCP or UDP flow (a fragment, ICMP,
// IP options, extension headers, malformed) is overtaken by none.
//
// A packet joins the super-packet of its flow if it is equal to the one before
// it in everything but length, IPv4 id, TCP sequence number and checksum, and
// follows it without a gap. IPv4 ids must grow by one; with DF they may also all
// be equal. A packet that is shorter than the first, or has PSH or FIN, is the
// last one; a longer one begins anew. Packets without payload, with SYN, RST, URG
// or CWR, with UDP checksum 0, or for a port of a UDP tunnel are left alone. IP
// and transport checksums are verified before a packet is merged, since the
// kernel trusts those of a super-packet; one with a wrong checksum is left alone.
//
// What segmenting a super-packet gives back is what was added, byte for byte,
// except that ids that were all equal now grow, which RFC 6864 allows with DF.
//
// A GRO is not safe for concurrent use.
type GRO struct {
	tso, uso bool
	most     int32 // packets in a super-packet

	count   int32 // packets added
	packets [Capacity][]byte
	next    [Capacity]int32 // the packet that follows in the same unit

	made  int32 // units made
	units [Capacity]unit

	flows flowTable
}

// unit is what becomes one write: a packet, or several merged ones.
type unit struct {
	first, last int32  // indexes into packets
	count       int32  // packets
	total       int32  // bytes of the super-packet, headers once
	size        int32  // payload bytes of the first packet
	seq         uint32 // TCP sequence number that comes next
	id          uint16 // IPv4 id of the last packet
	header      uint8  // bytes of all headers, at most 40+60
	l3          uint8  // bytes of the IP header
	udp         bool
	open        bool // may grow
	verified    bool // the first packet's checksums are right
	fixed       bool // the first packet's header is that of the super-packet
	step        idStep
	endFlags    uint8 // PSH and FIN of the last packet
	saved       saved
	vnet        [HeaderLen]byte
}

// idStep is how the IPv4 ids of a unit go on.
type idStep uint8

const (
	idAny   idStep = iota // one packet so far, or IPv6
	idGrows               // by one
	idStays
)

// NewGRO returns an empty GRO. All the memory it will use is allocated here,
// about 85 KiB.
func NewGRO(o Options) *GRO {
	g := new(GRO)
	g.SetOptions(o)
	g.flows.reset()
	return g
}

// SetOptions changes what may be merged from the next packet on.
func (g *GRO) SetOptions(o Options) {
	g.tso, g.uso, g.most = o.TSO, o.USO, MaxPackets
	if o.MaxPackets > 0 && o.MaxPackets < MaxPackets {
		g.most = int32(o.MaxPackets)
	}
}

// Reset forgets all packets.
func (g *GRO) Reset() {
	clear(g.packets[:g.count])
	g.count, g.made = 0, 0
	g.flows.reset()
}

// Len returns the number of packets added since the last Reset.
func (g *GRO) Len() int { return int(g.count) }

// Add takes one IP packet, as it came out of its record, and reports whether
// there was room for it; Capacity packets fit between two Resets. Bytes behind
// the length that the IP header gives are cut off. A packet whose lengths do not
// fit is kept too, as it is: whether to write such a packet is the caller's choice.
//
// pkt is borrowed until Reset. Nobody may write to it in that time, and Unit
// writes to its header.
func (g *GRO) Add(pkt []byte) bool {
	if g.count == Capacity {
		return false
	}
	var s segment
	pkt = s.parse(pkt)
	at := g.count
	g.packets[at] = pkt
	g.count++

	if !s.flow {
		g.flows.closeAll()
		g.begin(at, &s)
		return true
	}
	mergeable := s.mergeable && (s.udp && g.uso || !s.udp && g.tso)
	slot, found := g.flows.find(&s, pkt, g)
	if found {
		u := &g.units[g.flows.unit[slot]]
		if u.open {
			if mergeable && g.join(u, at, &s) {
				return true
			}
			u.open = false
			mergeable = mergeable && s.mergeable
		}
	}
	u := g.begin(at, &s)
	if mergeable && s.endFlags == 0 && g.most > 1 {
		u.open = true
		g.flows.set(slot, s.hash, g.made-1)
	} else if found {
		g.flows.drop(slot)
	}
	return true
}

// begin makes a unit of the one packet at index at.
func (g *GRO) begin(at int32, s *segment) *unit {
	u := &g.units[g.made]
	g.made++
	u.first, u.last, u.count = at, at, 1
	u.total, u.size = int32(len(g.packets[at])), s.payload
	u.seq, u.id = s.seq+uint32(s.payload), s.id
	u.header, u.l3, u.udp = s.header, s.l3, s.udp
	u.open, u.verified, u.fixed = false, false, false
	u.step, u.endFlags = idAny, s.endFlags
	return u
}

// join appends the packet at index at to u and reports whether it may. The two
// are of one flow, and each is mergeable by itself.
func (g *GRO) join(u *unit, at int32, s *segment) bool {
	head, pkt := g.packets[u.first], g.packets[at]
	if s.payload > u.size || s.header != u.header || u.count >= g.most || u.total+s.payload > maxTotal ||
		!sameHeaders(head, pkt, s) {
		return false
	}
	step := u.step
	if s.v4 {
		switch s.id - u.id {
		case 1:
			if step == idStays {
				return false
			}
			step = idGrows
		case 0:
			if step == idGrows || !s.df {
				return false
			}
			step = idStays
		default:
			return false
		}
	}
	if !s.udp && s.seq != u.seq {
		return false
	}
	// The costly check comes last. A packet that turns out wrong is left alone.
	if !u.verified {
		if !checksumsRight(head, s) {
			return false
		}
		u.verified = true
	}
	if !checksumsRight(pkt, s) {
		s.mergeable = false
		return false
	}
	g.next[u.last] = at
	u.last = at
	u.count++
	u.total += s.payload
	u.seq += uint32(s.payload)
	u.id, u.step, u.endFlags = s.id, step, s.endFlags
	u.open = s.payload == u.size && s.endFlags == 0 && u.count < g.most
	return true
}

// sameHeaders compares what must be equal in two packets of one flow whose
// headers are equally long, TCP sequence numbers and IPv4 ids excepted.
func sameHeaders(a, b []byte, s *segment) bool {
	if s.v4 {
		// Version, header length and TOS; fragment flags, TTL and protocol.
		const mask = 0xffff_0000_0000_ffff
		if (binary.BigEndian.Uint64(a)^binary.BigEndian.Uint64(b))&mask != 0 || a[8] != b[8] {
			return false
		}
	} else if binary.BigEndian.Uint32(a) != binary.BigEndian.Uint32(b) || a[7] != b[7] {
		// Version, traffic class and flow label; hop limit.
		return false
	}
	if s.udp {
		return true
	}
	l3 := int(s.l3)
	ta, tb := a[l3:s.header], b[l3:s.header]
	// Acknowledgement number, data offset, flags but PSH and FIN, window.
	const mask = 0xffff_ffff_ffff_ffff &^ ((packet.TCPPsh | packet.TCPFin) << 16)
	return (binary.BigEndian.Uint64(ta[8:])^binary.BigEndian.Uint64(tb[8:]))&mask == 0 &&
		ta[18] == tb[18] && ta[19] == tb[19] && // urgent pointer
		string(ta[packet.TCPLen:]) == string(tb[packet.TCPLen:])
}

// checksumsRight verifies the IPv4 header checksum and the transport checksum of
// a packet with the header lengths of s.
func checksumsRight(pkt []byte, s *segment) bool {
	l4 := pkt[s.l3:]
	proto := uint8(packet.ProtoTCP)
	if s.udp {
		proto = packet.ProtoUDP
	}
	var sum uint64
	if s.v4 {
		if packet.Fold(packet.Checksum(pkt[:packet.IPv4Len], 0)) != 0xffff {
			return false
		}
		sum = packet.PseudoSum(pkt[12:16], pkt[16:20], proto, len(l4))
	} else {
		sum = packet.PseudoSum(pkt[8:24], pkt[24:40], proto, len(l4))
	}
	return packet.Fold(packet.Checksum(l4, sum)) == 0xffff
}
