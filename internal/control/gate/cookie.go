// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"io"
	"net/netip"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wire"
)

// slots is how many time slots, each half a handshake long, a cookie is good
// for: that it was made in, and two more.
const slots = 3

// cookies makes session ids that prove that their bearer can receive at its
// address: HMAC-SHA256 of time slot, address, port and the client's session id,
// with a key of this process.
type cookies struct {
	mac   hash.Hash
	slot  time.Duration
	sum   [sha256.Size]byte
	input [8 + 16 + 2 + 8]byte
}

func newCookies(random io.Reader, handWindow time.Duration) (cookies, error) {
	var key [sha256.Size]byte
	if _, err := io.ReadFull(random, key[:]); err != nil {
		return cookies{}, err
	}
	return cookies{mac: hmac.New(sha256.New, key[:]), slot: max((handWindow+time.Second)/2, time.Second)}, nil
}

func (c *cookies) slotOf(now time.Time) int64 { return now.UnixNano() / int64(c.slot) }

// make returns our session id for a client that comes now.
func (c *cookies) make(remote netip.AddrPort, client wire.SessionID, now time.Time) wire.SessionID {
	return c.at(remote, client, c.slotOf(now))
}

// check reports whether a session id was made for a client, and not too long ago.
func (c *cookies) check(own wire.SessionID, remote netip.AddrPort, client wire.SessionID, now time.Time) bool {
	slot, ok := c.slotOf(now), false
	for n := range int64(slots) {
		made := c.at(remote, client, slot-n)
		ok = hmac.Equal(own[:], made[:]) || ok
	}
	return ok
}

func (c *cookies) at(remote netip.AddrPort, client wire.SessionID, slot int64) (id wire.SessionID) {
	binary.BigEndian.PutUint64(c.input[:], uint64(slot))
	addr := remote.Addr().As16()
	copy(c.input[8:], addr[:])
	binary.BigEndian.PutUint16(c.input[24:], remote.Port())
	copy(c.input[26:], client[:])
	c.mac.Reset()
	c.mac.Write(c.input[:])
	copy(id[:], c.mac.Sum(c.sum[:0]))
	if id.IsZero() {
		id[7] = 1
	}
	return id
}

// fresh makes a session id that is no cookie.
func fresh() (id wire.SessionID) {
	for id.IsZero() {
		_, _ = rand.Read(id[:]) // never fails
	}
	return id
}
