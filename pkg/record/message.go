// SPDX-License-Identifier: Apache-2.0

package record

// Keepalive is the plaintext of a keepalive, OpenVPN's ping magic. It is not an
// IP packet: the first nibble is 2. Read only.
var Keepalive = [16]byte{
	0x2a, 0x18, 0x7b, 0xf3, 0x64, 0x1e, 0xb4, 0xcb,
	0x07, 0xed, 0x2d, 0x0a, 0x98, 0x1f, 0xc7, 0x48,
}

// occMagic starts the messages that OpenVPN sends about its options inside the
// data channel; one more byte says which.
var occMagic = [16]byte{
	0x28, 0x7f, 0x34, 0x6b, 0xd4, 0xef, 0x7a, 0x81,
	0x2d, 0x56, 0xb8, 0xd3, 0xaf, 0xc5, 0x45, 0x9c,
}

// occExit is the message by which older clients say goodbye (explicit-exit-notify).
const occExit = 6

// IsKeepalive reports whether plain is exactly the keepalive.
func IsKeepalive(plain []byte) bool {
	return len(plain) == len(Keepalive) && [16]byte(plain) == Keepalive
}

// IsOCCExit reports whether plain is exactly the 17-byte exit message.
func IsOCCExit(plain []byte) bool {
	return len(plain) == len(occMagic)+1 && [16]byte(plain[:16]) == occMagic && plain[16] == occExit
}
