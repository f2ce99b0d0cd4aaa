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
	"encoding/binary"
	"errors"
	"hash"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wire"
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
	mode          mode
	seal, open    hash.Hash // HMACs, keyed
	sealer, opnr  cipher.Block
	size          int // of the HMAC or tag
	next          uint32
	stamp         uint32 // time of the packet ids in use; 0: none yet
	window        window
	sum           [64]byte
	header, clear [stampLen]byte
}

// Plain is no wrapping.
func Plain() *Wrap { return &Wrap{} }

// TLSAuth signs packets with a static key. As many bytes of the key are used as the
// digest has.
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
		seal: hmac.New(digest.new, key[send:send+n]), open: hmac.New(digest.new, key[receive:receive+n])}
}

// TLSCrypt encrypts and signs packets with a static key, or with the one in a
// client's tls-crypt-v2 key.
func TLSCrypt(key *[256]byte, role Role) *Wrap {
	send, receive := 0, half
	if role == Client {
		send, receive = half, 0
	}
	mac := func(at int) hash.Hash { return hmac.New(sha256.New, key[at+hmacPart:at+hmacPart+sha256.Size]) }
	return &Wrap{mode: crypt, size: tagLen, next: 1,
		seal: mac(send), open: mac(receive), sealer: block(key[send:]), opnr: block(key[receive:])}
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

// Overhead is how many bytes a packet grows by.
func (w *Wrap) Overhead() int {
	if w == nil || w.mode == plain {
		return 0
	}
	return w.size + stampLen
}

// SetNextID sets the packet id of the next packet sealed, 1 at first.
func (w *Wrap) SetNextID(id uint32) {
	if w != nil {
		w.next = id
	}
}

// Seal appends a packet of this header and body to dst. now is the time that
// it carries, to which packet ids belong: it stays that of the first packet
// until ids run out, and ids start again only with a later one.
func (w *Wrap) Seal(dst []byte, h wire.Header, body []byte, now time.Time) []byte {
	from := len(dst)
	dst = h.Append(dst)
	if w == nil || w.mode == plain {
		return append(dst, body...)
	}
	w.advance(now)
	binary.BigEndian.PutUint32(w.header[:], w.next)
	binary.BigEndian.PutUint32(w.header[4:], w.stamp)
	w.next++
	if w.mode == auth {
		sum := w.signature(w.seal, w.header[:], dst[from:], body)
		dst = append(dst, sum...)
		dst = append(dst, w.header[:]...)
		return append(dst, body...)
	}
	dst = append(dst, w.header[:]...)
	tag := w.tag(w.seal, dst[from:], body)
	dst = append(dst, tag...)
	at := len(dst)
	dst = append(dst, body...)
	cipher.NewCTR(w.sealer, tag[:aes.BlockSize]).XORKeyStream(dst[at:], dst[at:])
	return dst
}

// advance sets the time of the ids when it is due.
func (w *Wrap) advance(now time.Time) {
	t := uint32(now.Unix())
	if w.stamp == 0 {
		w.stamp = t
	}
	if w.next == 0 { // 2^32 packets later
		w.next, w.stamp = 1, max(t, w.stamp+1)
	}
}

// signature is tls-auth's HMAC; it is valid until the next.
func (w *Wrap) signature(mac hash.Hash, stamp, header, body []byte) []byte {
	mac.Reset()
	mac.Write(stamp)
	mac.Write(header)
	mac.Write(body)
	return mac.Sum(w.sum[:0])
}

// tag is tls-crypt's; it is valid until the next.
func (w *Wrap) tag(mac hash.Hash, header, body []byte) []byte {
	mac.Reset()
	mac.Write(header)
	mac.Write(body)
	return mac.Sum(w.sum[:0])
}

// Open checks a datagram, decrypts it and takes note of its packet id, so that it is
// accepted once. The body lies in scratch, which grows if it is too short, or in datagram; it is
// valid as long as both. The datagram is only read.
func (w *Wrap) Open(scratch, datagram []byte, now time.Time) (wire.Header, []byte, error) {
	h, body, stamp, err := w.OpenStateless(scratch, datagram)
	if err != nil || w == nil || w.mode == plain {
		return h, body, err
	}
	if !w.window.accept(stamp.ID, stamp.Time, now) {
		return h, nil, ErrReplay
	}
	return h, body, nil
}

// Stamp is a packet's id and the time in seconds that it belongs to.
type Stamp struct{ ID, Time uint32 }

// OpenStateless is Open without a look at packet ids, for a first packet:
// no one can know what came before it.
func (w *Wrap) OpenStateless(scratch, datagram []byte) (h wire.Header, body []byte, stamp Stamp, err error) {
	h, ok := wire.ParseHeader(datagram)
	if !ok {
		return h, nil, stamp, ErrShort
	}
	if w == nil || w.mode == plain {
		return h, datagram[wire.HeaderLen:], stamp, nil
	}
	if len(datagram) < wire.HeaderLen+w.Overhead() {
		return h, nil, stamp, ErrShort
	}
	head, rest := datagram[:wire.HeaderLen], datagram[wire.HeaderLen:]
	var raw []byte
	if w.mode == auth {
		sum := rest[:w.size]
		raw, body = rest[w.size:w.size+stampLen], rest[w.size+stampLen:]
		if !hmac.Equal(sum, w.signature(w.open, raw, head, body)) {
			return h, nil, stamp, ErrAuth
		}
	} else {
		raw = rest[:stampLen]
		tag, sealed := rest[stampLen:stampLen+tagLen], rest[stampLen+tagLen:]
		body = append(scratch[:0], sealed...)
		cipher.NewCTR(w.opnr, tag[:aes.BlockSize]).XORKeyStream(body, body)
		if !hmac.Equal(tag, w.tag(w.open, datagram[:wire.HeaderLen+stampLen], body)) {
			clear(body)
			return h, nil, stamp, ErrAuth
		}
	}
	stamp = Stamp{binary.BigEndian.Uint32(raw), binary.BigEndian.Uint32(raw[4:])}
	return h, body, stamp, nil
}

// Seen takes note of the packet id of a packet that was opened by OpenStateless.
func (w *Wrap) Seen(s Stamp, now time.Time) bool {
	return w == nil || w.mode == plain || w.window.accept(s.ID, s.Time, now)
}
