// SPDX-License-Identifier: Apache-2.0

package wrap

import (
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"sync"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wire"
)

const (
	serverKeyLen = 128
	clientKeyLen = 256
	lengthLen    = 2
	// minWKC and MaxWKC bound a wrapped key in bytes: at least the tag, the key and
	// the length, and at most what OpenVPN takes.
	minWKC = tagLen + clientKeyLen + lengthLen
	MaxWKC = 1024
	// MaxMetadata is what MaxWKC leaves for metadata in bytes, their type included.
	MaxMetadata = MaxWKC - minWKC
)

// Types of a client key's metadata.
const (
	MetadataUser      = 0 // anything
	MetadataTimestamp = 1 // 64 bits: when the key was made, in seconds since 1970
)

// ErrWKC says that a wrapped client key is not one.
var ErrWKC = errors.New("malformed wrapped tls-crypt-v2 client key")

// ServerKey wraps and unwraps the keys of tls-crypt-v2 clients. A wrapped key
// (WKc) is
//
//	tag (32) | client key (256) and metadata, encrypted | length of all of it (2)
//
// with the tag over the length and the clear text. It is not changed and may
// be used concurrently; it must not be copied.
type ServerKey struct {
	raw     [serverKeyLen]byte
	encrypt cipher.Block
	// states keeps a flood of forged keys from allocating for each.
	states sync.Pool
}

// wkcState is the scratch of one Wrap or Unwrap.
type wkcState struct {
	mac   hash.Hash
	ctr   counterMode
	sum   [sha256.Size]byte
	clear [MaxWKC]byte
}

func newServerKey(raw *[serverKeyLen]byte) *ServerKey {
	k := &ServerKey{raw: *raw, encrypt: block(raw[:])}
	k.states.New = func() any {
		return &wkcState{mac: hmac.New(sha256.New, k.raw[hmacPart:hmacPart+sha256.Size])}
	}
	return k
}

// tag is valid until the state's next.
func (s *wkcState) tag(length, clearText []byte) []byte {
	s.mac.Reset()
	s.mac.Write(length)
	s.mac.Write(clearText)
	return s.mac.Sum(s.sum[:0])
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

// Wrap makes the wrapped form of a client key with metadata, whose first byte
// is their type; empty: none. The only error is that there are more than
// MaxMetadata bytes of them.
func (k *ServerKey) Wrap(key *[clientKeyLen]byte, metadata []byte) ([]byte, error) {
	if len(metadata) > MaxMetadata {
		return nil, fmt.Errorf("wrap tls-crypt-v2 client key: metadata of %d bytes, at most %d fit", len(metadata), MaxMetadata)
	}
	s := k.states.Get().(*wkcState)
	defer k.states.Put(s)
	wkc := make([]byte, tagLen, minWKC+len(metadata))
	wkc = append(append(wkc, key[:]...), metadata...)
	length := binary.BigEndian.AppendUint16(nil, uint16(cap(wkc)))
	copy(wkc, s.tag(length, wkc[tagLen:]))
	s.ctr.xor(k.encrypt, wkc[:tagLen], wkc[tagLen:])
	return append(wkc, length...), nil
}

// Unwrap opens a wrapped client key, which is only read. The error is ErrWKC
// or ErrAuth, and allocates nothing.
func (k *ServerKey) Unwrap(wkc []byte) (*ClientKey, error) {
	if len(wkc) < minWKC || len(wkc) > MaxWKC || int(binary.BigEndian.Uint16(wkc[len(wkc)-lengthLen:])) != len(wkc) {
		return nil, ErrWKC
	}
	s := k.states.Get().(*wkcState)
	defer k.states.Put(s)
	tag, sealed, length := wkc[:tagLen], wkc[tagLen:len(wkc)-lengthLen], wkc[len(wkc)-lengthLen:]
	opened := s.clear[:copy(s.clear[:], sealed)]
	defer clear(opened)
	s.ctr.xor(k.encrypt, tag, opened)
	if !hmac.Equal(tag, s.tag(length, opened)) {
		return nil, ErrAuth
	}
	c := &ClientKey{Key: [clientKeyLen]byte(opened)}
	if m := opened[clientKeyLen:]; len(m) > 0 {
		c.HasMetadata, c.Type, c.Metadata = true, m[0], append([]byte(nil), m[1:]...)
	}
	return c, nil
}

// SplitWKC cuts a datagram with a wrapped client key behind it in two: its last
// two bytes are the key's length. Both are parts of it. The error is ErrWKC.
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
