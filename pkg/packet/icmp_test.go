// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"testing"
)

var (
	router4 = netip.MustParseAddr("10.9.0.1")
	router6 = netip.MustParseAddr("fd00:9::1")
)

// A UDP datagram with the payload "hi!", and the answers about it. The bytes come
// from an independent program.
const (
	quoted4 = "4500001f123440003f113d63c0000201c633640203e807d0000b7e7f686921"
	quoted6 = "60000000000b113f20010db800000000000000000000000120010db800010000" +
		"000000000000000203e807d0000b0f41686921"
	unreachable4 = "45c0003b0000400040016df70a090001c00002010300e953000000004500001f" +
		"123440003f113d63c0000201c633640203e807d0000b7e7f686921"
	unreachable6 = "60000000003b3a40fd00000900000000000000000000000120010db800000000" +
		"0000000000000001010062970000000060000000000b113f20010db800000000" +
		"000000000000000120010db800010000000000000000000203e807d0000b0f41" +
		"686921"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestICMPGolden(t *testing.T) {
	for _, c := range []struct {
		name, quoted, want string
		from               netip.Addr
	}{
		{"network unreachable", quoted4, unreachable4, router4},
		{"no route", quoted6, unreachable6, router6},
	} {
		t.Run(c.name, func(t *testing.T) {
			dst := bytes.Repeat([]byte{0xa5}, MaxICMP)
			pkt := append(unhex(t, c.quoted), 0, 0) // padding is not quoted
			n := Unreachable(dst, pkt, c.from)
			if got := hex.EncodeToString(dst[:n]); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if !bytes.Equal(dst[n:], bytes.Repeat([]byte{0xa5}, MaxICMP-n)) {
				t.Error("wrote behind the answer")
			}
		})
	}
}

func TestICMPLengths(t *testing.T) {
	dst := make([]byte, MaxICMP)
	big4 := ipPacket(addr4A, addr4B, ProtoUDP, 0, nil, udpDatagram(addr4A, addr4B, 1, 2, make([]byte, 60000)))
	big6 := ipPacket(addr6A, addr6B, ProtoUDP, 0, nil, udpDatagram(addr6A, addr6B, 1, 2, make([]byte, 60000)))
	if n := Unreachable(dst, big4, router4); n != 576 || !icmpValid(dst[:n]) {
		t.Errorf("IPv4: %d bytes", n)
	}
	if n := Unreachable(dst, big6, router6); n != 1280 || !icmpValid(dst[:n]) {
		t.Errorf("IPv6: %d bytes", n)
	}
	if n := Unreachable(dst[:56], big4, router4); n != 56 || !icmpValid(dst[:n]) {
		t.Errorf("IPv4 into 56 bytes: %d", n)
	}
	for room := range 56 {
		if n := Unreachable(dst[:room], big4, router4); n != 0 {
			t.Errorf("IPv4 into %d bytes: %d", room, n)
		}
	}
	if n := Unreachable(dst[:95], big6, router6); n != 0 {
		t.Errorf("IPv6 into 95 bytes: %d", n)
	}
}

// icmpValid checks lengths and checksums of an answer by the slow sum.
func icmpValid(b []byte) bool {
	ip, ok := ParseIP(b)
	if !ok || ip.TotalLen != len(b) {
		return false
	}
	if ip.Version == 4 {
		return naiveSum(b[:20], 0) == 0xffff && naiveSum(b[20:], 0) == 0xffff
	}
	src, _ := Source(b)
	dst, _ := Destination(b)
	return transportValid(src, dst, ProtoICMPv6, b[40:])
}

func TestICMPNoAnswer(t *testing.T) {
	v4 := func(change func(p []byte)) []byte {
		p := unhex(t, quoted4)
		change(p)
		return p
	}
	v6 := func(change func(p []byte)) []byte {
		p := unhex(t, quoted6)
		change(p)
		return p
	}
	address := func(at int, a string) func([]byte) {
		return func(p []byte) { copy(p[at:], netip.MustParseAddr(a).AsSlice()) }
	}
	icmp4 := func(kind byte) func([]byte) { return func(p []byte) { p[9], p[20] = ProtoICMP, kind } }
	icmp6 := func(kind byte) func([]byte) { return func(p []byte) { p[6], p[40] = ProtoICMPv6, kind } }
	for _, c := range []struct {
		name   string
		pkt    []byte
		from   netip.Addr
		answer bool
	}{
		{"IPv4", v4(func([]byte) {}), router4, true},
		{"IPv6", v6(func([]byte) {}), router6, true},
		{"from of the other family", v4(func([]byte) {}), router6, false},
		{"from of the other family, IPv6", v6(func([]byte) {}), router4, false},
		{"mapped from", v6(func([]byte) {}), netip.MustParseAddr("::ffff:10.9.0.1"), false},
		{"no from", v4(func([]byte) {}), netip.Addr{}, false},
		{"source 0.0.0.0", v4(address(12, "0.0.0.0")), router4, false},
		{"source 127.0.0.1", v4(address(12, "127.0.0.1")), router4, false},
		{"source 224.0.0.1", v4(address(12, "224.0.0.1")), router4, false},
		{"source 240.0.0.1", v4(address(12, "240.0.0.1")), router4, false},
		{"source 255.255.255.255", v4(address(12, "255.255.255.255")), router4, false},
		{"destination 239.1.1.1", v4(address(16, "239.1.1.1")), router4, false},
		{"destination 255.255.255.255", v4(address(16, "255.255.255.255")), router4, false},
		{"source ::", v6(address(8, "::")), router6, false},
		{"source ::1", v6(address(8, "::1")), router6, false},
		{"source ff02::1", v6(address(8, "ff02::1")), router6, false},
		{"destination ff0e::1", v6(address(24, "ff0e::1")), router6, false},
		{"first fragment", v4(func(p []byte) { p[6] = 0x60 }), router4, true},
		{"later fragment", v4(func(p []byte) { p[7] = 1 }), router4, false},
		{"without DF", v4(func(p []byte) { p[6] = 0 }), router4, true},
		{"echo request", v4(icmp4(8)), router4, true},
		{"echo reply", v4(icmp4(0)), router4, true},
		{"unreachable", v4(icmp4(3)), router4, false},
		{"redirect", v4(icmp4(5)), router4, false},
		{"time exceeded", v4(icmp4(11)), router4, false},
		{"parameter problem", v4(icmp4(12)), router4, false},
		{"unknown ICMP type", v4(icmp4(200)), router4, false},
		{"ICMP without a type", v4(func(p []byte) { p[9], p[3] = ProtoICMP, 20 }), router4, false},
		{"echo request, IPv6", v6(icmp6(128)), router6, true},
		{"unreachable, IPv6", v6(icmp6(1)), router6, false},
		{"too big, IPv6", v6(icmp6(2)), router6, false},
		{"unknown error, IPv6", v6(icmp6(127)), router6, false},
		{"redirect, IPv6", v6(icmp6(137)), router6, false},
		{"ICMPv6 without a type", v6(func(p []byte) { p[6], p[5] = ProtoICMPv6, 0 }), router6, false},
		{"not IP", []byte{0x2a, 0x18, 0x7b, 0xf3}, router4, false},
		{"cut", v4(func([]byte) {})[:30], router4, false},
		{"empty", nil, router4, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dst := bytes.Repeat([]byte{0xa5}, MaxICMP)
			n := Unreachable(dst, c.pkt, c.from)
			if (n > 0) != c.answer {
				t.Errorf("%d bytes", n)
			}
			if n > 0 && !icmpValid(dst[:n]) {
				t.Errorf("invalid answer % x", dst[:n])
			}
			if n == 0 && !bytes.Equal(dst, bytes.Repeat([]byte{0xa5}, MaxICMP)) {
				t.Error("wrote although there is no answer")
			}
		})
	}
}

func FuzzICMP(f *testing.F) {
	f.Add(unhex(f, quoted4), 1280)
	f.Add(unhex(f, quoted6), 100)
	f.Fuzz(func(t *testing.T, pkt []byte, room int) {
		dst := make([]byte, min(max(room, 0), MaxICMP))
		for _, from := range []netip.Addr{router4, router6} {
			if n := Unreachable(dst, pkt, from); n > 0 {
				if !icmpValid(dst[:n]) {
					t.Fatalf("invalid answer % x", dst[:n])
				}
				// No answer to an answer, ever.
				if Unreachable(make([]byte, MaxICMP), dst[:n], from) != 0 {
					t.Fatal("an ICMP error was answered")
				}
			}
		}
	})
}

func TestAnswersAllocateNothing(t *testing.T) {
	dst := make([]byte, MaxICMP)
	p4, p6 := unhex(t, quoted4), unhex(t, quoted6)
	syn := ipPacket(addr4A, addr4B, ProtoTCP, 0, nil, tcpSegment(addr4A, addr4B, TCPSyn, []byte{2, 4, 5, 180}, nil))
	if n := testing.AllocsPerRun(100, func() {
		Unreachable(dst, p4, router4)
		Unreachable(dst, p6, router6)
		ClampMSS(syn, 1380, false)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
