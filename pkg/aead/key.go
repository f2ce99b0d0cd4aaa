// SPDX-License-Identifier: Apache-2.0

package aead

import (
	"crypto/aes"
	"crypto/cipher"
	"fmt"

	"golang.org/x/crypto/chacha20poly1305"
)

// The direct layout's offsets, and what AES-GCM and ChaCha20-Poly1305 share.
const (
	aadLen    = 8  // header word and packet id
	headLen   = 24 // the same and the tag
	tagLen    = 16
	nonceLen  = 12
	ivLen     = 8
	minRecord = headLen + 1 // OpenVPN refuses an empty plaintext
)

// Slack is the number of bytes behind a record that Open and Seal borrow.
const Slack = tagLen

// Key is one direction's key with its implicit IV. It is not changed after
// NewKey and safe for concurrent use, as long as every caller brings a Scratch
// of its own.
type Key struct {
	aead   cipher.AEAD
	cipher Cipher
	iv     [ivLen]byte
}

// NewKey makes a key from exactly c.KeyLen() bytes, which it copies.
func NewKey(c Cipher, key []byte, iv [8]byte) (*Key, error) {
	if c.KeyLen() == 0 {
		return nil, fmt.Errorf("make key: unknown cipher %d", uint8(c))
	}
	if len(key) != c.KeyLen() {
		return nil, fmt.Errorf("make %s key: %d bytes, want %d", c, len(key), c.KeyLen())
	}
	k := &Key{cipher: c, iv: iv}
	var err error
	if c == ChaCha20Poly1305 {
		k.aead, err = chacha20poly1305.New(key)
	} else {
		var block cipher.Block
		if block, err = aes.NewCipher(key); err == nil {
			k.aead, err = cipher.NewGCM(block)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("make %s key: %w", c, err)
	}
	return k, nil
}

// Cipher tells which cipher the key is for.
func (k *Key) Cipher() Cipher { return k.cipher }

// Scratch is what one worker needs besides the key and the records, so that a
// batch allocates nothing. One goroutine at a time, any number of keys in turn.
type Scratch struct {
	nonce [nonceLen]byte
	saved [tagLen]byte
	// A cache line each, so that two workers never write the same one.
	_ [64 - nonceLen - tagLen]byte
}

// NewScratch makes one.
func NewScratch() *Scratch { return new(Scratch) }

// begin readies the scratch and the processor for a batch, end the processor
// for what follows it.
//
// On amd64 the standard library's AES-GCM is SSE code, which some processors run
// at less than half its speed (Zen 5: 660 instead of 250 ns for 1420 bytes)
// while AVX code's leftovers stand in the upper halves of the vector registers.
// x/crypto's ChaCha20-Poly1305 is AVX2 code and can leave such. Clearing them
// costs a nanosecond per batch.
func (k *Key) begin(s *Scratch) {
	copy(s.nonce[nonceLen-ivLen:], k.iv[:])
	if k.cipher != ChaCha20Poly1305 {
		zeroUpper()
	}
}

func (k *Key) end() {
	if k.cipher == ChaCha20Poly1305 {
		zeroUpper()
	}
}
