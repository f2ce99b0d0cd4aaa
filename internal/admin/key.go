// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
)

// Slot is one of a peer's two key slots.
type Slot string

// The slots: records are sent with the primary's key and opened with either.
const (
	Primary   Slot = "primary"
	Secondary Slot = "secondary"
)

// Role says which half of a key block sends: an OpenVPN client sends with the
// first half, a server with the second.
type Role string

// The roles.
const (
	RoleServer Role = "server"
	RoleClient Role = "client"
)

// KeyBlockLen is the size in bytes of an OpenVPN static key: two halves of
// 64 bytes for the cipher and 64 for the implicit IV.
const KeyBlockLen = 256

// Secret is a key block. It is base64 in JSON, and no other way of printing
// it shows a byte of it.
type Secret [KeyBlockLen]byte

const redacted = "[redacted]"

// String returns a placeholder.
func (*Secret) String() string { return redacted }

// GoString returns a placeholder.
func (*Secret) GoString() string { return redacted }

// Format writes a placeholder for every verb.
func (*Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// LogValue returns a placeholder.
func (*Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// Clear overwrites the block with zeros.
func (s *Secret) Clear() { clear(s[:]) }

// MarshalJSON returns the block in base64 (RFC 4648, with padding).
func (s *Secret) MarshalJSON() ([]byte, error) {
	out := make([]byte, 0, base64.StdEncoding.EncodedLen(KeyBlockLen)+2)
	out = append(out, '"')
	out = base64.StdEncoding.AppendEncode(out, s[:])
	return append(out, '"'), nil
}

// UnmarshalJSON takes exactly 256 bytes in base64. Its errors don't quote the
// input.
func (s *Secret) UnmarshalJSON(b []byte) error {
	text, ok := unquote(b)
	if !ok {
		return errors.New("key block is not a string")
	}
	defer clear(text)
	raw := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	defer clear(raw)
	n, err := base64.StdEncoding.Strict().Decode(raw, text)
	if err != nil {
		return errors.New("key block is not base64")
	}
	if n != KeyBlockLen {
		return fmt.Errorf("key block has %d bytes, not %d", n, KeyBlockLen)
	}
	copy(s[:], raw)
	return nil
}

// unquote returns a copy of the content of a JSON string that holds base64,
// in which '/' may be escaped. encoding/json would leave a string behind that
// cannot be overwritten.
func unquote(b []byte) ([]byte, bool) {
	if len(b) < 2 || b[0] != '"' || b[len(b)-1] != '"' {
		return nil, false
	}
	out := make([]byte, 0, len(b))
	for i := 1; i < len(b)-1; i++ {
		if b[i] != '\\' || b[i+1] != '/' {
			out = append(out, b[i])
		}
	}
	return out, true
}

// KeyAdd is the parameter of key.add. It replaces what the slot held.
type KeyAdd struct {
	Peer uint32 `json:"peer"`
	Slot Slot   `json:"slot"`
	// KeyID is 0..7 and differs from the other slot's.
	KeyID uint8 `json:"key_id"`
	// Cipher is an OpenVPN name: AES-128-GCM, AES-192-GCM, AES-256-GCM or
	// CHACHA20-POLY1305.
	Cipher string  `json:"cipher"`
	Role   Role    `json:"role"`
	Block  *Secret `json:"block"`
	// NextPacketID is the first id to send with; 0: 1. Only an id above the
	// highest that was ever reserved of this half is taken.
	NextPacketID uint32 `json:"next_packet_id,omitempty"`
}

// Key is what can be said of an installed key.
type Key struct {
	Slot   Slot   `json:"slot"`
	KeyID  uint8  `json:"key_id"`
	Cipher string `json:"cipher"`
	// NextPacketID is the next id to send with; 1<<32 when all are used.
	NextPacketID uint64 `json:"next_packet_id"`
	// HighestReceived is the highest id accepted; 0: none yet.
	HighestReceived uint32 `json:"highest_received"`
	// Fingerprint is the SHA-256, in hex, of direction, key half and IV of the
	// sending half; it tells keys apart and nothing more.
	Fingerprint string `json:"fingerprint,omitempty"`
}
