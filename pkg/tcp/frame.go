// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"encoding/binary"
	"errors"
)

// PrefixLen is the length in bytes of the length in front of each packet.
const PrefixLen = 2

// MaxPacket is the longest packet that a length can tell.
const MaxPacket = 1<<16 - 1

// ErrFrame says that a connection carried a length of 0 or above the limit:
// nothing behind it can be understood.
var ErrFrame = errors.New("length of a packet is out of range")

// Prefix reads the length of a packet from b[:PrefixLen].
func Prefix(b []byte) int { return int(binary.BigEndian.Uint16(b)) }

// PutPrefix writes the length n of a packet, 1 to MaxPacket, to b[:PrefixLen].
func PutPrefix(b []byte, n int) { binary.BigEndian.PutUint16(b, uint16(n)) }

// Split divides b, bytes of a stream that begin at a length, into packets without
// their lengths. It appends them to into, which it does not grow: with no more
// room it stops. It returns the packets and what is left: a packet that is not
// whole yet, or those that found no room. With ErrFrame the packets in front of
// the bad length are returned too. limit is the longest packet allowed. Packets
// are parts of b and may be extended into what follows them.
func Split(b []byte, into [][]byte, limit int) (packets [][]byte, rest []byte, err error) {
	for len(b) >= PrefixLen && len(into) < cap(into) {
		n := Prefix(b)
		if n == 0 || n > limit {
			return into, b, ErrFrame
		}
		if len(b) < PrefixLen+n {
			break
		}
		into = append(into, b[PrefixLen:PrefixLen+n])
		b = b[PrefixLen+n:]
	}
	return into, b, nil
}

// whole returns how many frames of b, which holds nothing but whole frames, end
// within its first n bytes, and where the last of them ends.
func whole(b []byte, n int) (frames, end int) {
	for end < len(b) {
		next := end + frameLen(b[end:])
		if next > n {
			break
		}
		end = next
		frames++
	}
	return frames, end
}

// frameLen is the length of the frame that b begins with, its own length included.
func frameLen(b []byte) int { return PrefixLen + Prefix(b) }
