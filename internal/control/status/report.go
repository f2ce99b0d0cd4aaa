// SPDX-License-Identifier: Apache-2.0

// Package status writes the status file as programs that watch OpenVPN servers
// parse it: versions 1, 2 and 3 of its layout. Only WriteFile does I/O of its own;
// nothing here has a clock.
package status

import (
	"net/netip"
	"time"
)

// Report is the state of a server at one time. Names in it are as they are; Write
// escapes them.
type Report struct {
	// Title is program and version, the TITLE line of versions 2 and 3.
	Title string
	Time  time.Time
	// Clients are those that are connected, in the order to be written.
	Clients []Client
	// Routes are inner addresses and networks with the clients that own them.
	Routes []Route
	// BytesReceived and BytesSent are the sums over all clients since the start, those that
	// have gone included. No version of the file has them, load-stats of the management
	// interface does.
	BytesReceived, BytesSent uint64
	// MaxBcast is the longest that the queue of broadcasts was, in packets. A
	// server without such a queue leaves it 0.
	MaxBcast int
}

// Client is one connected client.
type Client struct {
	CommonName string
	// Real is the client's outer address and port. A mapped IPv4 address is written as
	// IPv4.
	Real netip.AddrPort
	// TCP: over TCP, else over UDP. No version of the file tells; the
	// management interface's kill does.
	TCP bool
	// Virtual4 and Virtual6 are its tunnel addresses; the zero value is written as nothing.
	Virtual4, Virtual6 netip.Addr
	// BytesReceived and BytesSent count outer payload bytes from and to the client.
	BytesReceived, BytesSent uint64
	// Since is when the client was connected.
	Since time.Time
	// Username is "" for a client without one, which is written as UNDEF.
	Username string
	// ClientID is never used twice in a server's life.
	ClientID uint64
	// PeerID is the 24-bit id of its data packets.
	PeerID uint32
	// Cipher is the data channel's cipher as OpenVPN names it, e.g. AES-256-GCM; "": none
	// yet.
	Cipher string
}

// Route is an inner address or network that belongs to a client.
type Route struct {
	// Prefix is written without its length when it is one address.
	Prefix     netip.Prefix
	CommonName string
	// Real is the client's outer address and port.
	Real netip.AddrPort
	// LastRef is when the route was last used or, if that is not known, learned.
	LastRef time.Time
}
