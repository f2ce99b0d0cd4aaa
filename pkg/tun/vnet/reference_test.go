// SPDX-License-Identifier: Apache-2.0

package vnet

import (
	"bytes"
	"encoding/binary"
	"net/netip"
)

// slowSegments splits a super-packet one packet at a time, each built from
// scratch: headers copied, fields written one by one, checksums summed slowly.
func slowSegments(h Header, pkt []byte, headers int) [][]byte {
	var out [][]byte
	l4, size := int(h.CsumStart), int(h.GSOSize)
	payload := pkt[headers:]
	count := max(1, (len(payload)+size-1)/size)
	for i := range count {
		part := payload[i*size : min((i+1)*size, len(payload))]
		p := append(bytes.Clone(pkt[:headers]), part...)
		var src, dst netip.Addr
		if p[0]>>4 == 4 {
			src, dst = netip.AddrFrom4([4]byte(p[12:])), netip.AddrFrom4([4]byte(p[16:]))
			binary.BigEndian.PutUint16(p[2:], uint16(len(p)))
			binary.BigEndian.PutUint16(p[4:], binary.BigEndian.Uint16(pkt[4:])+uint16(i))
			p[10], p[11] = 0, 0
			binary.BigEndian.PutUint16(p[10:], ^slowSum(p[:l4]))
		} else {
			src, dst = netip.AddrFrom16([16]byte(p[8:])), netip.AddrFrom16([16]byte(p[24:]))
			binary.BigEndian.PutUint16(p[4:], uint16(len(p)-40))
		}
		t := p[l4:]
		if h.GSOType == GSOUDPL4 {
			binary.BigEndian.PutUint16(t[4:], uint16(len(t)))
			t[6], t[7] = 0, 0
			check := ^slowSum(pseudo(src, dst, 17, len(t)), t)
			if check == 0 {
				check = 0xffff
			}
			binary.BigEndian.PutUint16(t[6:], check)
		} else {
			binary.BigEndian.PutUint32(t[4:], binary.BigEndian.Uint32(t[4:])+uint32(i*size))
			if i != count-1 {
				t[13] &^= 0x09
			}
			if i != 0 {
				t[13] &^= 0x80
			}
			if i != 0 && t[13]&0x20 != 0 {
				if urgent := int(binary.BigEndian.Uint16(t[18:])); urgent > i*size {
					binary.BigEndian.PutUint16(t[18:], uint16(urgent-i*size))
				} else {
					t[13] &^= 0x20
					t[18], t[19] = 0, 0
				}
			}
			t[16], t[17] = 0, 0
			binary.BigEndian.PutUint16(t[16:], ^slowSum(pseudo(src, dst, 6, len(t)), t))
		}
		out = append(out, p)
	}
	return out
}

// facts are what the slow GRO looks at in one packet.
type facts struct {
	flow      bool
	key       string // addresses, ports, protocol
	same      string // headers with everything blanked that may differ
	mergeable bool   // checksums included
	df, udp   bool
	id        uint16
	seq       uint32
	payload   int
	headers   int
	end       bool
	v4        bool
}

// study reads one packet slowly.
func study(p []byte) (f facts) {
	var src, dst []byte
	l4 := 20
	var proto byte
	switch {
	case len(p) >= 20 && p[0] == 0x45:
		total := int(binary.BigEndian.Uint16(p[2:]))
		if total < 20 || total > len(p) || binary.BigEndian.Uint16(p[6:])&0x3fff != 0 {
			return f
		}
		p = p[:total]
		f.v4, f.df, f.id = true, p[6]&0x40 != 0, binary.BigEndian.Uint16(p[4:])
		src, dst, proto = p[12:16], p[16:20], p[9]
	case len(p) >= 40 && p[0]>>4 == 6:
		total := 40 + int(binary.BigEndian.Uint16(p[4:]))
		if total > len(p) {
			return f
		}
		p = p[:total]
		src, dst, proto, l4 = p[8:24], p[24:40], p[6], 40
	default:
		return f
	}
	t := p[l4:]
	switch {
	case proto == 6 && len(t) >= 20 && int(t[12]>>4) >= 5 && int(t[12]>>4)*4 <= len(t):
		f.headers = l4 + int(t[12]>>4)*4
		f.seq = binary.BigEndian.Uint32(t[4:])
		f.end = t[13]&0x09 != 0
		f.mergeable = t[13]&0xa6 == 0
	case proto == 17 && len(t) >= 8 && int(binary.BigEndian.Uint16(t[4:])) == len(t):
		f.udp = true
		f.headers = l4 + 8
		f.mergeable = binary.BigEndian.Uint16(t[6:]) != 0
		switch binary.BigEndian.Uint16(t[2:]) {
		case 4789, 4790, 8472, 6081:
			f.mergeable = false
		}
	default:
		return f
	}
	f.flow = true
	f.payload = len(p) - f.headers
	f.key = string(src) + string(dst) + string(t[:4]) + string(proto)
	b := bytes.Clone(p[:f.headers])
	if f.v4 {
		clear(b[2:6])
		clear(b[10:12])
	} else {
		clear(b[4:6])
	}
	if f.udp {
		clear(b[l4+4 : l4+8])
	} else {
		clear(b[l4+4 : l4+8])
		b[l4+13] &^= 0x09
		clear(b[l4+16 : l4+18])
	}
	f.same = string(b)
	length := binary.BigEndian.AppendUint32(nil, uint32(len(t)))
	sound := slowSum(src, dst, length, []byte{0, 0, 0, proto}, t) == 0xffff
	if f.v4 {
		sound = sound && slowSum(p[:20]) == 0xffff
	}
	f.mergeable = f.mergeable && f.payload > 0 && sound
	return f
}

// slowGRO decides which packets stand in one unit: lists of indexes.
func slowGRO(packets [][]byte, o Options) [][]int {
	type chain struct {
		at     int // index into units
		first  facts
		last   facts
		total  int
		grows  bool
		stays  bool
		closed bool
	}
	most := o.MaxPackets
	if most <= 0 || most > 64 {
		most = 64
	}
	var units [][]int
	open := map[string]*chain{}
	for i, p := range packets {
		f := study(p)
		if !f.flow {
			clear(open)
			units = append(units, []int{i})
			continue
		}
		if f.udp && !o.USO || !f.udp && !o.TSO {
			f.mergeable = false
		}
		c := open[f.key]
		fits := c != nil && !c.closed && f.mergeable && f.same == c.first.same && f.payload <= c.first.payload &&
			len(units[c.at]) < most && c.total+f.payload <= 65535-22 &&
			(f.udp || f.seq == c.last.seq+uint32(c.last.payload))
		if fits && f.v4 {
			switch f.id - c.last.id {
			case 1:
				fits = !c.stays
				c.grows = fits
			case 0:
				fits = f.df && !c.grows
				c.stays = fits
			default:
				fits = false
			}
		}
		if fits {
			units[c.at] = append(units[c.at], i)
			c.total += f.payload
			c.last = f
			c.closed = f.end || f.payload < c.first.payload
			continue
		}
		units = append(units, []int{i})
		open[f.key] = &chain{at: len(units) - 1, first: f, last: f, total: f.headers + f.payload, closed: !f.mergeable || f.end}
	}
	return units
}
