// SPDX-License-Identifier: Apache-2.0

package wrap

import (
	"crypto/hmac"
	"encoding/binary"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wire"
)

// Open checks a datagram, decrypts it and takes note of its packet id, so that
// it is accepted once. The datagram is only read. The body is a part of it, or with
// tls-crypt lies in scratch, which grows if it is too short and must not
// overlap the datagram; it belongs to whom they do. The error is ErrShort,
// ErrAuth or ErrReplay.
func (w *Wrap) Open(scratch, datagram []byte, now time.Time) (wire.Header, []byte, error) {
	h, body, stamp, err := w.OpenStateless(scratch, datagram)
	if err != nil {
		return h, nil, err
	}
	if !w.Seen(stamp, now) {
		return h, nil, ErrReplay
	}
	return h, body, nil
}

// Seen takes note of the packet id of a packet that OpenStateless opened, and
// reports whether it is a new one.
func (w *Wrap) Seen(s Stamp, now time.Time) bool {
	return w == nil || w.mode == plain || w.window.accept(s.ID, s.Time, now)
}

// OpenStateless is Open without a look at packet ids, for a first packet: no one
// can know what came before it. Plain packets have no stamp.
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
	var raw []byte
	if w.mode == auth {
		raw, body, ok = w.openAuth(datagram)
	} else {
		raw, body, ok = w.openCrypt(scratch, datagram)
	}
	if !ok {
		return h, nil, stamp, ErrAuth
	}
	return h, body, Stamp{binary.BigEndian.Uint32(raw), binary.BigEndian.Uint32(raw[4:])}, nil
}

// openAuth takes a datagram of tls-auth apart: header, HMAC of all that is not it,
// packet id and time, body.
func (w *Wrap) openAuth(datagram []byte) (stamp, body []byte, ok bool) {
	head, rest := datagram[:wire.HeaderLen], datagram[wire.HeaderLen:]
	sum, stamp, body := rest[:w.size], rest[w.size:w.size+stampLen], rest[w.size+stampLen:]
	return stamp, body, hmac.Equal(sum, w.sumOf(w.verify, stamp, head, body))
}

// openCrypt takes a datagram of tls-crypt apart: header, packet id and time, tag of
// all that and the body, body encrypted. What comes of a wrong key is cleared.
func (w *Wrap) openCrypt(scratch, datagram []byte) (stamp, body []byte, ok bool) {
	head, rest := datagram[:wire.HeaderLen+stampLen], datagram[wire.HeaderLen+stampLen:]
	tag, sealed := rest[:tagLen], rest[tagLen:]
	body = append(scratch[:0], sealed...)
	w.ctr.xor(w.decrypt, tag, body)
	if ok = hmac.Equal(tag, w.sumOf(w.verify, head, body)); !ok {
		clear(body)
	}
	return head[wire.HeaderLen:], body, ok
}
