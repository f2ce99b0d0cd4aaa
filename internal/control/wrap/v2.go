// SPDX-License-Identifier: Apache-2.0

package wrap

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wire"
)

const (
	serverLabel = "OpenVPN tls-crypt-v2 server key"
	clientLabel = "OpenVPN tls-crypt-v2 client key"

	serverKeyLen = 128
	clientKeyLen = 256
	lengthLen    = 2
	// minWKC and MaxWKC bound a wrapped key in bytes: at least the tag, the key and
	// the length, and at most what OpenVPN takes.
	minWKC = tagLen + clientKeyLen + lengthLen
	MaxWKC = 1024
	// MaxMetadata is what MaxWKC leaves for metadata, its type included.
	MaxMetadata = MaxWKC - minWKC
)

// Types of a client key's metadata.
const (
	MetadataUser      = 0 // anything
	MetadataTimestamp = 1 // 64 bits: when the key was made, in seconds
)

// ErrWKC says that a wrapped client key is not one.
var ErrWKC = errors.New("malformed wrapped tls-crypt-v2 client key")

// ServerKey opens the wrapped keys that tls-crypt-v2 clients send. It is not
// changed and may be used concurrently.
type ServerKey struct {
	encrypt [cipherKeyLen]byte
	auth    [sha256.Size]byte
}

// ClientKey is what was in a wrapped client key.
type ClientKey struct {
	// Key is a static key of tls-crypt.
	Key [clientKeyLen]byte
	// HasMetadata: there was any, Type and Metadata (without the type) tell which.
	HasMetadata bool
	Type        uint8
	Metadata    []byte
}

// Made returns when the key was made, if its metadata tell.
func (k *ClientKey) Made() (time.Time, bool) {
	if !k.HasMetadata || k.Type != MetadataTimestamp || len(k.Metadata) != 8 {
		return time.Time{}, false
	}
	return time.Unix(int64(binary.BigEndian.Uint64(k.Metadata)), 0), true
}

// GenerateServerKey makes a key of the bytes of random.
func GenerateServerKey(random io.Reader) (*ServerKey, []byte, error) {
	var raw [serverKeyLen]byte
	if _, err := io.ReadFull(random, raw[:]); err != nil {
		return nil, nil, fmt.Errorf("generate tls-crypt-v2 server key: %w", err)
	}
	k := newServerKey(raw[:])
	return k, pem.EncodeToMemory(&pem.Block{Type: serverLabel, Bytes: raw[:]}), nil
}

func newServerKey(raw []byte) *ServerKey {
	k := new(ServerKey)
	copy(k.encrypt[:], raw)
	copy(k.auth[:], raw[hmacPart:])
	return k
}

// ParseServerKey reads a server key file.
func ParseServerKey(file []byte) (*ServerKey, error) {
	b, err := decode(file, serverLabel)
	if err != nil {
		return nil, err
	}
	if len(b) != serverKeyLen {
		return nil, fmt.Errorf("tls-crypt-v2 server key has %d bytes, want %d", len(b), serverKeyLen)
	}
	return newServerKey(b), nil
}

// ParseClientKey reads a client key file: the key and the wrapped key.
func ParseClientKey(file []byte) (key [clientKeyLen]byte, wkc []byte, err error) {
	b, err := decode(file, clientLabel)
	if err != nil {
		return key, nil, err
	}
	if len(b) < clientKeyLen+minWKC || len(b) > clientKeyLen+MaxWKC {
		return key, nil, fmt.Errorf("tls-crypt-v2 client key has %d bytes, want %d to %d", len(b), clientKeyLen+minWKC, clientKeyLen+MaxWKC)
	}
	copy(key[:], b)
	return key, b[clientKeyLen:], nil
}

// FormatClientKey writes a client key file.
func FormatClientKey(key *[clientKeyLen]byte, wkc []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: clientLabel, Bytes: append(key[:], wkc...)})
}

func decode(file []byte, label string) ([]byte, error) {
	for {
		b, rest := pem.Decode(file)
		if b == nil {
			return nil, fmt.Errorf("no %q in the file", "-----BEGIN "+label+"-----")
		}
		if b.Type == label {
			return b.Bytes, nil
		}
		file = rest
	}
}

// Wrap makes the wrapped form of a client key with metadata, whose first byte
// is their type; empty: none.
func (k *ServerKey) Wrap(key *[clientKeyLen]byte, metadata []byte) ([]byte, error) {
	if len(metadata) > MaxMetadata {
		return nil, fmt.Errorf("metadata of %d bytes, at most %d fit", len(metadata), MaxMetadata)
	}
	clearText := append(key[:len(key):len(key)], metadata...)
	length := binary.BigEndian.AppendUint16(nil, uint16(minWKC+len(metadata)))
	tag := k.tag(length, clearText)
	wkc := append([]byte(nil), tag...)
	wkc = append(wkc, clearText...)
	k.stream(tag).XORKeyStream(wkc[tagLen:], wkc[tagLen:])
	return append(wkc, length...), nil
}

// Unwrap opens a wrapped client key. The error is ErrWKC or ErrAuth.
func (k *ServerKey) Unwrap(wkc []byte) (*ClientKey, error) {
	if len(wkc) < minWKC || len(wkc) > MaxWKC || int(binary.BigEndian.Uint16(wkc[len(wkc)-lengthLen:])) != len(wkc) {
		return nil, ErrWKC
	}
	tag, sealed, length := wkc[:tagLen], wkc[tagLen:len(wkc)-lengthLen], wkc[len(wkc)-lengthLen:]
	opened := make([]byte, len(sealed))
	k.stream(tag).XORKeyStream(opened, sealed)
	defer clear(opened[:clientKeyLen])
	if !hmac.Equal(tag, k.tag(length, opened)) {
		return nil, ErrAuth
	}
	c := &ClientKey{}
	copy(c.Key[:], opened)
	if m := opened[clientKeyLen:]; len(m) > 0 {
		c.HasMetadata, c.Type, c.Metadata = true, m[0], m[1:]
	}
	return c, nil
}

func (k *ServerKey) tag(length, clearText []byte) []byte {
	mac := hmac.New(sha256.New, k.auth[:])
	mac.Write(length)
	mac.Write(clearText)
	return mac.Sum(nil)
}

func (k *ServerKey) stream(tag []byte) cipher.Stream {
	return cipher.NewCTR(block(k.encrypt[:]), tag[:aes.BlockSize])
}

// SplitWKC cuts a datagram with a wrapped client key behind it in two. Both
// are parts of it. The error is ErrWKC.
func SplitWKC(datagram []byte) (packet, wkc []byte, err error) {
	n := len(datagram)
	if n < wire.HeaderLen+minWKC {
		return nil, nil, ErrWKC
	}
	length := int(binary.BigEndian.Uint16(datagram[n-lengthLen:]))
	if length < minWKC || length > MaxWKC || n-length < wire.HeaderLen {
		return nil, nil, ErrWKC
	}
	return datagram[: n-length : n-length], datagram[n-length:], nil
}
