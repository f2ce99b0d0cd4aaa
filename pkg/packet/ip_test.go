// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"net/netip"
	"testing"
)

func TestParseIP(t *testing.T) {
	udp4 := udpDatagram(addr4A, addr4B, 1, 2, record)
	udp6 := udpDatagram(addr6A, addr6B, 1, 2, record)
	fragment := func(off uint16, more bool) []byte {
		b := []byte{ProtoUDP, 0, byte(off >> 8), byte(off), 0, 0, 0, 1}
		if more {
			b[3] |= 1
		}
		return b
	}
	fragment4 := func(hi, lo byte) []byte {
		p := ipPacket(addr4A, addr4B, ProtoUDP, 0, nil, udp4)
		p[6], p[7] = hi, lo
		return p
	}
	for _, c := range []struct {
		name string
		pkt  []byte
		want IP
	}{
		{"IPv4", ipPacket(addr4A, addr4B, ProtoUDP, 0, nil, udp4),
			IP{Version: 4, Protocol: ProtoUDP, HeaderLen: 20, TotalLen: 20 + len(udp4), DF: true}},
		{"IPv4 options", ipPacket(addr4A, addr4B, ProtoUDP, 0, []byte{1, 1, 1, 0}, udp4),
			IP{Version: 4, Protocol: ProtoUDP, HeaderLen: 24, TotalLen: 24 + len(udp4), DF: true, Options: true}},
		{"IPv4 first fragment", fragment4(0x20, 0),
			IP{Version: 4, Protocol: ProtoUDP, HeaderLen: 20, TotalLen: 20 + len(udp4), Fragment: true}},
		{"IPv4 last fragment", fragment4(0x01, 0x02),
			IP{Version: 4, Protocol: ProtoUDP, HeaderLen: 20, TotalLen: 20 + len(udp4), Fragment: true, Offset: 0x102 * 8}},
		{"IPv6", ipPacket(addr6A, addr6B, ProtoUDP, 0, nil, udp6),
			IP{Version: 6, Protocol: ProtoUDP, HeaderLen: 40, TotalLen: 40 + len(udp6)}},
		{"IPv6 chain", ipPacket(addr6A, addr6B, ProtoUDP, ProtoHopByHop, []byte{
			ProtoRouting, 0, 1, 4, 0, 0, 0, 0,
			ProtoDestOpts, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
			ProtoAH, 0, 1, 4, 0, 0, 0, 0,
			ProtoUDP, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		}, udp6), IP{Version: 6, Protocol: ProtoUDP, HeaderLen: 84, TotalLen: 84 + len(udp6), Options: true}},
		{"IPv6 first fragment", ipPacket(addr6A, addr6B, ProtoUDP, ProtoFragment, fragment(0, true), udp6),
			IP{Version: 6, Protocol: ProtoUDP, HeaderLen: 48, TotalLen: 48 + len(udp6), Options: true, Fragment: true}},
		{"IPv6 later fragment", ipPacket(addr6A, addr6B, ProtoUDP, ProtoFragment, fragment(1232, true), udp6),
			IP{Version: 6, Protocol: ProtoUDP, HeaderLen: 48, TotalLen: 48 + len(udp6), Options: true, Fragment: true, Offset: 1232}},
		{"IPv6 atomic fragment", ipPacket(addr6A, addr6B, ProtoUDP, ProtoFragment, fragment(0, false), udp6),
			IP{Version: 6, Protocol: ProtoUDP, HeaderLen: 48, TotalLen: 48 + len(udp6), Options: true}},
		{"IPv6 no next header", ipPacket(addr6A, addr6B, ProtoNoNext, 0, nil, nil),
			IP{Version: 6, Protocol: ProtoNoNext, HeaderLen: 40, TotalLen: 40}},
	} {
		t.Run(c.name, func(t *testing.T) {
			padded := append(append([]byte{}, c.pkt...), 0, 0, 0)
			if got, ok := ParseIP(padded); !ok || got != c.want {
				t.Errorf("ok %v\n got %+v\nwant %+v", ok, got, c.want)
			}
			for n := range len(c.pkt) {
				if _, ok := ParseIP(c.pkt[:n]); ok {
					t.Errorf("parsed although cut to %d of %d bytes", n, len(c.pkt))
				}
			}
		})
	}
}

func TestParseIPRefuses(t *testing.T) {
	v4 := func(change func(p []byte)) []byte {
		p := ipPacket(addr4A, addr4B, ProtoUDP, 0, nil, udpDatagram(addr4A, addr4B, 1, 2, record))
		change(p)
		return p
	}
	for name, pkt := range map[string][]byte{
		"empty":                nil,
		"version 5":            v4(func(p []byte) { p[0] = 0x55 }),
		"header length 16":     v4(func(p []byte) { p[0] = 0x44 }),
		"total below header":   v4(func(p []byte) { p[2], p[3] = 0, 19 }),
		"total length 0":       v4(func(p []byte) { p[2], p[3] = 0, 0 }),
		"jumbogram":            append(ipPacket(addr6A, addr6B, ProtoHopByHop, 0, nil, nil), ProtoUDP, 0, 0xc2, 4, 0, 1, 0, 0),
		"extension past end":   ipPacket(addr6A, addr6B, ProtoUDP, ProtoDestOpts, []byte{ProtoUDP, 9, 0, 0, 0, 0, 0, 0}, nil),
		"chain without an end": ipPacket(addr6A, addr6B, ProtoUDP, ProtoDestOpts, []byte{ProtoDestOpts, 0, 0, 0, 0, 0, 0, 0}, nil),
	} {
		if ip, ok := ParseIP(pkt); ok {
			t.Errorf("%s: accepted as %+v", name, ip)
		}
	}
}

func TestAddresses(t *testing.T) {
	p4 := ipPacket(addr4A, addr4B, ProtoUDP, 0, nil, nil)
	p6 := ipPacket(addr6A, addr6B, ProtoUDP, 0, nil, nil)
	check := func(name string, pkt []byte, src, dst netip.Addr) {
		t.Helper()
		if a, ok := Source(pkt); ok != src.IsValid() || a != src {
			t.Errorf("%s: source %v %v, want %v", name, a, ok, src)
		}
		if a, ok := Destination(pkt); ok != dst.IsValid() || a != dst {
			t.Errorf("%s: destination %v %v, want %v", name, a, ok, dst)
		}
	}
	check("IPv4", p4, addr4A, addr4B)
	check("IPv6", p6, addr6A, addr6B)
	check("IPv4 cut", p4[:19], netip.Addr{}, netip.Addr{})
	check("IPv6 cut", p6[:39], netip.Addr{}, netip.Addr{})
	check("empty", nil, netip.Addr{}, netip.Addr{})
	mapped := netip.MustParseAddr("::ffff:192.0.2.1")
	copy(p6[8:], mapped.AsSlice())
	check("mapped", p6, mapped, addr6B)
}

func FuzzParseIP(f *testing.F) {
	f.Add(ipPacket(addr4A, addr4B, ProtoUDP, 0, []byte{1, 1, 1, 1}, record))
	f.Add(ipPacket(addr6A, addr6B, ProtoUDP, ProtoHopByHop, []byte{ProtoFragment, 0, 1, 4, 0, 0, 0, 0, ProtoUDP, 0, 0, 1, 0, 0, 0, 0}, record))
	f.Fuzz(func(t *testing.T, pkt []byte) {
		ip, ok := ParseIP(pkt)
		if !ok {
			return
		}
		if ip.TotalLen > len(pkt) || ip.HeaderLen > ip.TotalLen || ip.Version != 4 && ip.Version != 6 {
			t.Fatalf("%+v from %d bytes", ip, len(pkt))
		}
		if _, ok := Source(pkt); !ok {
			t.Fatal("parsed, but has no source")
		}
	})
}
