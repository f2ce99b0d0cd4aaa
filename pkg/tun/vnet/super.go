// SPDX-License-Identifier: Apache-2.0

package vnet

import (
	"encoding/binary"
	"net/netip"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/packet"
)

// MaxHeader is the most bytes that the headers of a segment may have together.
// IPv6 with TCP options takes 100; the rest is for extension headers.
const MaxHeader = 256

// Offsets of checksum fields in their transport headers.
const (
	tcpCsumOffset = 16
	udpCsumOffset = 6
)

// Super is one packet read from a TUN while it is being segmented. The zero
// value is ready for Reset, and one Super serves any number of packets in turn.
// It is not safe for concurrent use.
//
// It keeps a copy of the headers, so that segments may be sealed one after the
// other over the bytes in front of their payload.
type Super struct {
	pkt      []byte
	template [MaxHeader]byte // the first segment's headers, variable fields zero
	l3, l4   int             // lengths of IP (with extensions) and transport header; l3+l4 is 0 without GSO
	size     int             // payload bytes per segment; without GSO the whole packet
	segments int
	udp      bool
	v6       bool
	id       uint16 // IPv4 id of the first segment
	seq      uint32 // TCP sequence number of the first segment
	flags    uint8  // TCP flags of the super-packet
	urgent   uint16 // TCP urgent pointer of the super-packet
	ipSum    uint64 // IPv4 header without length, id and checksum
	l4Sum    uint64 // pseudo and transport header without length, sequence, flags, checksum
}

// Reset takes up pkt, a packet that was read with header h, and reports whether
// the two agree. If not, the packet is to be dropped and Super holds none: an
// unknown GSO type (UFO included), a GSO packet whose checksum does not need
// completing, that is a fragment, whose lengths do not fit or that has SYN or RST,
// or offsets that point elsewhere than to the transport header. HdrLen is never
// used: the lengths come from the packet.
//
// pkt is borrowed until the next Reset. Without GSO, a checksum that needs it is
// completed in pkt; with GSO, pkt is only read.
func (s *Super) Reset(h Header, pkt []byte) bool {
	s.pkt, s.segments, s.l3, s.l4 = nil, 0, 0, 0
	if h.GSOType&^GSOECN == GSONone {
		if !s.resetPlain(h, pkt) {
			return false
		}
	} else if !s.resetGSO(h, pkt) {
		s.segments, s.l3, s.l4 = 0, 0, 0
		return false
	}
	s.pkt = pkt
	return true
}

func (s *Super) resetPlain(h Header, pkt []byte) bool {
	if _, ok := packet.Destination(pkt); !ok || h.GSOType != GSONone {
		return false
	}
	if h.Flags&NeedsCsum != 0 {
		start, field := int(h.CsumStart), int(h.CsumStart)+int(h.CsumOffset)
		if start < packet.IPv4Len || field+2 > len(pkt) {
			return false
		}
		// The field holds the pseudo header's sum, which is just what is missing
		// from the sum over the bytes.
		sum := ^packet.Fold(packet.Checksum(pkt[start:], 0))
		if sum == 0 {
			sum = 0xffff // 0 would mean "no checksum" in UDP; elsewhere both are zero
		}
		binary.BigEndian.PutUint16(pkt[field:], sum)
	}
	s.segments, s.size = 1, len(pkt)
	return true
}

func (s *Super) resetGSO(h Header, pkt []byte) bool {
	ip, ok := packet.ParseIP(pkt)
	if !ok || ip.Fragment || ip.TotalLen != len(pkt) || h.Flags&NeedsCsum == 0 || h.GSOSize == 0 ||
		int(h.CsumStart) != ip.HeaderLen {
		return false
	}
	switch h.GSOType {
	case GSOTCPv4, GSOTCPv4 | GSOECN:
		if ip.Version != 4 || !s.resetTCP(h, pkt, ip) {
			return false
		}
	case GSOTCPv6, GSOTCPv6 | GSOECN:
		if ip.Version != 6 || !s.resetTCP(h, pkt, ip) {
			return false
		}
	case GSOUDPL4:
		if !s.resetUDP(h, pkt, ip) {
			return false
		}
	default:
		return false
	}
	s.resetIP(pkt, ip)
	header := s.l3 + s.l4
	s.size = int(h.GSOSize)
	// A packet of headers alone is one segment.
	s.segments = max(1, (len(pkt)-header+s.size-1)/s.size)
	return true
}

func (s *Super) resetTCP(h Header, pkt []byte, ip packet.IP) bool {
	if ip.Protocol != packet.ProtoTCP || h.CsumOffset != tcpCsumOffset || len(pkt) < ip.HeaderLen+packet.TCPLen {
		return false
	}
	tcp := pkt[ip.HeaderLen:]
	header := int(tcp[12]>>4) * 4
	if header < packet.TCPLen || header > len(tcp) || ip.HeaderLen+header > MaxHeader ||
		tcp[13]&(packet.TCPSyn|packet.TCPRst) != 0 {
		return false
	}
	s.udp, s.l3, s.l4 = false, ip.HeaderLen, header
	s.seq = binary.BigEndian.Uint32(tcp[4:])
	s.flags = tcp[13]
	s.urgent = binary.BigEndian.Uint16(tcp[18:])
	t := s.template[s.l3 : s.l3+header]
	copy(t, tcp)
	clear(t[4:8])
	t[13] = 0
	clear(t[16:20])
	return true
}

func (s *Super) resetUDP(h Header, pkt []byte, ip packet.IP) bool {
	if ip.Protocol != packet.ProtoUDP || h.CsumOffset != udpCsumOffset || len(pkt) < ip.HeaderLen+packet.UDPLen ||
		ip.HeaderLen+packet.UDPLen > MaxHeader ||
		int(binary.BigEndian.Uint16(pkt[ip.HeaderLen+4:])) != len(pkt)-ip.HeaderLen {
		return false
	}
	s.udp, s.l3, s.l4 = true, ip.HeaderLen, packet.UDPLen
	t := s.template[s.l3 : s.l3+packet.UDPLen]
	copy(t, pkt[s.l3:])
	clear(t[4:8])
	return true
}

// resetIP prepares the IP header and the sums; the transport header is done.
func (s *Super) resetIP(pkt []byte, ip packet.IP) {
	t := s.template[:s.l3]
	copy(t, pkt)
	s.v6 = ip.Version == 6
	proto := uint8(packet.ProtoTCP)
	if s.udp {
		proto = packet.ProtoUDP
	}
	s.l4Sum = packet.Checksum(s.template[s.l3:s.l3+s.l4], 0)
	if s.v6 {
		clear(t[4:6])
		if ip.Options {
			// With a routing header the pseudo header has another destination (RFC
			// 8200, section 8.1). Whoever left the checksum partial knew it: take the
			// length back out of that sum.
			field := s.l3 + tcpCsumOffset
			if s.udp {
				field = s.l3 + udpCsumOffset
			}
			length := uint16(len(pkt) - s.l3)
			s.l4Sum += uint64(binary.BigEndian.Uint16(pkt[field:])) + uint64(^length)
		} else {
			s.l4Sum += packet.PseudoSum(t[8:24], t[24:40], proto, 0)
		}
		return
	}
	s.id = binary.BigEndian.Uint16(t[4:])
	clear(t[2:6])
	clear(t[10:12])
	s.ipSum = packet.Checksum(t, 0)
	s.l4Sum += packet.PseudoSum(t[12:16], t[16:20], proto, 0)
}

// Segments returns the number of segments, 1 without GSO, 0 if Reset refused.
func (s *Super) Segments() int { return s.segments }

// HeaderLen returns the length of the header that every segment gets in bytes, 0
// without GSO. A segment that is not the last has HeaderLen plus SegmentSize bytes.
func (s *Super) HeaderLen() int { return s.l3 + s.l4 }

// SegmentSize returns the payload bytes of every segment but the last: the GSO
// size, or without GSO the length of the packet.
func (s *Super) SegmentSize() int { return s.size }

// Source returns the packet's source address. It must be asked before the first
// segment is sealed over the packet.
func (s *Super) Source() (netip.Addr, bool) { return packet.Source(s.pkt) }

// Destination returns the packet's destination address, on the terms of Source.
func (s *Super) Destination() (netip.Addr, bool) { return packet.Destination(s.pkt) }

// Segment builds the header of segment i (0 to Segments()-1) at the start of
// scratch, which needs HeaderLen() bytes (MaxHeader is always enough), and says
// where in the packet the segment's payload lies: pkt[off:off+length], of which
// off and length may be 0. header is a part of scratch; together the two pieces
// are a packet with all lengths and checksums complete. Without GSO there is no
// header (nil), and the payload is the packet.
//
// As the kernel does it, the IPv4 id grows by one per segment, FIN and PSH are on
// the last segment only and CWR on the first only. The urgent pointer is kept
// relative to the segment, and URG taken off where it would point back.
//
// The packet's headers are not read again, so segments may be asked for while
// earlier ones are overwritten; the payload of segment i must still be whole.
func (s *Super) Segment(i int, scratch []byte) (header []byte, off, length int) {
	if s.l3 == 0 {
		return nil, 0, s.size
	}
	hdr := s.l3 + s.l4
	start := i * s.size
	off = hdr + start
	length = min(s.size, len(s.pkt)-off)
	header = scratch[:hdr:hdr]
	copy(header, s.template[:hdr])

	l4Len := uint64(s.l4 + length)
	if s.v6 {
		binary.BigEndian.PutUint16(header[4:6], uint16(hdr-packet.IPv6Len+length))
	} else {
		total, id := uint16(hdr+length), s.id+uint16(i)
		h := header[:packet.IPv4Len]
		binary.BigEndian.PutUint16(h[2:], total)
		binary.BigEndian.PutUint16(h[4:], id)
		binary.BigEndian.PutUint16(h[10:], ^packet.Fold(s.ipSum+uint64(total)+uint64(id)))
	}

	sum := packet.Checksum(s.pkt[off:off+length], s.l4Sum+l4Len)
	if s.udp {
		t := header[s.l3:][:packet.UDPLen]
		binary.BigEndian.PutUint16(t[4:], uint16(l4Len))
		check := ^packet.Fold(sum + l4Len)
		if check == 0 {
			check = 0xffff
		}
		binary.BigEndian.PutUint16(t[6:], check)
		return header, off, length
	}
	t := header[s.l3:][:packet.TCPLen]
	seq := s.seq + uint32(start)
	flags, urgent := s.flags, s.urgent
	if i != s.segments-1 {
		flags &^= packet.TCPFin | packet.TCPPsh
	}
	if i != 0 {
		flags &^= packet.TCPCwr
		if flags&packet.TCPUrg != 0 {
			if int(urgent) > start {
				urgent -= uint16(start)
			} else {
				flags, urgent = flags&^packet.TCPUrg, 0
			}
		}
	}
	binary.BigEndian.PutUint32(t[4:], seq)
	t[13] = flags
	binary.BigEndian.PutUint16(t[18:], urgent)
	binary.BigEndian.PutUint16(t[16:], ^packet.Fold(sum+uint64(seq)+uint64(flags)+uint64(urgent)))
	return header, off, length
}
