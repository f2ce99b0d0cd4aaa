// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"errors"
)

// MaxAcks is the most acks in one packet: stock OpenVPN refuses more.
const MaxAcks = 8

// ErrBody says that a packet does not have the layout of its opcode.
var ErrBody = errors.New("malformed control packet")

// Body is what follows the header.
type Body struct {
	Acks    [MaxAcks]uint32 // message ids of the receiver's, as many as NAcks says
	NAcks   int             // 0 to MaxAcks
	Remote  SessionID       // of the receiver; only with acks
	ID      uint32          // message id; not in ACK_V1
	Payload []byte          // not in ACK_V1; borrowed
}

// ParseBody reads the body of a packet with an opcode. The payload is a part
// of b. What stands behind an ACK_V1 is ignored. The error is ErrBody.
func ParseBody(opcode uint8, b []byte) (Body, error) {
	var x Body
	if len(b) < 1 || b[0] > MaxAcks {
		return x, ErrBody
	}
	x.NAcks, b = int(b[0]), b[1:]
	if len(b) < 4*x.NAcks {
		return x, ErrBody
	}
	for i := range x.NAcks {
		x.Acks[i] = binary.BigEndian.Uint32(b[4*i:])
	}
	b = b[4*x.NAcks:]
	if x.NAcks > 0 {
		if len(b) < len(x.Remote) {
			return x, ErrBody
		}
		b = b[copy(x.Remote[:], b):]
	}
	if opcode == AckV1 {
		return x, nil
	}
	if len(b) < 4 {
		return x, ErrBody
	}
	x.ID, x.Payload = binary.BigEndian.Uint32(b), b[4:]
	return x, nil
}

// Append appends the body for an opcode to dst. NAcks must be in its range.
func (x *Body) Append(opcode uint8, dst []byte) []byte {
	dst = append(dst, byte(x.NAcks))
	for _, id := range x.Acks[:x.NAcks] {
		dst = binary.BigEndian.AppendUint32(dst, id)
	}
	if x.NAcks > 0 {
		dst = append(dst, x.Remote[:]...)
	}
	if opcode == AckV1 {
		return dst
	}
	dst = binary.BigEndian.AppendUint32(dst, x.ID)
	return append(dst, x.Payload...)
}

// Early negotiation: a list of type (16 bits), length (16 bits) and value that
// stands in the payload of a server's reset.
const (
	earlyFlags = 1 // type of the flags, 16 bits
	// ResendWKC asks a tls-crypt-v2 client to send its wrapped key again with its
	// next packet, so that the server need keep nothing until then.
	ResendWKC uint16 = 1
)

// AppendEarlyNegotiation appends flags as a server sends them in its reset.
func AppendEarlyNegotiation(dst []byte, flags uint16) []byte {
	dst = binary.BigEndian.AppendUint16(dst, earlyFlags)
	dst = binary.BigEndian.AppendUint16(dst, 2)
	return binary.BigEndian.AppendUint16(dst, flags)
}

// ParseEarlyNegotiation returns the flags in the payload of a server's reset;
// other types are skipped. An empty payload has none. The error is ErrBody.
func ParseEarlyNegotiation(b []byte) (flags uint16, err error) {
	for len(b) > 0 {
		if len(b) < 4 {
			return 0, ErrBody
		}
		kind, n := binary.BigEndian.Uint16(b), int(binary.BigEndian.Uint16(b[2:]))
		if b = b[4:]; len(b) < n {
			return 0, ErrBody
		}
		if kind == earlyFlags {
			if n != 2 {
				return 0, ErrBody
			}
			flags = binary.BigEndian.Uint16(b)
		}
		b = b[n:]
	}
	return flags, nil
}
