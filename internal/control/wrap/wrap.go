// SPDX-License-Identifier: Apache-2.0

// Package wrap protects control channel packets with keys that both ends have
// beforehand: tls-auth, tls-crypt, tls-crypt-v2 and the dynamic key of
// renegotiations. It does no I/O and has no clock.
package wrap

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"hash"
)

var (
	// ErrShort says that a datagram has no room for its wrapping.
	ErrShort = errors.New("control packet too short for its wrapping")
	// ErrAuth says that a datagram was not made with our key.
	ErrAuth = errors.New("control packet is not authentic")
	// ErrReplay says that a datagram was received before, or is too old.
	ErrReplay = errors.New("control packet is a replay")
)

// Role is a side of a session.
type Role uint8

// The roles.
const (
	Server Role = iota
	Client
)

// Direction is the key direction of tls-auth.
type Direction uint8

// The directions: without one both ends use the same half of the key.
const (
	Bidirectional Direction = iota
	Normal                  // 0: sends with the first half
	Inverse                 // 1: sends with the second half
)

const (
	// stampLen is the length of packet id and time, 32 bits each.
	stampLen = 8
	// maxSum is the longest HMAC, and what a static key has of HMAC key.
	maxSum = 64
	// tagLen is the length of tls-crypt's tag.
	tagLen = sha256.Size
	// half is where the second direction's keys begin in a static key, and
	// hmacPart where the HMAC key begins in a direction.
	half, hmacPart = 128, 64
	// cipherKeyLen is AES-256's.
	cipherKeyLen = 32
)

type mode uint8

const (
	plain mode = iota
	auth
	crypt
)

// Wrap is one session's wrapping in both directions, with its own packet ids
// and its own record of those received. It is not safe for concurrent use. A
// nil *Wrap is Plain.
type Wrap struct {
	mode             mode
	size             int          // of the HMAC or tag
	sign, verify     hash.Hash    // HMACs, keyed
	encrypt, decrypt cipher.Block // tls-crypt's
	next, time       uint32       // of the next packet sealed; time is 0 before the first
	window           window
	// Scratch of Seal and Open: on their stacks it would escape to the heap.
	sum   [maxSum]byte
	stamp [stampLen]byte
	ctr   counterMode
}

// Plain is no wrapping.
func Plain() *Wrap { return &Wrap{} }

// TLSAuth signs packets with a static key, which is only read. As many bytes of
// each HMAC key are used as the digest has. The digest is one of ParseDigest.
func TLSAuth(key *[256]byte, digest Digest, direction Direction) *Wrap {
	send, receive := hmacPart, hmacPart
	switch direction {
	case Normal:
		receive += half
	case Inverse:
		send += half
	}
	n := digest.Size()
	return &Wrap{mode: auth, size: n, next: 1,
		sign: hmac.New(digest.new, key[send:send+n]), verify: hmac.New(digest.new, key[receive:receive+n])}
}

// TLSCrypt encrypts and signs packets with a static key, or with the one in a
// client's tls-crypt-v2 key. The key is only read.
func TLSCrypt(key *[256]byte, role Role) *Wrap {
	send, receive := 0, half
	if role == Client {
		send, receive = half, 0
	}
	mac := func(at int) hash.Hash { return hmac.New(sha256.New, key[at+hmacPart:at+hmacPart+sha256.Size]) }
	return &Wrap{mode: crypt, size: tagLen, next: 1,
		sign: mac(send), verify: mac(receive), encrypt: block(key[send:]), decrypt: block(key[receive:])}
}

// Dynamic is the wrapping of renegotiations: that of TLSCrypt with the key
// that both ends exported from TLS, XORed with the static key that wraps the
// session's first packets, if there is one.
func Dynamic(exported, static *[256]byte, role Role) *Wrap {
	key := *exported
	if static != nil {
		for i := range key {
			key[i] ^= static[i]
		}
	}
	w := TLSCrypt(&key, role)
	clear(key[:])
	return w
}

func block(key []byte) cipher.Block {
	b, err := aes.NewCipher(key[:cipherKeyLen])
	if err != nil {
		panic(err) // the length is right
	}
	return b
}
