// SPDX-License-Identifier: Apache-2.0

package vnet

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
)

// segments takes every segment out of s, overwriting the bytes in front of each
// payload afterwards as sealing in place does.
func segments(t testing.TB, s *Super, pkt []byte) [][]byte {
	t.Helper()
	var out [][]byte
	scratch := make([]byte, MaxHeader)
	for i := range s.Segments() {
		header, off, length := s.Segment(i, scratch)
		if len(header) != s.HeaderLen() || off < len(header) {
			t.Fatalf("segment %d: header of %d bytes, payload at %d", i, len(header), off)
		}
		out = append(out, append(bytes.Clone(header), pkt[off:off+length]...))
		copy(pkt[off-len(header):off], bytes.Repeat([]byte{0xee}, len(header)))
	}
	return out
}

func equalPackets(t testing.TB, what string, got, want [][]byte) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d packets, want %d", what, len(got), len(want))
	}
	for i := range got {
		if !bytes.Equal(got[i], want[i]) {
			n := min(len(got[i]), len(want[i]), 120)
			t.Fatalf("%s: packet %d of %d differs\n got (%d) % x\nwant (%d) % x", what, i, len(got), len(got[i]), got[i][:n], len(want[i]), want[i][:n])
		}
	}
}

func TestSuperKinds(t *testing.T) {
	flags := func(d inner, f uint8) inner { d.flags = f; return d }
	options := func(d inner) inner { d.options = []byte{1, 1, 1, 1}; return d }
	extension := func(d inner, proto byte) inner {
		d.extType, d.extension = 0, []byte{proto, 0, 1, 4, 0, 0, 0, 0}
		return d
	}
	urgent := func(d inner, at uint16) inner { d.flags |= 0x20; d.urgent = at; return d }
	for _, c := range []struct {
		name string
		d    inner
		size int
		want int
	}{
		{"TCPv4", tcp4(62000), 1380, 45},
		{"TCPv4 exact", tcp4(1380 * 3), 1380, 3},
		{"TCPv4 one segment", tcp4(100), 1380, 1},
		{"TCPv4 no payload", tcp4(0), 1380, 1},
		{"TCPv4 odd size", tcp4(5000), 333, 16},
		{"TCPv4 size 1", tcp4(700), 1, 700},
		{"TCPv4 FIN PSH CWR ECE", flags(tcp4(4000), 0xd9), 1380, 3},
		{"TCPv4 IP options", options(tcp4(4000)), 1380, 3},
		{"TCPv4 urgent", urgent(tcp4(4000), 2000), 1380, 3},
		{"TCPv4 urgent at edge", urgent(tcp4(4000), 1380), 1380, 3},
		{"TCPv6", tcp6(62000), 1380, 45},
		{"TCPv6 FIN", flags(tcp6(62000), 0x11), 1380, 45},
		{"TCPv6 hop-by-hop", extension(tcp6(6000), 6), 1380, 5},
		{"UDPv4", udp4(62000), 1392, 45},
		{"UDPv4 odd size", udp4(62000), 1391, 45},
		{"UDPv6", udp6(62000), 1372, 46},
		{"UDPv6 hop-by-hop", extension(udp6(6000), 17), 1372, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, pkt := c.d.super(c.size)
			h.HdrLen = 0xffff // never trusted
			want := slowSegments(h, pkt, c.d.headers())
			var s Super
			if !s.Reset(h, pkt) {
				t.Fatal("refused")
			}
			if s.Segments() != c.want || s.HeaderLen() != c.d.headers() || s.SegmentSize() != c.size {
				t.Fatalf("%d segments, header %d, size %d", s.Segments(), s.HeaderLen(), s.SegmentSize())
			}
			if a, ok := s.Destination(); !ok || a != c.d.dst {
				t.Errorf("destination %v", a)
			}
			if a, ok := s.Source(); !ok || a != c.d.src {
				t.Errorf("source %v", a)
			}
			got := segments(t, &s, pkt)
			equalPackets(t, "segments", got, want)
			for i, p := range got {
				if f := study(p); f.flow && !f.mergeable && c.d.flags&0xa0 == 0 && f.payload > 0 {
					t.Errorf("segment %d: checksum is wrong", i)
				}
			}
		})
	}
}

// TestSuperECN checks that the ECN bit in the GSO type changes nothing else.
func TestSuperECN(t *testing.T) {
	d := tcp4(4000)
	d.flags |= 0x80
	h, pkt := d.super(1380)
	want := slowSegments(h, pkt, d.headers())
	h.GSOType |= GSOECN
	var s Super
	if !s.Reset(h, pkt) {
		t.Fatal("refused")
	}
	equalPackets(t, "segments", segments(t, &s, pkt), want)
}

// TestSuperRoutingHeader has a routing header with segments left, where the
// pseudo header holds the last address and not the one in the IP header.
func TestSuperRoutingHeader(t *testing.T) {
	d := tcp6(3000)
	last := netip.MustParseAddr("2001:db8::99")
	d.extType = 43
	d.extension = append([]byte{6, 2, 2, 1, 0, 0, 0, 0}, last.AsSlice()...)
	h, pkt := d.super(1000)
	binary.BigEndian.PutUint16(pkt[h.CsumStart+16:], slowSum(pseudo(d.src, last, 6, len(pkt)-d.l4())))
	var s Super
	if !s.Reset(h, pkt) {
		t.Fatal("refused")
	}
	for i, p := range segments(t, &s, pkt) {
		if slowSum(pseudo(d.src, last, 6, len(p)-d.l4()), p[d.l4():]) != 0xffff {
			t.Errorf("segment %d: checksum is wrong", i)
		}
	}
}

func TestSuperPlain(t *testing.T) {
	for _, c := range []struct {
		name string
		d    inner
	}{{"TCPv4", tcp4(700)}, {"TCPv6", tcp6(701)}, {"UDPv4", udp4(1)}, {"UDPv6", udp6(0)}, {"pure ACK", tcp4(0)}} {
		t.Run(c.name, func(t *testing.T) {
			want := c.d.build()
			h, pkt := c.d.super(0)
			h.GSOType = GSONone
			var s Super
			for _, flags := range []uint8{NeedsCsum, 0, DataValid} {
				if flags != NeedsCsum {
					h = Header{Flags: flags}
				} else {
					h.Flags = flags
				}
				if !s.Reset(h, pkt) || s.Segments() != 1 || s.HeaderLen() != 0 || s.SegmentSize() != len(pkt) {
					t.Fatal("refused or taken for a super-packet")
				}
				header, off, length := s.Segment(0, nil)
				if len(header) != 0 || off != 0 || length != len(want) || !bytes.Equal(pkt, want) {
					t.Fatalf("header %d bytes, payload %d+%d\n got % x\nwant % x", len(header), off, length, pkt, want)
				}
			}
		})
	}
}

// TestSuperPlainZero completes a UDP checksum that comes out as zero, which has
// to be sent as 0xffff.
func TestSuperPlainZero(t *testing.T) {
	d := udp4(2)
	d.payload = []byte{0, 0}
	pkt := d.build()
	check := binary.BigEndian.Uint16(pkt[26:])
	d.payload = []byte{byte(check >> 8), byte(check)}
	h, pkt := d.super(0)
	h.GSOType = GSONone
	var s Super
	if !s.Reset(h, pkt) || binary.BigEndian.Uint16(pkt[26:]) != 0xffff {
		t.Fatalf("checksum %x, want ffff", pkt[26:28])
	}
	h, pkt = d.super(2)
	if !s.Reset(h, pkt) {
		t.Fatal("refused")
	}
	if got := segments(t, &s, pkt)[0]; binary.BigEndian.Uint16(got[26:]) != 0xffff {
		t.Fatalf("segment's checksum %x, want ffff", got[26:28])
	}
}

func TestSuperRefuses(t *testing.T) {
	type change func(h *Header, pkt []byte) []byte
	header := func(f func(h *Header)) change {
		return func(h *Header, pkt []byte) []byte { f(h); return pkt }
	}
	bytesAt := func(at int, v ...byte) change {
		return func(_ *Header, pkt []byte) []byte { copy(pkt[at:], v); return pkt }
	}
	cut := func(n int) change {
		return func(_ *Header, pkt []byte) []byte { return pkt[:n] }
	}
	plain := func(f func(h *Header, pkt []byte) []byte) change {
		return func(h *Header, pkt []byte) []byte { h.GSOType = GSONone; return f(h, pkt) }
	}
	for _, c := range []struct {
		name   string
		d      inner
		change change
	}{
		{"UFO", udp4(4000), header(func(h *Header) { h.GSOType = 3 })},
		{"unknown type", tcp4(4000), header(func(h *Header) { h.GSOType = 2 })},
		{"type 0x7f", tcp4(4000), header(func(h *Header) { h.GSOType = 0x7f })},
		{"ECN alone", tcp4(4000), header(func(h *Header) { h.GSOType = GSOECN })},
		{"ECN with UDP", udp4(4000), header(func(h *Header) { h.GSOType |= GSOECN })},
		{"no size", tcp4(4000), header(func(h *Header) { h.GSOSize = 0 })},
		{"checksum not partial", tcp4(4000), header(func(h *Header) { h.Flags = 0 })},
		{"checksum start in IP header", tcp4(4000), header(func(h *Header) { h.CsumStart = 10 })},
		{"checksum start past header", tcp4(4000), header(func(h *Header) { h.CsumStart = 24 })},
		{"checksum start at end", tcp4(4000), header(func(h *Header) { h.CsumStart = 0xffff })},
		{"checksum offset", tcp4(4000), header(func(h *Header) { h.CsumOffset = 6 })},
		{"checksum offset UDP", udp4(4000), header(func(h *Header) { h.CsumOffset = 16 })},
		{"type of the other family", tcp4(4000), header(func(h *Header) { h.GSOType = GSOTCPv6 })},
		{"type of the other family 6", tcp6(4000), header(func(h *Header) { h.GSOType = GSOTCPv4 })},
		{"TCP type on UDP", udp4(4000), header(func(h *Header) { h.GSOType, h.CsumOffset = GSOTCPv4, 16 })},
		{"UDP type on TCP", tcp4(4000), header(func(h *Header) { h.GSOType, h.CsumOffset = GSOUDPL4, 6 })},
		{"version 5", tcp4(4000), bytesAt(0, 0x55)},
		{"fragment", tcp4(4000), bytesAt(6, 0x20)},
		{"IP length too short", tcp4(4000), bytesAt(2, 0, 100)},
		{"IP length too long", tcp4(4000), bytesAt(2, 0xff, 0xff)},
		{"UDP length", udp4(4000), bytesAt(24, 0, 100)},
		{"data offset 4", tcp4(4000), bytesAt(32, 0x40)},
		{"data offset past end", tcp4(8), bytesAt(32, 0xf0)},
		{"SYN", tcp4(4000), bytesAt(33, 0x12)},
		{"RST", tcp4(4000), bytesAt(33, 0x14)},
		{"cut in payload", tcp4(4000), cut(3000)},
		{"cut in TCP header", tcp4(4000), cut(39)},
		{"cut in IP header", tcp4(4000), cut(19)},
		{"empty", tcp4(4000), cut(0)},
		{"headers over 256 bytes", func() inner {
			d := tcp6(4000)
			d.extType, d.extension = 60, append([]byte{6, 30}, make([]byte, 246)...)
			return d
		}(), header(func(*Header) {})},
		{"plain, checksum past end", tcp4(10), plain(func(h *Header, pkt []byte) []byte { h.CsumStart = uint16(len(pkt)) - 17; return pkt })},
		{"plain, checksum in IP header", tcp4(10), plain(func(h *Header, pkt []byte) []byte { h.CsumStart = 0; return pkt })},
		{"plain, overflow", tcp4(10), plain(func(h *Header, pkt []byte) []byte { h.CsumStart, h.CsumOffset = 0xffff, 0xffff; return pkt })},
		{"plain, not IP", tcp4(10), plain(func(_ *Header, pkt []byte) []byte { pkt[0] = 0x25; return pkt })},
		{"plain, cut", tcp4(10), plain(func(_ *Header, pkt []byte) []byte { return pkt[:19] })},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, pkt := c.d.super(1380)
			pkt = c.change(&h, pkt)
			before := bytes.Clone(pkt)
			var s Super
			if s.Reset(h, pkt) || s.Segments() != 0 || s.HeaderLen() != 0 {
				t.Errorf("taken, %d segments", s.Segments())
			}
			if !bytes.Equal(pkt, before) {
				t.Error("packet changed")
			}
		})
	}
}

// randomSuper makes a super-packet with most things left to chance.
func randomSuper(r *rand.Rand) (inner, int) {
	n := r.IntN(3000)
	if r.IntN(4) == 0 {
		n = r.IntN(64000)
	}
	d := []inner{tcp4(n), tcp6(n), udp4(n), udp6(n)}[r.IntN(4)]
	for i := range d.payload {
		d.payload[i] = byte(r.Uint32())
	}
	d.tos, d.ttl, d.id, d.df = uint8(r.Uint32()), uint8(r.Uint32()), uint16(r.Uint32()), r.IntN(2) == 0
	d.seq, d.ack, d.window = r.Uint32(), r.Uint32(), uint16(r.Uint32())
	d.sport, d.dport = uint16(r.Uint32()), uint16(r.Uint32())
	d.flags = uint8(r.Uint32()) &^ 0x06
	d.urgent = uint16(r.IntN(5000))
	d.tcpOptions = bytesFrom(int(d.ack), r.IntN(11)*4)
	if d.src.Is4() && r.IntN(4) == 0 {
		d.options = bytesFrom(3, r.IntN(11)*4)
	}
	if d.udp {
		d.tcpOptions = nil
	}
	return d, 1 + r.IntN(2000)
}

func TestSuperAgainstSlow(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	var s Super
	for i := range 1000 {
		d, size := randomSuper(r)
		h, pkt := d.super(size)
		h.HdrLen = uint16(r.Uint32())
		want := slowSegments(h, pkt, d.headers())
		if !s.Reset(h, pkt) {
			t.Fatalf("round %d: refused %+v", i, h)
		}
		equalPackets(t, fmt.Sprintf("round %d", i), segments(t, &s, pkt), want)
	}
}

func FuzzSuper(f *testing.F) {
	for _, d := range []inner{tcp4(4000), tcp6(4000), udp4(4000), udp6(4000)} {
		h, pkt := d.super(1380)
		b := make([]byte, HeaderLen)
		h.Put(b)
		f.Add(append(b, pkt...))
		h.GSOType = GSONone
		h.Put(b)
		f.Add(append(b, pkt...))
	}
	f.Fuzz(func(t *testing.T, read []byte) {
		h, ok := Parse(read)
		if !ok {
			return
		}
		pkt := bytes.Clone(read[HeaderLen:])
		var s Super
		if !s.Reset(h, pkt) {
			if s.Segments() != 0 {
				t.Fatal("refused, but has segments")
			}
			return
		}
		if h.GSOType == GSONone {
			header, off, length := s.Segment(0, nil)
			if s.Segments() != 1 || len(header) != 0 || off != 0 || length != len(pkt) {
				t.Fatal("a plain packet is not itself")
			}
			return
		}
		if pkt[0]>>4 == 6 && s.l3 != 40 {
			// The slow reference sums the pseudo header, which a routing header changes.
			segments(t, &s, pkt)
			return
		}
		want := slowSegments(Header{GSOType: h.GSOType, GSOSize: h.GSOSize, CsumStart: h.CsumStart}, pkt, s.HeaderLen())
		equalPackets(t, "segments", segments(t, &s, pkt), want)
	})
}

func TestSuperAllocatesNothing(t *testing.T) {
	h, pkt := tcp4(62000).super(1380)
	h6, pkt6 := udp6(62000).super(1380)
	var s Super
	scratch := make([]byte, MaxHeader)
	if n := testing.AllocsPerRun(20, func() {
		for range 2 {
			if !s.Reset(h, pkt) {
				t.Fatal("refused")
			}
			for i := range s.Segments() {
				s.Segment(i, scratch)
			}
			h, pkt, h6, pkt6 = h6, pkt6, h, pkt
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkSuperSegment(b *testing.B) {
	for name, d := range map[string]inner{"TCPv4": tcp4(62100), "TCPv6": tcp6(62100), "UDPv4": udp4(62100)} {
		b.Run(name, func(b *testing.B) {
			h, pkt := d.super(1380)
			scratch := make([]byte, MaxHeader)
			var s Super
			s.Reset(h, pkt)
			n, i := s.Segments(), 0
			for b.Loop() {
				s.Segment(i, scratch)
				if i++; i == n {
					i = 0
				}
			}
		})
	}
}

func BenchmarkSuperReset(b *testing.B) {
	h, pkt := tcp4(62100).super(1380)
	var s Super
	for b.Loop() {
		if !s.Reset(h, pkt) {
			b.Fatal("refused")
		}
	}
}
