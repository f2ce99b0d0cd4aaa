// SPDX-License-Identifier: Apache-2.0

package session

import (
	"crypto/tls"
	"errors"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/keyex"
)

// Type says what happened.
type Type uint8

const (
	// KeyExchanged: the peer's key method message is there. A server answers
	// with Answer; for a client the exchange is complete. Fields: Message, TLS,
	// EKM.
	KeyExchanged Type = iota + 1
	// Acknowledged: the peer has acknowledged everything up to our key method
	// message. The key is established, and the key state before it is freed.
	Acknowledged
	// SoftReset: the peer began to negotiate the key KeyID.
	SoftReset
	// Message: a control message came. Field: Text.
	Message
	// Failed: the negotiation of the key KeyID failed or took too long, or its
	// TLS connection broke later. Its key state is freed. If KeyID is 0 the
	// session is dead. A TLS alert for the peer may be waiting in Outgoing.
	// Field: Err.
	Failed
)

// Event is something that happened in a session. It belongs to the owner.
type Event struct {
	Type  Type
	KeyID uint8 // 0 to 7; of all types

	Message *keyex.Message // without PreMaster, which stays in the session
	TLS     tls.ConnectionState
	EKM     bool // both key derivation and dynamic tls-crypt can use TLS exporters

	Text string // without its NUL; bytes as the peer sent them, none of them 0

	// Err may wrap what crypto/tls and crypto/x509 return.
	Err error
}

var (
	// ErrTimeout says that a key exchange took longer than HandWindow.
	ErrTimeout = errors.New("key exchange timed out")
	// ErrTooLong says that a peer sent more than a limit of this package.
	ErrTooLong = errors.New("peer sent too much")
	// ErrClosed says that the peer closed its TLS connection.
	ErrClosed = errors.New("peer closed the tls connection")
	// ErrNotEstablished says that there is no key state to send on.
	ErrNotEstablished = errors.New("no established key state")
	// ErrBacklog says that the peer doesn't acknowledge what was sent so far.
	ErrBacklog = errors.New("too many control messages wait")
	// ErrNoKey says that a key state is gone, or has not come so far.
	ErrNoKey = errors.New("no such key state")
)
