// SPDX-License-Identifier: Apache-2.0

package statickey

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"strings"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/aead"
)

// Role is the side that a gateway takes with a key: the two ends of a tunnel
// take one each.
type Role uint8

// The roles. The zero value is neither.
const (
	Server Role = iota + 1
	Client
)

// String returns the role as it is written on a command line.
func (r Role) String() string {
	switch r {
	case Server:
		return "server"
	case Client:
		return "client"
	}
	return fmt.Sprintf("Role(%d)", uint8(r))
}

// ParseRole finds a role by its name, in any case.
func ParseRole(name string) (Role, error) {
	for _, r := range []Role{Server, Client} {
		if strings.EqualFold(name, r.String()) {
			return r, nil
		}
	}
	return 0, fmt.Errorf("role %q unknown, want server or client", name)
}

// Half is one direction's part of a key.
type Half struct {
	// Key is as long as the cipher wants it, and the caller's own.
	Key []byte
	// IV is the implicit IV: the nonce's last 8 bytes.
	IV [8]byte
}

// ErrSameKey is returned for a block whose two directions have the same cipher
// key: both ends would then use up the same nonces.
var ErrSameKey = errors.New("both directions of the static key are equal")

// Halves cuts a key block into what one role sends with and what it receives
// with. OpenVPN's layout is two times 128 bytes, client to server first: 64
// bytes of cipher key, of which the cipher takes the first, and 64 bytes of
// HMAC key, of which the first 8 are the implicit IV.
func Halves(key *[Size]byte, role Role, c aead.Cipher) (send, receive Half, err error) {
	n := c.KeyLen()
	if n == 0 {
		return Half{}, Half{}, fmt.Errorf("cut static key: unknown cipher %d", uint8(c))
	}
	half := func(at int) Half {
		return Half{Key: append([]byte(nil), key[at:at+n]...), IV: [8]byte(key[at+64:])}
	}
	fromClient, fromServer := half(0), half(128)
	if subtle.ConstantTimeCompare(fromClient.Key, fromServer.Key) == 1 {
		return Half{}, Half{}, ErrSameKey
	}
	switch role {
	case Server:
		return fromServer, fromClient, nil
	case Client:
		return fromClient, fromServer, nil
	}
	return Half{}, Half{}, fmt.Errorf("cut static key: unknown role %d", uint8(role))
}
