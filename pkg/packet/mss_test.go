// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"
)

func TestClampMSS(t *testing.T) {
	mss := func(v uint16) []byte { return []byte{2, 4, byte(v >> 8), byte(v)} }
	cat := func(p ...[]byte) []byte { return bytes.Join(p, nil) }
	families := []struct {
		name     string
		src, dst netip.Addr
		less     uint16
	}{{"IPv4", addr4A, addr4B, 0}, {"IPv6", addr6A, addr6B, 20}}
	for _, f := range families {
		for _, c := range []struct {
			name    string
			flags   uint8
			options []byte
			payload []byte
			at      int // offset of the MSS value in the options; -1: must not change
		}{
			{"first option", TCPSyn, mss(1460), nil, 2},
			{"SYN-ACK", TCPSyn | TCPAck, mss(1460), nil, 2},
			{"behind others", TCPSyn, cat([]byte{4, 2, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8}, mss(8960)), nil, 14},
			{"odd offset", TCPSyn, cat([]byte{1}, mss(1460), []byte{1, 1, 0}), nil, 3},
			{"odd offset, odd kind before", TCPSyn, cat([]byte{3, 3, 7}, mss(65535), []byte{0}), nil, 5},
			{"with data", TCPSyn, mss(1460), []byte("fast open data"), 2},
			{"with odd data", TCPSyn, cat([]byte{1}, mss(1460), []byte{1, 1, 1}), []byte("odd"), 3},
			{"low enough", TCPSyn, mss(1300), nil, -1},
			{"equal", TCPSyn, mss(1380 - f.less), nil, -1},
			{"no SYN", TCPAck, mss(1460), nil, -1},
			{"no option", TCPSyn, []byte{1, 1, 1, 0}, nil, -1},
			{"no options at all", TCPSyn, nil, nil, -1},
			{"behind end of list", TCPSyn, cat([]byte{0, 0, 0, 0}, mss(1460)), nil, -1},
			{"length 0", TCPSyn, cat([]byte{8, 0, 1, 1}, mss(1460)), nil, -1},
			{"length 1", TCPSyn, cat([]byte{8, 1, 1, 1}, mss(1460)), nil, -1},
			{"runs past the header", TCPSyn, []byte{1, 1, 2, 4}, nil, -1},
			{"kind at the very end", TCPSyn, []byte{1, 1, 1, 2}, nil, -1},
			{"wrong length", TCPSyn, []byte{2, 3, 0xff, 1}, nil, -1},
			{"option of 255", TCPSyn, cat([]byte{9, 255, 0, 0}, mss(1460)), nil, -1},
		} {
			t.Run(f.name+" "+c.name, func(t *testing.T) {
				pkt := ipPacket(f.src, f.dst, ProtoTCP, 0, nil, tcpSegment(f.src, f.dst, c.flags, c.options, c.payload))
				before := bytes.Clone(pkt)
				if changed := ClampMSS(pkt, 1380, false); changed != (c.at >= 0) {
					t.Fatalf("changed %v", changed)
				}
				if c.at < 0 {
					if !bytes.Equal(pkt, before) {
						t.Fatal("bytes changed")
					}
					return
				}
				l4 := len(pkt) - 20 - len(c.options) - len(c.payload)
				if !transportValid(f.src, f.dst, ProtoTCP, pkt[l4:]) {
					t.Error("checksum is wrong now")
				}
				value := pkt[l4+20+c.at:]
				if got := binary.BigEndian.Uint16(value); got != 1380-f.less {
					t.Errorf("MSS %d, want %d", got, 1380-f.less)
				}
				// With everything put back, nothing else may have changed.
				copy(value, c.options[c.at:c.at+2])
				copy(pkt[l4+16:l4+18], before[l4+16:])
				if !bytes.Equal(pkt, before) {
					t.Error("other bytes changed")
				}
				partial := bytes.Clone(before)
				if !ClampMSS(partial, 1380, true) {
					t.Error("partial: not changed")
				}
				if !bytes.Equal(partial[l4+16:l4+18], before[l4+16:l4+18]) {
					t.Error("partial: checksum field changed")
				}
			})
		}
	}
}

func TestClampMSSLeavesAlone(t *testing.T) {
	syn4 := func() []byte {
		return ipPacket(addr4A, addr4B, ProtoTCP, 0, nil, tcpSegment(addr4A, addr4B, TCPSyn, []byte{2, 4, 5, 180}, nil))
	}
	later := syn4()
	later[7] = 1
	udp := syn4()
	udp[9] = ProtoUDP
	doff := syn4()
	doff[IPv4Len+12] = 0xf0
	short := syn4()
	short[IPv4Len+12] = 0x40
	for name, pkt := range map[string][]byte{"later fragment": later, "UDP": udp, "data offset past the end": doff, "data offset 4": short} {
		if ClampMSS(pkt, 1380, false) {
			t.Errorf("%s: changed", name)
		}
	}
	full := syn4()
	for n := range len(full) {
		if ClampMSS(full[:n], 1380, false) {
			t.Errorf("cut to %d: changed", n)
		}
	}
	syn6 := ipPacket(addr6A, addr6B, ProtoTCP, 0, nil, tcpSegment(addr6A, addr6B, TCPSyn, []byte{2, 4, 5, 180}, nil))
	if ClampMSS(syn6, 20, false) {
		t.Error("an IPv4 MSS of 20 leaves nothing for IPv6")
	}
}

func FuzzClampMSS(f *testing.F) {
	f.Add([]byte{2, 4, 5, 180}, []byte("data"), uint16(1380), false)
	f.Add([]byte{1, 2, 4, 255, 255, 1, 2, 4, 200, 0, 0, 0}, []byte("d"), uint16(1), true)
	f.Fuzz(func(t *testing.T, options, payload []byte, mss uint16, v6 bool) {
		options = options[:min(len(options), 40)&^3]
		payload = payload[:min(len(payload), 1000)]
		src, dst := addr4A, addr4B
		if v6 {
			src, dst = addr6A, addr6B
		}
		pkt := ipPacket(src, dst, ProtoTCP, 0, nil, tcpSegment(src, dst, TCPSyn, options, payload))
		before := bytes.Clone(pkt)
		changed := ClampMSS(pkt, mss, false)
		if !changed && !bytes.Equal(pkt, before) {
			t.Fatal("changed without saying so")
		}
		l4 := len(pkt) - 20 - len(options) - len(payload)
		if !transportValid(src, dst, ProtoTCP, pkt[l4:]) {
			t.Fatalf("checksum is wrong after clamping % x to %d", options, mss)
		}
		if ClampMSS(pkt, mss, false) {
			t.Fatal("a second time changed it again")
		}
	})
}
