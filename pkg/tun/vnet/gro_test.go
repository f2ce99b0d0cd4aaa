// SPDX-License-Identifier: Apache-2.0

package vnet

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"unsafe"
)

var everything = Options{TSO: true, USO: true}

// unitsOf returns which packets stand in which unit.
func unitsOf(g *GRO) [][]int {
	var out [][]int
	for i := range g.made {
		u := &g.units[i]
		list := []int{int(u.first)}
		for at := u.first; at != u.last; {
			at = g.next[at]
			list = append(list, int(at))
		}
		out = append(out, list)
	}
	return out
}

// written is one unit as bytes: what a TUN would be given.
func written(g *GRO, i int) (Header, []byte, int) {
	pieces, n := g.Unit(i, make([][]byte, 0, 2+MaxPackets))
	h, _ := Parse(pieces[0])
	return h, bytes.Join(pieces[1:], nil), n
}

// add gives g copies of the packets, with spare bytes around them.
func add(t testing.TB, g *GRO, packets [][]byte) {
	t.Helper()
	g.Reset()
	for _, p := range packets {
		if !g.Add(append(make([]byte, 0, len(p)+32), p...)) {
			t.Fatal("full")
		}
	}
}

// TestGRORules gives short streams and says which packets end up together.
func TestGRORules(t *testing.T) {
	const n = 1000
	change := func(d inner, f func(d *inner)) inner { f(&d); return d }
	build := func(ds ...inner) (out [][]byte) {
		for _, d := range ds {
			out = append(out, d.build())
		}
		return out
	}
	flip := func(p []byte, at int, v byte) []byte { p = bytes.Clone(p); p[at] ^= v; return p }
	// three returns a stream of three packets of which the second was changed.
	three := func(d inner, f func(d *inner)) [][]byte {
		b := d.after(n)
		return build(d, change(b, f), b.after(n))
	}
	other := func(d inner) inner { d.sport++; return d }
	apart3 := [][]int{{0}, {1}, {2}}
	t4, t6, u4, u6 := tcp4(n), tcp6(n), udp4(n), udp6(n)
	icmp := change(u4, func(d *inner) {}).build()
	icmp[9] = 1
	noDF := change(t4, func(d *inner) { d.df = false })
	noCsum := build(u4, u4.after(n))
	for _, p := range noCsum {
		p[26], p[27] = 0, 0
	}
	for _, c := range []struct {
		name    string
		packets [][]byte
		want    [][]int
	}{
		{"TCPv4", build(t4, t4.after(n), t4.after(n).after(n)), [][]int{{0, 1, 2}}},
		{"TCPv6", build(t6, t6.after(n), t6.after(n).after(n)), [][]int{{0, 1, 2}}},
		{"UDPv4", build(u4, u4.after(n), u4.after(n).after(n)), [][]int{{0, 1, 2}}},
		{"UDPv6", build(u6, u6.after(n), u6.after(n).after(n)), [][]int{{0, 1, 2}}},
		{"shorter joins and ends", build(t4, t4.after(n-1), t4.after(n-1).after(n)), [][]int{{0, 1}, {2}}},
		{"shorter joins and ends, UDP", build(u4, u4.after(1), u4.after(1).after(n)), [][]int{{0, 1}, {2}}},
		{"longer begins anew", build(t4, t4.after(n+1), t4.after(n+1).after(n+1)), [][]int{{0}, {1, 2}}},
		{"longer begins anew, UDP", build(u4, u4.after(n+1), u4.after(n+1).after(n+1)), [][]int{{0}, {1, 2}}},
		{"PSH joins and ends", three(t4, func(d *inner) { d.flags |= 0x08 }), [][]int{{0, 1}, {2}}},
		{"FIN joins and ends", three(t6, func(d *inner) { d.flags |= 0x01 }), [][]int{{0, 1}, {2}}},
		{"first with PSH stays alone", build(change(t4, func(d *inner) { d.flags |= 8 }), t4.after(n)), [][]int{{0}, {1}}},
		{"SYN", three(t4, func(d *inner) { d.flags |= 0x02 }), apart3},
		{"RST", three(t4, func(d *inner) { d.flags |= 0x04 }), apart3},
		{"URG", three(t4, func(d *inner) { d.flags |= 0x20 }), apart3},
		{"CWR", three(t4, func(d *inner) { d.flags |= 0x80 }), apart3},
		{"ECE differs", three(t4, func(d *inner) { d.flags |= 0x40 }), apart3},
		{"ACK differs", three(t4, func(d *inner) { d.flags &^= 0x10 }), apart3},
		{"all with ECE", build(change(t4, func(d *inner) { d.flags |= 0x40 }), change(t4, func(d *inner) { d.flags |= 0x40 }).after(n)), [][]int{{0, 1}}},
		{"ack number differs", three(t4, func(d *inner) { d.ack++ }), apart3},
		{"window differs", three(t4, func(d *inner) { d.window++ }), apart3},
		{"urgent pointer differs", three(t4, func(d *inner) { d.urgent++ }), apart3},
		{"timestamp differs", three(t4, func(d *inner) { d.tcpOptions = bytes.Clone(timestamps); d.tcpOptions[7]++ }), apart3},
		{"option length differs", three(t4, func(d *inner) { d.tcpOptions = append(bytes.Clone(timestamps), 1, 1, 1, 1) }), apart3},
		{"no options at all", three(change(t4, func(d *inner) { d.tcpOptions = nil }), func(d *inner) {}), [][]int{{0, 1, 2}}},
		{"TTL differs", three(t4, func(d *inner) { d.ttl-- }), apart3},
		{"TTL differs, UDP", three(u4, func(d *inner) { d.ttl-- }), apart3},
		{"TOS differs", three(t4, func(d *inner) { d.tos = 0x20 }), apart3},
		{"ECN differs", three(u4, func(d *inner) { d.tos = 3 }), apart3},
		{"DF differs", three(t4, func(d *inner) { d.df = false }), apart3},
		{"hop limit differs", three(t6, func(d *inner) { d.ttl-- }), apart3},
		{"traffic class differs", three(u6, func(d *inner) { d.tos = 1 }), apart3},
		{"flow label differs", three(t6, func(d *inner) { d.label++ }), apart3},
		{"gap", three(t4, func(d *inner) { d.seq++ }), apart3},
		{"repeated", build(t4, t4, t4.after(n)), [][]int{{0}, {1, 2}}},
		{"backwards", build(t4.after(n), t4, t4.after(n)), [][]int{{0}, {1, 2}}},
		{"pure ACK is alone and ends", build(t4, t4.after(0), t4.after(n)), apart3},
		{"pure ACKs", build(tcp4(0), tcp4(0), tcp4(0)), apart3},
		{"empty UDP", build(u4, u4.after(0), u4.after(0).after(n)), apart3},
		{"UDP checksum 0", noCsum, [][]int{{0}, {1}}},
		{"ids jump", build(noDF, change(noDF.after(n), func(d *inner) { d.id++ })), [][]int{{0}, {1}}},
		{"ids stay without DF", build(noDF, change(noDF.after(n), func(d *inner) { d.id-- })), [][]int{{0}, {1}}},
		{"ids grow without DF", build(noDF, noDF.after(n)), [][]int{{0, 1}}},
		{"ids wrap", build(change(noDF, func(d *inner) { d.id = 0xffff }), change(noDF.after(n), func(d *inner) { d.id = 0 })), [][]int{{0, 1}}},
		{"ids jump with DF", build(t4, change(t4.after(n), func(d *inner) { d.id += 7 })), [][]int{{0}, {1}}},
		{"ids stay with DF", build(t4, change(t4.after(n), func(d *inner) { d.id = t4.id }), change(t4.after(n).after(n), func(d *inner) { d.id = t4.id })), [][]int{{0, 1, 2}}},
		{"ids stay, then grow", build(t4, change(t4.after(n), func(d *inner) { d.id = t4.id }), change(t4.after(n).after(n), func(d *inner) { d.id = t4.id + 1 })), [][]int{{0, 1}, {2}}},
		{"ids grow, then stay", build(t4, t4.after(n), change(t4.after(n).after(n), func(d *inner) { d.id = t4.id + 1 })), [][]int{{0, 1}, {2}}},
		{"other port", build(t4, other(t4), t4.after(n), other(t4).after(n)), [][]int{{0, 2}, {1, 3}}},
		{"other protocol", build(t4, change(udp4(n), func(d *inner) { d.dport = t4.dport }), t4.after(n)), [][]int{{0, 2}, {1}}},
		{"other address", build(t4, change(t4, func(d *inner) { d.dst = inner4A }), t4.after(n)), [][]int{{0, 2}, {1}}},
		{"other family", build(t4, t6, t4.after(n), t6.after(n)), [][]int{{0, 2}, {1, 3}}},
		{"VXLAN", build(change(u4, func(d *inner) { d.dport = 4789 }), change(u4.after(n), func(d *inner) { d.dport = 4789 })), [][]int{{0}, {1}}},
		{"VXLAN on Linux' port", build(change(u6, func(d *inner) { d.dport = 8472 }), change(u6.after(n), func(d *inner) { d.dport = 8472 })), [][]int{{0}, {1}}},
		{"Geneve", build(change(u4, func(d *inner) { d.dport = 6081 }), change(u4.after(n), func(d *inner) { d.dport = 6081 })), [][]int{{0}, {1}}},
		{"ICMP is overtaken by none", [][]byte{t4.build(), icmp, t4.after(n).build()}, apart3},
		{"fragment is overtaken by none", [][]byte{t4.build(), flip(u4.build(), 6, 0x20), t4.after(n).build()}, apart3},
		{"later fragment", [][]byte{u4.build(), flip(u4.after(n).build(), 7, 1), u4.after(n).build()}, apart3},
		{"IP options", [][]byte{t4.build(), change(t4.after(n), func(d *inner) { d.options = []byte{1, 1, 1, 1} }).build(), t4.after(n).build()}, apart3},
		{"extension header", [][]byte{t6.build(), change(t6.after(n), func(d *inner) { d.extension = []byte{6, 0, 1, 4, 0, 0, 0, 0} }).build(), t6.after(n).build()}, apart3},
		{"bad payload in the first", [][]byte{flip(t4.build(), 100, 1), t4.after(n).build(), t4.after(n).after(n).build()}, [][]int{{0}, {1, 2}}},
		{"bad payload in the middle", [][]byte{t4.build(), t4.after(n).build(), flip(t4.after(n).after(n).build(), 100, 1), t4.after(n).after(n).after(n).build()}, [][]int{{0, 1}, {2}, {3}}},
		{"bad payload, then again right", [][]byte{u4.build(), flip(u4.after(n).build(), 100, 1), u4.after(n).build(), u4.after(n).after(n).build()}, [][]int{{0}, {1}, {2, 3}}},
		{"bad IP checksum in the first", [][]byte{flip(t4.build(), 10, 1), t4.after(n).build()}, [][]int{{0}, {1}}},
		{"bad IP checksum in the second", [][]byte{t4.build(), flip(t4.after(n).build(), 10, 1)}, [][]int{{0}, {1}}},
		{"bad UDP checksum", [][]byte{u6.build(), flip(u6.after(n).build(), 47, 1)}, [][]int{{0}, {1}}},
		{"UDP length differs", [][]byte{u4.build(), flip(u4.after(n).build(), 25, 1), u4.after(n).build()}, apart3},
		{"data offset past the end", [][]byte{t4.build(), flip(tcp4(8).build(), 32, 0x70), t4.after(n).build()}, apart3},
		{"padding is cut off", [][]byte{append(t4.build(), 0, 0, 0), append(t4.after(n).build(), 9), t4.after(n).after(n).build()}, [][]int{{0, 1, 2}}},
		{"longer than its bytes", [][]byte{t4.build(), t4.after(n).build()[:500], t4.after(n).build()}, apart3},
		{"truncated", [][]byte{t4.build(), t4.build()[:19], nil, {0x60}, t4.after(n).build()}, [][]int{{0}, {1}, {2}, {3}, {4}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewGRO(everything)
			add(t, g, c.packets)
			if got := unitsOf(g); !reflect.DeepEqual(got, c.want) {
				t.Errorf("units %v, want %v", got, c.want)
			}
			checkGRO(t, g, c.packets, everything)
		})
	}
}

// checkGRO compares units with the slow decision, and what segmenting every unit
// gives back with what was added.
func checkGRO(t testing.TB, g *GRO, packets [][]byte, o Options) {
	t.Helper()
	want := slowGRO(packets, o)
	if got := unitsOf(g); !reflect.DeepEqual(got, want) {
		t.Fatalf("units\n got %v\nwant %v", got, want)
	}
	var s Super
	for i, list := range want {
		var original [][]byte
		for k, at := range list {
			p := bytes.Clone(packets[at])
			if f := study(p); f.flow {
				p = p[:f.headers+f.payload]
				first := study(packets[list[0]])
				if k > 0 && f.v4 && f.id == first.id {
					// Ids that stay grow after segmentation, which DF allows.
					binary.BigEndian.PutUint16(p[4:], f.id+uint16(k))
					p[10], p[11] = 0, 0
					binary.BigEndian.PutUint16(p[10:], ^slowSum(p[:20]))
				}
			}
			original = append(original, p)
		}
		for range 2 { // asking again must change nothing
			h, pkt, n := written(g, i)
			if n != len(list) {
				t.Fatalf("unit %d: %d packets, want %d", i, n, len(list))
			}
			if n == 1 {
				if h != (Header{}) {
					t.Fatalf("unit %d: header %+v", i, h)
				}
				if study(pkt).flow && !bytes.Equal(pkt, original[0]) || !bytes.HasPrefix(packets[list[0]], pkt) {
					t.Fatalf("unit %d changed", i)
				}
				continue
			}
			checkHeader(t, h, pkt)
			slow := slowSegments(h, pkt, int(h.HdrLen))
			equalPackets(t, fmt.Sprintf("unit %d, segmented slowly", i), slow, original)
			if !s.Reset(h, pkt) {
				t.Fatalf("unit %d: refused by Super", i)
			}
			equalPackets(t, fmt.Sprintf("unit %d", i), segments(t, &s, pkt), original)
		}
		checkSingles(t, g, i, list, packets)
		if len(list) > 1 {
			_, pkt, n := written(g, i)
			if n != len(list) || len(pkt) > maxTotal {
				t.Fatalf("unit %d after Singles: %d packets, %d bytes", i, n, len(pkt))
			}
		}
	}
}

// checkHeader looks at a super-packet as a strict kernel would.
func checkHeader(t testing.TB, h Header, pkt []byte) {
	t.Helper()
	f := study(pkt)
	kind := uint8(GSOUDPL4)
	switch {
	case f.udp:
	case f.v4:
		kind = GSOTCPv4
	default:
		kind = GSOTCPv6
	}
	l3, field, proto := 40, 16, uint8(6)
	var addresses []byte
	if !f.v4 {
		addresses = pkt[8:40]
	} else {
		l3, addresses = 20, pkt[12:20]
		if slowSum(pkt[:20]) != 0xffff {
			t.Fatal("IP checksum of a super-packet is wrong")
		}
	}
	if f.udp {
		field, proto = 6, 17
	}
	if !f.flow || h.Flags != NeedsCsum || h.GSOType != kind || int(h.HdrLen) != f.headers || int(h.CsumStart) != l3 ||
		int(h.CsumOffset) != field || h.GSOSize == 0 || f.payload <= int(h.GSOSize) || f.headers+f.payload != len(pkt) {
		t.Fatalf("header %+v for %+v, %d bytes", h, f, len(pkt))
	}
	length := binary.BigEndian.AppendUint32(nil, uint32(len(pkt)-l3))
	if got, want := binary.BigEndian.Uint16(pkt[l3+field:]), slowSum(addresses, length, []byte{0, 0, 0, proto}); got != want {
		t.Fatalf("checksum field %#x, want the pseudo header's sum %#x", got, want)
	}
}

// checkSingles checks that a refused unit comes back as it was added.
func checkSingles(t testing.TB, g *GRO, i int, list []int, packets [][]byte) {
	t.Helper()
	n := 0
	g.Singles(i, make([][]byte, 0, 2), func(pieces [][]byte) {
		if len(pieces) != 2 || !bytes.Equal(pieces[0], make([]byte, HeaderLen)) {
			t.Fatalf("unit %d: pieces %v", i, pieces)
		}
		p := packets[list[n]]
		if f := study(p); f.flow {
			p = p[:f.headers+f.payload]
		}
		if !bytes.HasPrefix(p, pieces[1]) || study(p).flow && len(p) != len(pieces[1]) {
			t.Fatalf("unit %d, packet %d: not the original bytes", i, n)
		}
		n++
	})
	if n != len(list) {
		t.Fatalf("unit %d: %d packets one by one, want %d", i, n, len(list))
	}
}

// stream returns count packets of d's flow, n bytes of payload each.
func stream(d inner, count, n int) (out [][]byte) {
	for range count {
		out = append(out, d.build())
		d = d.after(n)
	}
	return out
}

func TestGROLimits(t *testing.T) {
	sizes := func(g *GRO) (out []int) {
		for _, u := range unitsOf(g) {
			out = append(out, len(u))
		}
		return out
	}
	for _, c := range []struct {
		name  string
		d     inner
		count int
		o     Options
		want  []int
	}{
		{"64 packets", tcp4(100), 150, everything, []int{64, 64, 22}},
		{"64 packets, UDP", udp6(100), 65, everything, []int{64, 1}},
		{"64 KiB", tcp4(1368), 100, everything, []int{47, 47, 6}},
		{"64 KiB, IPv6", tcp6(1348), 100, everything, []int{48, 48, 4}},
		{"two large ones", udp4(32700), 4, everything, []int{2, 2}},
		{"room for a link header", udp4(32744), 4, everything, []int{1, 1, 1, 1}},
		{"largest", udp4(65507), 2, everything, []int{1, 1}},
		{"at most 10", tcp4(100), 25, Options{TSO: true, MaxPackets: 10}, []int{10, 10, 5}},
		{"at most 1", tcp4(100), 3, Options{TSO: true, USO: true, MaxPackets: 1}, []int{1, 1, 1}},
		{"no TSO", tcp4(100), 3, Options{USO: true}, []int{1, 1, 1}},
		{"no USO", udp4(100), 3, Options{TSO: true}, []int{1, 1, 1}},
		{"more than 64 asked for", tcp4(100), 70, Options{TSO: true, MaxPackets: 1000}, []int{64, 6}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewGRO(c.o)
			packets := stream(c.d, c.count, len(c.d.payload))
			add(t, g, packets)
			if got := sizes(g); !slices.Equal(got, c.want) {
				t.Errorf("units of %v packets, want %v", got, c.want)
			}
			checkGRO(t, g, packets, c.o)
		})
	}
}

func TestGROCapacity(t *testing.T) {
	g := NewGRO(everything)
	packets := stream(tcp4(100), Capacity, 100)
	for range 2 {
		add(t, g, packets)
		if g.Len() != Capacity || g.Add(packets[0]) || g.Len() != Capacity {
			t.Fatalf("%d packets", g.Len())
		}
		checkGRO(t, g, packets, everything)
		g.Reset()
		if g.Len() != 0 || g.Units() != 0 {
			t.Fatalf("%d packets, %d units after Reset", g.Len(), g.Units())
		}
	}
	if size := unsafe.Sizeof(*g); size > 90<<10 {
		t.Errorf("a GRO has %d bytes, the documentation says about 85 KiB", size)
	}
}

// TestGROForgets checks that nothing joins a packet from before a Reset.
func TestGROForgets(t *testing.T) {
	g := NewGRO(everything)
	d := tcp4(100)
	add(t, g, [][]byte{d.build()})
	add(t, g, [][]byte{d.after(100).build()})
	if got := unitsOf(g); !reflect.DeepEqual(got, [][]int{{0}}) {
		t.Errorf("units %v", got)
	}
}

func TestGROSetOptions(t *testing.T) {
	g := NewGRO(everything)
	packets := stream(tcp4(100), 4, 100)
	g.Add(packets[0])
	g.Add(packets[1])
	g.SetOptions(Options{})
	g.Add(packets[2])
	g.Add(packets[3])
	if got := unitsOf(g); !reflect.DeepEqual(got, [][]int{{0, 1}, {2}, {3}}) {
		t.Errorf("units %v", got)
	}
}

// TestGROInterleaved has 16 flows that take turns: each becomes one unit, unless
// more than four of them share a set of the table.
func TestGROInterleaved(t *testing.T) {
	g := NewGRO(everything)
	var packets [][]byte
	flows := make([]inner, 16)
	for i := range flows {
		flows[i] = []inner{tcp4(500), tcp6(500), udp4(500), udp6(500)}[i%4]
		flows[i].sport += uint16(i)
	}
	for range 20 {
		for i := range flows {
			packets = append(packets, flows[i].build())
			flows[i] = flows[i].after(500)
		}
	}
	add(t, g, packets)
	if g.Units() != 16 {
		t.Errorf("%d units, want 16", g.Units())
	}
	checkGRO(t, g, packets, everything)
}
