// SPDX-License-Identifier: Apache-2.0

package session

import (
	"crypto/rand"
	"crypto/tls"
	"io"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/keyex"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wire"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wrap"
)

// Role is a side of the session. It is the side in TLS too.
type Role uint8

const (
	Server Role = iota
	Client
)

const (
	// DefaultMaxPacket is max-packet-size's default of 1250 bytes without 20
	// bytes of IPv4 and 8 of UDP header.
	DefaultMaxPacket = 1222
	// DefaultTimeout is the default of tls-timeout.
	DefaultTimeout = 2 * time.Second
	// DefaultHandWindow is the default of hand-window.
	DefaultHandWindow = 60 * time.Second
	// MaxText is how long a control message may be, in bytes without its NUL.
	// Stock OpenVPN's own buffer takes 2048.
	MaxText = 64 << 10

	// maxDatagram bounds what Datagram takes, in bytes: max-packet-size goes to
	// 2048, and a wrapped client key adds up to 1024.
	maxDatagram = 4096
	// maxHandshake bounds what a peer sends in a TLS handshake. Half a dozen
	// certificates with RSA keys of 4096 bits and an OCSP response are a fourth
	// of it.
	maxHandshake = 64 << 10
	// maxBacklog bounds the bytes that wait for the send window, and the
	// control messages that wait for the end of a renegotiation.
	maxBacklog = 64 << 10
	// recordOverhead is more than TLS and a string header add to a message, in bytes.
	recordOverhead = 64
	// maxMessages bounds control messages that the owner has not fetched. One
	// datagram of a stock peer carries one or two.
	maxMessages = 64
	// firstV2ID is the first packet id of a tls-crypt-v2 client's wrapping; its
	// top byte says that the client can send its wrapped key again.
	firstV2ID = 0x0f000001
	// minPayload is sent in a packet though MaxPacket has no room for it.
	minPayload = 16
)

// Config is what a session starts from. Wrap is owned by the session from New on.
type Config struct {
	Role Role

	// TLS is the configuration of every handshake. SessionTicketsDisabled is
	// set, since resumption skips the checks of certificates, and
	// DynamicRecordSizingDisabled, since stock OpenVPN takes a TLS record for a
	// whole message. A configuration without both is cloned for that; one that
	// has them is shared by all sessions that it is given to.
	TLS *tls.Config
	// NewTLS, if set, is called at the beginning of each handshake for a
	// configuration to use instead of TLS. An error ends the handshake.
	NewTLS func(keyID uint8) (*tls.Config, error)

	// Wrap is the wrapping of control packets; nil: none.
	Wrap *wrap.Wrap
	// Static is the key that Wrap was made from, for the dynamic key of
	// renegotiations; nil if Wrap is plain.
	Static *[256]byte
	// WKC is a client's wrapped tls-crypt-v2 key, up to 1024 bytes, which goes
	// with its reset, and with its next packet if the server asks for that; nil
	// without tls-crypt-v2.
	WKC []byte

	// Local and Remote are the session ids. A client leaves Remote zero and
	// learns it from the server's reset.
	Local, Remote wire.SessionID
	// NextRecv and NextSend are the message ids to go on at, under key id 0: 1
	// if a reset was received or sent before the session was made, else 0.
	NextRecv, NextSend uint32
	// SendReset has the session send the reset that opens it. Clients always do.
	SendReset bool

	// MaxPacket bounds datagrams, in bytes of UDP payload; 0: DefaultMaxPacket.
	MaxPacket int
	// Stream says that the transport loses nothing: nothing is sent twice.
	Stream bool
	// Timeout is the time to the first repetition of a packet, which doubles
	// with every further one up to HandWindow; 0: DefaultTimeout.
	Timeout time.Duration
	// HandWindow is how long a key exchange may take, from the first packet
	// until the peer has acknowledged all of it; 0: DefaultHandWindow.
	HandWindow time.Duration

	// Hello makes our key method message. A server's is made when the peer's
	// has been received, and sent by Answer; a client's peer is nil. ekm says that keys
	// can come from this TLS connection's exporter. PreMaster and the random fields
	// are filled in by the session.
	Hello func(keyID uint8, peer *keyex.Message, ekm bool) keyex.Message

	// Random is where key material comes from; nil: crypto/rand.
	Random io.Reader
}

func (c *Config) defaults() {
	if c.MaxPacket == 0 {
		c.MaxPacket = DefaultMaxPacket
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.HandWindow == 0 {
		c.HandWindow = DefaultHandWindow
	}
	if c.Random == nil {
		c.Random = rand.Reader
	}
	if c.Role == Client {
		c.SendReset = true
		c.NextRecv, c.NextSend = 0, 0
	}
}
