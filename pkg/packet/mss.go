// SPDX-License-Identifier: Apache-2.0

package packet

import "encoding/binary"

// TCP option kinds (RFC 9293, section 3.2).
const (
	optionEnd = 0
	optionNop = 1
	optionMSS = 2
)

// ClampMSS lowers the MSS option of a SYN or SYN-ACK to mss (bytes, for IPv4;
// IPv6 gets 20 less for its longer header) and reports whether it changed the
// packet. Everything else is left alone: other packets, an MSS that is low
// enough already, a SYN without the option (which means 536 or 1,220 bytes), and
// options that run past their header. pkt is changed in place.
//
// The TCP checksum is adjusted by the difference, so a wrong one stays wrong.
// With partial the field holds only the sum of the pseudo header, as in a packet
// with VIRTIO_NET_HDR_F_NEEDS_CSUM, and stays as it is.
func ClampMSS(pkt []byte, mss uint16, partial bool) bool {
	ip, ok := ParseIP(pkt)
	if !ok || ip.Protocol != ProtoTCP || ip.Offset != 0 || ip.HeaderLen+TCPLen > ip.TotalLen {
		return false
	}
	tcp := pkt[ip.HeaderLen:ip.TotalLen]
	if tcp[13]&TCPSyn == 0 {
		return false
	}
	if ip.Version == 6 {
		if mss <= IPv6Len-IPv4Len {
			return false
		}
		mss -= IPv6Len - IPv4Len
	}
	header := int(tcp[12]>>4) * 4
	if header < TCPLen || header > len(tcp) {
		return false
	}
	changed := false
	for at := TCPLen; at < header; {
		switch tcp[at] {
		case optionEnd:
			return changed
		case optionNop:
			at++
			continue
		}
		if at+2 > header {
			return changed
		}
		length := int(tcp[at+1])
		if length < 2 || at+length > header {
			return changed
		}
		if tcp[at] == optionMSS && length == 4 {
			if old := binary.BigEndian.Uint16(tcp[at+2:]); old > mss {
				binary.BigEndian.PutUint16(tcp[at+2:], mss)
				if !partial {
					adjust(tcp, at+2, old, mss)
				}
				changed = true
			}
		}
		at += length
	}
	return changed
}

// adjust corrects the checksum of a TCP header after the two bytes at offset at
// changed from old to new. At an odd offset the two bytes stand in the low half
// of one word and the high half of the next, which adds up to the swapped word.
func adjust(tcp []byte, at int, old, new uint16) {
	if at%2 != 0 {
		old, new = old<<8|old>>8, new<<8|new>>8
	}
	check := binary.BigEndian.Uint16(tcp[16:])
	binary.BigEndian.PutUint16(tcp[16:], Update(check, old, new))
}
