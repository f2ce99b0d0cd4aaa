// SPDX-License-Identifier: Apache-2.0

// Package wire reads and writes control channel packets as they are without
// any wrapping:
//
//	opcode and key id (1) | sender's session id (8) |
//	number of acks (1) | acked message ids (4 each) | receiver's session id (8, only with acks) |
//	message id (4, not in ACK_V1) | payload
//
// The first nine bytes, the header, are in clear with every wrapping. It does
// no I/O, has no clock and keeps no state.
package wire

import (
	"encoding/hex"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/record"
)

// Opcodes of packets that are understood; the others are obsolete or data.
const (
	ControlSoftResetV1       = record.ControlSoftResetV1
	ControlV1                = record.ControlV1
	AckV1                    = record.AckV1
	ControlHardResetClientV2 = record.ControlHardResetClientV2
	ControlHardResetServerV2 = record.ControlHardResetServerV2
	ControlHardResetClientV3 = record.ControlHardResetClientV3
	ControlWKCV1             = record.ControlWKCV1
)

// SessionID identifies one end of a session. It is random and never zero.
type SessionID [8]byte

// IsZero reports whether the id is the one that no session has.
func (id SessionID) IsZero() bool { return id == SessionID{} }

// String returns 16 hexadecimal digits.
func (id SessionID) String() string { return hex.EncodeToString(id[:]) }

// HeaderLen is the length of Header in bytes.
const HeaderLen = 9

// Header is what every control packet begins with: opcode (5 bits), key id (3
// bits) and the sender's session id.
type Header struct {
	Opcode  uint8
	KeyID   uint8 // 0 to 7
	Session SessionID
}

// ParseHeader reads the header of a datagram, which is only read. ok is false
// if b is shorter than one or has an opcode that is not among the constants.
func ParseHeader(b []byte) (h Header, ok bool) {
	if len(b) < HeaderLen {
		return Header{}, false
	}
	h.Opcode, h.KeyID = record.Opcode(b[0]), b[0]&record.MaxKeyID
	copy(h.Session[:], b[1:])
	switch h.Opcode {
	case ControlSoftResetV1, ControlV1, AckV1, ControlHardResetClientV2, ControlHardResetServerV2, ControlHardResetClientV3, ControlWKCV1:
		return h, true
	}
	return Header{}, false
}

// Append appends the header's HeaderLen bytes to dst.
func (h Header) Append(dst []byte) []byte {
	dst = append(dst, h.Opcode<<3|h.KeyID&record.MaxKeyID)
	return append(dst, h.Session[:]...)
}
