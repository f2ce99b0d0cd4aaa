// SPDX-License-Identifier: Apache-2.0

package vnet

import (
	"encoding/binary"
	"net/netip"
)

// slowSum is RFC 1071 as written, over the concatenation of the pieces.
func slowSum(pieces ...[]byte) uint16 {
	var all []byte
	for _, p := range pieces {
		all = append(all, p...)
	}
	if len(all)%2 != 0 {
		all = append(all, 0)
	}
	sum := uint32(0)
	for i := 0; i < len(all); i += 2 {
		sum += uint32(all[i])<<8 | uint32(all[i+1])
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}

// inner describes an inner packet; build makes it, checksums included.
type inner struct {
	src, dst     netip.Addr
	sport, dport uint16
	udp          bool
	tos, ttl     uint8
	label        uint32 // IPv6 flow label
	id           uint16
	df           bool
	options      []byte // IPv4 options
	extension    []byte // IPv6 extension headers; the last names the transport
	extType      uint8  // type of the first extension header
	seq, ack     uint32
	flags        uint8
	window       uint16
	urgent       uint16
	tcpOptions   []byte
	payload      []byte
}

func pseudo(src, dst netip.Addr, proto uint8, length int) []byte {
	b := append(src.AsSlice(), dst.AsSlice()...)
	b = binary.BigEndian.AppendUint32(b, uint32(length))
	return binary.BigEndian.AppendUint32(b, uint32(proto))
}

func (d inner) build() []byte {
	var l4 []byte
	proto, field := uint8(6), 16
	l4 = binary.BigEndian.AppendUint16(l4, d.sport)
	l4 = binary.BigEndian.AppendUint16(l4, d.dport)
	if d.udp {
		proto, field = 17, 6
		l4 = binary.BigEndian.AppendUint16(l4, uint16(8+len(d.payload)))
		l4 = append(l4, 0, 0)
	} else {
		l4 = binary.BigEndian.AppendUint32(l4, d.seq)
		l4 = binary.BigEndian.AppendUint32(l4, d.ack)
		l4 = append(l4, byte((20+len(d.tcpOptions))/4)<<4, d.flags)
		l4 = binary.BigEndian.AppendUint16(l4, d.window)
		l4 = append(l4, 0, 0)
		l4 = binary.BigEndian.AppendUint16(l4, d.urgent)
		l4 = append(l4, d.tcpOptions...)
	}
	l4 = append(l4, d.payload...)
	check := ^slowSum(pseudo(d.src, d.dst, proto, len(l4)), l4)
	if d.udp && check == 0 {
		check = 0xffff
	}
	binary.BigEndian.PutUint16(l4[field:], check)

	if d.src.Is4() {
		h := []byte{byte(0x40 | (20+len(d.options))/4), d.tos}
		h = binary.BigEndian.AppendUint16(h, uint16(20+len(d.options)+len(l4)))
		h = binary.BigEndian.AppendUint16(h, d.id)
		h = append(h, 0, 0, d.ttl, proto, 0, 0)
		if d.df {
			h[6] = 0x40
		}
		h = append(append(h, d.src.AsSlice()...), d.dst.AsSlice()...)
		h = append(h, d.options...)
		binary.BigEndian.PutUint16(h[10:], ^slowSum(h))
		return append(h, l4...)
	}
	h := binary.BigEndian.AppendUint32(nil, 6<<28|uint32(d.tos)<<20|d.label)
	h = binary.BigEndian.AppendUint16(h, uint16(len(d.extension)+len(l4)))
	next := proto
	if len(d.extension) > 0 {
		next = d.extType
	}
	h = append(h, next, d.ttl)
	h = append(append(h, d.src.AsSlice()...), d.dst.AsSlice()...)
	return append(append(h, d.extension...), l4...)
}

// l4 returns the offset of the transport header.
func (d inner) l4() int {
	if d.src.Is4() {
		return 20 + len(d.options)
	}
	return 40 + len(d.extension)
}

// headers returns the bytes of all headers.
func (d inner) headers() int {
	if d.udp {
		return d.l4() + 8
	}
	return d.l4() + 20 + len(d.tcpOptions)
}

// super turns a built packet into a super-packet as a TUN read gives it: partial
// checksum and a virtio-net header.
func (d inner) super(gsoSize int) (Header, []byte) {
	pkt := d.build()
	h := Header{Flags: NeedsCsum, GSOSize: uint16(gsoSize), CsumStart: uint16(d.l4()), CsumOffset: 16, HdrLen: uint16(d.headers())}
	proto := uint8(6)
	switch {
	case d.udp:
		h.GSOType, h.CsumOffset, proto = GSOUDPL4, 6, 17
	case d.src.Is4():
		h.GSOType = GSOTCPv4
	default:
		h.GSOType = GSOTCPv6
	}
	binary.BigEndian.PutUint16(pkt[h.CsumStart+h.CsumOffset:], slowSum(pseudo(d.src, d.dst, proto, len(pkt)-d.l4())))
	return h, pkt
}

var (
	inner4A = netip.MustParseAddr("10.9.0.1")
	inner4B = netip.MustParseAddr("10.9.0.2")
	inner6A = netip.MustParseAddr("fd00:9::1")
	inner6B = netip.MustParseAddr("fd00:9::2")
)

var timestamps = []byte{1, 1, 8, 10, 0, 1, 2, 3, 4, 5, 6, 7}

// bytesFrom returns n bytes that differ with seed and position.
func bytesFrom(seed, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*31+seed*17) ^ byte(i>>8)
	}
	return b
}

// tcp4 is a mergeable packet with n bytes of payload.
func tcp4(n int) inner {
	return inner{src: inner4A, dst: inner4B, sport: 40000, dport: 443, ttl: 64, id: 100, df: true, seq: 0xfffffe00,
		ack: 77, flags: 0x10, window: 501, tcpOptions: timestamps, payload: bytesFrom(1, n)}
}

func tcp6(n int) inner {
	d := tcp4(n)
	d.src, d.dst, d.label, d.id, d.df = inner6A, inner6B, 0x12345, 0, false
	return d
}

func udp4(n int) inner {
	return inner{src: inner4A, dst: inner4B, sport: 40000, dport: 5201, udp: true, ttl: 64, id: 100, payload: bytesFrom(2, n)}
}

func udp6(n int) inner {
	d := udp4(n)
	d.src, d.dst, d.label, d.id = inner6A, inner6B, 0x12345, 0
	return d
}

// after returns the packet that follows d in its flow, with n bytes of payload.
func (d inner) after(n int) inner {
	d.seq += uint32(len(d.payload))
	d.id++
	d.payload = bytesFrom(int(d.id), n)
	if !d.src.Is4() {
		d.id = 0
		d.payload = bytesFrom(int(d.seq), n)
	}
	return d
}
