// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"bytes"
	"net/netip"
	"testing"
)

var record = []byte("H record of some length")

func frame4(tags ...uint16) []byte {
	return ether(ipPacket(addr4A, addr4B, ProtoUDP, 0, nil, udpDatagram(addr4A, addr4B, 1194, 40000, record)), tags...)
}

func frame6(tags ...uint16) []byte {
	return ether(ipPacket(addr6A, addr6B, ProtoUDP, 0, nil, udpDatagram(addr6A, addr6B, 1194, 40000, record)), tags...)
}

func TestParseFrame(t *testing.T) {
	flow4 := Flow{Src: netip.AddrPortFrom(addr4A, 1194), Dst: netip.AddrPortFrom(addr4B, 40000), TTL: 63, DF: true}
	flow6 := Flow{Src: netip.AddrPortFrom(addr6A, 1194), Dst: netip.AddrPortFrom(addr6B, 40000), TTL: 63}
	for _, c := range []struct {
		name  string
		frame []byte
		flow  Flow
	}{
		{"IPv4", frame4(), flow4},
		{"IPv6", frame6(), flow6},
		{"IPv4 802.1Q", frame4(0x8100), flow4},
		{"IPv6 802.1ad", frame6(0x88a8), flow6},
	} {
		t.Run(c.name, func(t *testing.T) {
			// Padding to 60 bytes and beyond is not payload; the room behind is kept.
			padded := append(bytes.Clone(c.frame), make([]byte, 30)...)
			padded = append(padded, make([]byte, 100)...)[:len(c.frame)+30]
			f, payload, ok := ParseFrame(padded)
			if !ok || f != c.flow || !bytes.Equal(payload, record) {
				t.Fatalf("ok %v, flow %+v, payload %q", ok, f, payload)
			}
			if &payload[:cap(payload)][cap(payload)-1] != &padded[:cap(padded)][cap(padded)-1] {
				t.Error("capacity does not reach to the end of the frame's")
			}
			for n := range len(c.frame) {
				if _, _, ok := ParseFrame(c.frame[:n]); ok {
					t.Errorf("parsed although cut to %d of %d bytes", n, len(c.frame))
				}
			}
		})
	}
}

func TestParseFrameFields(t *testing.T) {
	f4 := frame4()
	f4[EthernetLen+1], f4[EthernetLen+8], f4[EthernetLen+6] = 0xb9, 1, 0
	if f, _, ok := ParseFrame(f4); !ok || f.TOS != 0xb9 || f.TTL != 1 || f.DF {
		t.Errorf("IPv4: ok %v, %+v", ok, f)
	}
	f6 := frame6()
	f6[EthernetLen], f6[EthernetLen+1], f6[EthernetLen+7] = 0x6b, 0x9f, 255
	if f, _, ok := ParseFrame(f6); !ok || f.TOS != 0xb9 || f.TTL != 255 || f.DF {
		t.Errorf("IPv6: ok %v, %+v", ok, f)
	}
	empty := ether(ipPacket(addr4A, addr4B, ProtoUDP, 0, nil, udpDatagram(addr4A, addr4B, 1, 2, nil)))
	if _, payload, ok := ParseFrame(empty); !ok || len(payload) != 0 {
		t.Errorf("empty datagram: ok %v, %d bytes", ok, len(payload))
	}
	zero := frame4()
	zero[EthernetLen+IPv4Len+6], zero[EthernetLen+IPv4Len+7] = 0, 0
	if _, _, ok := ParseFrame(zero); !ok {
		t.Error("IPv4 with UDP checksum 0 is legal")
	}
}

func TestParseFrameRefuses(t *testing.T) {
	const l3 = EthernetLen
	mutate := func(frame []byte, change func(b []byte)) []byte {
		change(frame)
		return frame
	}
	for name, frame := range map[string][]byte{
		"ARP":                     mutate(frame4(), func(b []byte) { b[13] = 0x06 }),
		"QinQ":                    frame4(0x88a8, 0x8100),
		"version 6 in IPv4":       mutate(frame4(), func(b []byte) { b[l3] = 0x65 }),
		"version 4 in IPv6":       mutate(frame6(), func(b []byte) { b[l3] = 0x40 }),
		"IPv4 options":            ether(ipPacket(addr4A, addr4B, ProtoUDP, 0, []byte{1, 1, 1, 1}, udpDatagram(addr4A, addr4B, 1, 2, record))),
		"IPv4 header too short":   mutate(frame4(), func(b []byte) { b[l3] = 0x44 }),
		"first fragment":          mutate(frame4(), func(b []byte) { b[l3+6] = 0x20 }),
		"later fragment":          mutate(frame4(), func(b []byte) { b[l3+7] = 1 }),
		"TCP":                     mutate(frame4(), func(b []byte) { b[l3+9] = ProtoTCP }),
		"IP length beyond frame":  mutate(frame4(), func(b []byte) { b[l3+3]++; b[l3+IPv4Len+5]++ }),
		"IP length below UDP's":   mutate(frame4(), func(b []byte) { b[l3+3]-- }),
		"UDP length below IP's":   mutate(frame4(), func(b []byte) { b[l3+IPv4Len+5]-- }),
		"UDP length 7":            mutate(frame4(), func(b []byte) { b[l3+3] = IPv4Len + 7; b[l3+IPv4Len+5] = 7 }),
		"IPv6 length beyond":      mutate(frame6(), func(b []byte) { b[l3+5]++; b[l3+IPv6Len+5]++ }),
		"IPv6 UDP length differs": mutate(frame6(), func(b []byte) { b[l3+IPv6Len+5]-- }),
		"IPv6 length 0":           mutate(frame6(), func(b []byte) { b[l3+5] = 0; b[l3+IPv6Len+5] = 0 }),
		"hop-by-hop":              ether(ipPacket(addr6A, addr6B, ProtoUDP, ProtoHopByHop, []byte{ProtoUDP, 0, 1, 4, 0, 0, 0, 0}, udpDatagram(addr6A, addr6B, 1, 2, record))),
		"mapped source":           mutate(frame6(), func(b []byte) { copy(b[l3+8:], netip.MustParseAddr("::ffff:192.0.2.1").AsSlice()) }),
		"mapped destination":      mutate(frame6(), func(b []byte) { copy(b[l3+24:], netip.MustParseAddr("::ffff:192.0.2.1").AsSlice()) }),
	} {
		if f, payload, ok := ParseFrame(frame); ok || payload != nil || f != (Flow{}) {
			t.Errorf("%s: accepted as %+v with %d bytes", name, f, len(payload))
		}
	}
}

func FuzzParseFrame(f *testing.F) {
	f.Add(frame4())
	f.Add(frame6())
	f.Add(frame4(0x8100))
	f.Add(frame6(0x88a8, 0x8100))
	f.Fuzz(func(t *testing.T, frame []byte) {
		flow, payload, ok := ParseFrame(frame)
		if !ok {
			return
		}
		if !flow.Src.IsValid() || !flow.Dst.IsValid() || flow.Src.Addr().Is4() != flow.Dst.Addr().Is4() {
			t.Fatalf("flow %+v", flow)
		}
		if len(payload) > len(frame)-EthernetLen-IPv4Len-UDPLen || cap(payload) > cap(frame) {
			t.Fatalf("payload of %d bytes, capacity %d, from %d", len(payload), cap(payload), len(frame))
		}
	})
}

func TestParseAllocatesNothing(t *testing.T) {
	f4, f6 := frame4(0x8100), frame6()
	var flows int
	if n := testing.AllocsPerRun(100, func() {
		for _, f := range [][]byte{f4, f6} {
			if flow, _, ok := ParseFrame(f); ok && flow.Src.IsValid() {
				flows++
			}
			inner := f[len(f)-20:]
			ParseIP(inner)
			Source(inner)
			Destination(inner)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if flows == 0 {
		t.Error("nothing parsed")
	}
}

func BenchmarkParseFrame(b *testing.B) {
	for name, frame := range map[string][]byte{"IPv4": frame4(), "IPv6": frame6()} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, _, ok := ParseFrame(frame); !ok {
					b.Fatal("not parsed")
				}
			}
		})
	}
}
