// SPDX-License-Identifier: Apache-2.0

// Package record reads and writes the head of an OpenVPN datagram and the layout
// of a DATA_V2 record as OpenVPN 2.4 and later and the kernel's ovpn driver use it:
//
//	0            4            8               24
//	| header word | packet id | tag (16 bytes) | ciphertext |
//
// The first eight bytes are the additional data of the cipher. The epoch format
// of OpenVPN 2.7 shares the opcode but not the layout; it is used only when both
// ends agreed on it, and is not read here. The package has no file descriptors
// and no state.
package record

import "encoding/binary"

// Lengths in bytes.
const (
	HeaderLen   = 4  // opcode (5 bits), key id (3 bits), peer id (24 bits)
	PacketIDLen = 4  // big endian; the first on a key is 1
	TagLen      = 16 // GCM or Poly1305 tag, in front of the ciphertext
	Overhead    = HeaderLen + PacketIDLen + TagLen
	MinLen      = Overhead + 1 // a record without plaintext is none
)

// PeerIDUndef is the peer id of a sender that was told none; its peer is found by
// address and port. It is also the largest value of the field.
const PeerIDUndef = 0xffffff

// MaxKeyID is the largest key id: 0 for a session's first key, then 1 to 7 in turn.
const MaxKeyID = 7

// Opcodes, the upper five bits of the first byte of every OpenVPN packet.
const (
	ControlHardResetClientV1 = 1  // key method 1, obsolete
	ControlHardResetServerV1 = 2  // key method 1, obsolete
	ControlSoftResetV1       = 3  // starts a renegotiation
	ControlV1                = 4  // TLS records
	AckV1                    = 5  // acknowledgements only
	DataV1                   = 6  // data without a peer id
	ControlHardResetClientV2 = 7  // a client's first packet
	ControlHardResetServerV2 = 8  // the server's answer
	DataV2                   = 9  // data with a peer id
	ControlHardResetClientV3 = 10 // a client's first packet with a wrapped tls-crypt-v2 key
	ControlWKCV1             = 11 // ControlV1 with the wrapped key behind it
)

// Opcode returns the opcode in b, the first byte of a packet: 0 to 31.
func Opcode(b byte) uint8 { return b >> 3 }

// KeyID returns the key id of a header word, 0 to 7.
func KeyID(word uint32) uint8 { return uint8(word>>24) & MaxKeyID }

// PeerID returns the peer id of a header word, 0 to PeerIDUndef.
func PeerID(word uint32) uint32 { return word & PeerIDUndef }

// Word returns the header word of a record. Bits of the arguments beyond the
// field's width (5, 3 and 24 bits) are cut off.
func Word(opcode, keyID uint8, peerID uint32) uint32 {
	return uint32(opcode&0x1f)<<27 | uint32(keyID&MaxKeyID)<<24 | peerID&PeerIDUndef
}

// Parse reads the header word and the packet id of a DATA_V2 record. ok is false
// if b has another opcode or fewer than MinLen bytes. Packet id 0 is returned as
// it is: never valid, and refused by the replay window. b is only read.
func Parse(b []byte) (word, packetID uint32, ok bool) {
	if len(b) < MinLen || Opcode(b[0]) != DataV2 {
		return 0, 0, false
	}
	return binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[HeaderLen:]), true
}
