// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"encoding/binary"
	"math/bits"
)

// Checksum adds the bytes of b, as big-endian 16-bit words, to the
// ones'-complement sum initial and returns the new sum, not folded. An odd last
// byte counts as the high half of a word, so only the last piece of a sum over
// several pieces may have an odd length. It adds at most 0xffff, so sums of a few
// calls may be added with +. b is only read.
//
// The sum of RFC 1071 does not depend on byte order: the words are added in the
// machine's order, eight bytes at a time, and the bytes of the result swapped once.
func Checksum(b []byte, initial uint64) uint64 {
	var s0, s1, c uint64
	// Two accumulators: add-with-carry has a latency of one cycle, and two chains
	// that do not depend on each other run side by side.
	for len(b) >= 128 {
		p := b[:128:128]
		s0, c = bits.Add64(s0, binary.LittleEndian.Uint64(p[0:]), 0)
		s0, c = bits.Add64(s0, binary.LittleEndian.Uint64(p[8:]), c)
		s0, c = bits.Add64(s0, binary.LittleEndian.Uint64(p[16:]), c)
		s0, c = bits.Add64(s0, binary.LittleEndian.Uint64(p[24:]), c)
		s0, c = bits.Add64(s0, binary.LittleEndian.Uint64(p[32:]), c)
		s0, c = bits.Add64(s0, binary.LittleEndian.Uint64(p[40:]), c)
		s0, c = bits.Add64(s0, binary.LittleEndian.Uint64(p[48:]), c)
		s0, c = bits.Add64(s0, binary.LittleEndian.Uint64(p[56:]), c)
		s0 += c
		s1, c = bits.Add64(s1, binary.LittleEndian.Uint64(p[64:]), 0)
		s1, c = bits.Add64(s1, binary.LittleEndian.Uint64(p[72:]), c)
		s1, c = bits.Add64(s1, binary.LittleEndian.Uint64(p[80:]), c)
		s1, c = bits.Add64(s1, binary.LittleEndian.Uint64(p[88:]), c)
		s1, c = bits.Add64(s1, binary.LittleEndian.Uint64(p[96:]), c)
		s1, c = bits.Add64(s1, binary.LittleEndian.Uint64(p[104:]), c)
		s1, c = bits.Add64(s1, binary.LittleEndian.Uint64(p[112:]), c)
		s1, c = bits.Add64(s1, binary.LittleEndian.Uint64(p[120:]), c)
		s1 += c
		b = b[128:]
	}
	s0, c = bits.Add64(s0, s1, 0)
	if len(b) >= 64 {
		p := b[:64:64]
		s0, c = bits.Add64(s0, binary.LittleEndian.Uint64(p[0:]), c)
		s0, c = bits.Add64(s0, binary.LittleEndian.Uint64(p[8:]), c)
		s0, c = bits.Add64(s0, binary.LittleEndian.Uint64(p[16:]), c)
		s0, c = bits.Add64(s0, binary.LittleEndian.Uint64(p[24:]), c)
		s0, c = bits.Add64(s0, binary.LittleEndian.Uint64(p[32:]), c)
		s0, c = bits.Add64(s0, binary.LittleEndian.Uint64(p[40:]), c)
		s0, c = bits.Add64(s0, binary.LittleEndian.Uint64(p[48:]), c)
		s0, c = bits.Add64(s0, binary.LittleEndian.Uint64(p[56:]), c)
		b = b[64:]
	}
	for len(b) >= 8 {
		s0, c = bits.Add64(s0, binary.LittleEndian.Uint64(b), c)
		b = b[8:]
	}
	if len(b) > 0 {
		var tail uint64
		if len(b) >= 4 {
			tail = uint64(binary.LittleEndian.Uint32(b))
			b = b[4:]
			if len(b) >= 2 {
				tail |= uint64(binary.LittleEndian.Uint16(b)) << 32
				b = b[2:]
				if len(b) > 0 {
					tail |= uint64(b[0]) << 48
				}
			} else if len(b) > 0 {
				tail |= uint64(b[0]) << 32
			}
		} else if len(b) >= 2 {
			tail = uint64(binary.LittleEndian.Uint16(b))
			b = b[2:]
			if len(b) > 0 {
				tail |= uint64(b[0]) << 16
			}
		} else {
			tail = uint64(b[0])
		}
		s0, c = bits.Add64(s0, tail, c)
	}
	s0, c = bits.Add64(s0, 0, c)
	s0 += c
	sum := uint64(bits.ReverseBytes16(Fold(s0)))
	sum, c = bits.Add64(sum, initial, 0)
	return sum + c
}

// Fold reduces a sum to 16 bits. The result is not complemented: a checksum
// field holds ^Fold(sum), and a sum over bytes that include a right checksum
// folds to 0xffff. Only a sum of zero folds to zero.
func Fold(sum uint64) uint16 {
	sum = sum>>32 + sum&0xffffffff
	sum = sum>>32 + sum&0xffffffff
	sum = sum>>16 + sum&0xffff
	sum = sum>>16 + sum&0xffff
	return uint16(sum)
}

// PseudoSum returns the sum over the pseudo header of TCP, UDP and ICMPv6 (RFC
// 9293 section 3.1, RFC 8200 section 8.1), not folded. src and dst have 4 or 16
// bytes each; length is that of the transport header and payload in bytes, 0 to
// 65,535.
func PseudoSum(src, dst []byte, proto uint8, length int) uint64 {
	return addressSum(src) + addressSum(dst) + uint64(proto) + uint64(uint32(length))
}

// addressSum adds the address in 32-bit halves, which cannot overflow 64 bits.
func addressSum(a []byte) uint64 {
	if len(a) == 4 {
		return uint64(binary.BigEndian.Uint32(a))
	}
	_ = a[15]
	return uint64(binary.BigEndian.Uint32(a)) + uint64(binary.BigEndian.Uint32(a[4:])) +
		uint64(binary.BigEndian.Uint32(a[8:])) + uint64(binary.BigEndian.Uint32(a[12:]))
}

// Update returns checksum field check after one 16-bit word under it changed
// from old to new (RFC 1624, equation 3). It never turns a right checksum into a
// wrong one, but may give the other form of zero.
func Update(check, old, new uint16) uint16 {
	return ^Fold(uint64(^check) + uint64(^old) + uint64(new))
}
