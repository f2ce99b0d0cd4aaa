// SPDX-License-Identifier: Apache-2.0

package wrap

import (
	"encoding/binary"
	"hash"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wire"
)

// Stamp is a packet's id and the time in seconds since 1970 that it belongs to.
type Stamp struct{ ID, Time uint32 }

// Overhead is how many bytes a packet grows by: 0 plain, 40 with tls-crypt, 8
// and the digest's size with tls-auth.
func (w *Wrap) Overhead() int {
	if w == nil || w.mode == plain {
		return 0
	}
	return w.size + stampLen
}

// SetNextID sets the packet id of the next packet sealed, 1 at first. It never
// goes back: a receiver refuses an id that it has seen with the same time.
func (w *Wrap) SetNextID(id uint32) {
	if w != nil {
		w.next = id
	}
}

// Seal appends a packet of this header and body to dst, which must not overlap the
// body. now is the time that it carries, to which packet ids belong: it stays
// that of the first packet until ids run out, and ids start again only with a
// later one.
func (w *Wrap) Seal(dst []byte, h wire.Header, body []byte, now time.Time) []byte {
	if w == nil || w.mode == plain {
		return append(h.Append(dst), body...)
	}
	stamp := w.advance(now)
	return w.SealStateless(dst, h, body, stamp)
}

// advance takes the next packet id.
func (w *Wrap) advance(now time.Time) Stamp {
	t := uint32(now.Unix())
	switch {
	case w.time == 0:
		w.time = t
	case w.next == 0: // 2^32 packets later
		w.next, w.time = 1, max(t, w.time+1)
	}
	s := Stamp{w.next, w.time}
	w.next++
	return s
}

// SealStateless is Seal with a packet id and time of the caller's, for an answer
// to a sender of whom nothing is kept. The ids of Seal stay as they are.
func (w *Wrap) SealStateless(dst []byte, h wire.Header, body []byte, s Stamp) []byte {
	from := len(dst)
	dst = h.Append(dst)
	if w == nil || w.mode == plain {
		return append(dst, body...)
	}
	binary.BigEndian.PutUint32(w.stamp[:], s.ID)
	binary.BigEndian.PutUint32(w.stamp[4:], s.Time)
	if w.mode == auth {
		sum := w.sumOf(w.sign, w.stamp[:], dst[from:], body)
		dst = append(dst, sum...)
		dst = append(dst, w.stamp[:]...)
		return append(dst, body...)
	}
	dst = append(dst, w.stamp[:]...)
	tag := w.sumOf(w.sign, dst[from:], body)
	dst = append(dst, tag...)
	at := len(dst)
	dst = append(dst, body...)
	w.ctr.xor(w.encrypt, tag, dst[at:])
	return dst
}

// sumOf is the HMAC of parts; it is valid until the next.
func (w *Wrap) sumOf(mac hash.Hash, parts ...[]byte) []byte {
	mac.Reset()
	for _, p := range parts {
		mac.Write(p)
	}
	return mac.Sum(w.sum[:0])
}
