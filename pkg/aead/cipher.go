// SPDX-License-Identifier: Apache-2.0

package aead

import (
	"fmt"
	"strings"
)

// Cipher is one of the data ciphers that the kernel's ovpn driver knows. The
// zero value is none of them.
type Cipher uint8

// The data ciphers.
const (
	AES128GCM Cipher = iota + 1
	AES192GCM
	AES256GCM
	ChaCha20Poly1305
)

// Ciphers returns all of them, in the order of their numbers.
func Ciphers() []Cipher {
	return []Cipher{AES128GCM, AES192GCM, AES256GCM, ChaCha20Poly1305}
}

// String returns the name as OpenVPN writes it.
func (c Cipher) String() string {
	switch c {
	case AES128GCM:
		return "AES-128-GCM"
	case AES192GCM:
		return "AES-192-GCM"
	case AES256GCM:
		return "AES-256-GCM"
	case ChaCha20Poly1305:
		return "CHACHA20-POLY1305"
	}
	return fmt.Sprintf("Cipher(%d)", uint8(c))
}

// KeyLen is the key's length in bytes: 16, 24 or 32; 0 for no cipher.
func (c Cipher) KeyLen() int {
	switch c {
	case AES128GCM:
		return 16
	case AES192GCM:
		return 24
	case AES256GCM, ChaCha20Poly1305:
		return 32
	}
	return 0
}

// ParseCipher finds a cipher by OpenVPN's name for it, in any case.
func ParseCipher(name string) (Cipher, error) {
	for _, c := range Ciphers() {
		if strings.EqualFold(name, c.String()) {
			return c, nil
		}
	}
	return 0, fmt.Errorf("cipher %q unknown, want AES-128-GCM, AES-192-GCM, AES-256-GCM or CHACHA20-POLY1305", name)
}
