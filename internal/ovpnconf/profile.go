// SPDX-License-Identifier: Apache-2.0

package ovpnconf

import (
	"net/netip"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/aead"
)

// Profile is a client's configuration, or one end of a point-to-point tunnel's: with
// what a server pushed, once Pull has put that in.
type Profile struct {
	Common
	// Pull: the other end is a server that tells us addresses and routes.
	Pull bool
	// TLSServer: we are the server in TLS, without being one for many clients
	// (tls-server without mode server). The other end opens the session.
	TLSServer bool

	// Remotes are the servers, in the order of the file. None: a TLSServer that waits
	// for whoever comes.
	Remotes []Remote
	// Random: Remotes are tried in random order. RandomHost: a random label is put in
	// front of host names, against caches.
	Random, RandomHost bool
	// Local is the address that is bound; "": any. LocalPort 0: the kernel's choice.
	Local     string
	LocalPort uint16
	// Float: the server's packets may come from another address than it has.
	Float bool

	Retry Retry
	Login Login
	// PushPeerInfo: the server is told more about this host.
	PushPeerInfo bool
	// ExitNotify is how often a server is told that we go in the data channel, where
	// that cannot be done in the control channel; 0: it is not told.
	ExitNotify int

	// Address4 and Address6 are the tunnel's addresses with their prefix lengths,
	// invalid: none. Remote4 is the other end's address when `ifconfig` names one, as it
	// does with topology net30 or p2p; Address4 has a length of 32 then.
	Address4, Address6 netip.Prefix
	Remote4            netip.Addr
	// Redirect is redirect-gateway or redirect-private; the zero value is none.
	Redirect Redirect
	// Block6: IPv6 packets of this host are not let out, neither way (block-ipv6).
	Block6 bool
	// RouteNoPull: pushed routes and DNS settings are left out.
	RouteNoPull bool
	Filters     []PullFilter
	DNS         DNS
	// Foreign are dhcp-option lines as scripts get them (foreign_option_N).
	Foreign []string

	Pushed Pushed

	// kept is what pushed options add to.
	kept struct {
		topology          string
		gateway, gateway6 netip.Addr
		metric            int
	}
}

// Remote is one `remote` line or <connection> block.
type Remote struct {
	// Host is an address or a name.
	Host string
	Port uint16
	// TCP: proto tcp-client and its forms. Family is 4 or 6, or 0 for either.
	TCP    bool
	Family int
	// Proto is the protocol's name as scripts see it: udp, udp4, tcp6-client...
	Proto string
	// ExitNotify of a <connection> block; nil: as for all.
	ExitNotify *int
	Line       Line
}

// Retry is how and how long a server is tried.
type Retry struct {
	// Wait is the time between two attempts, default 1 s, which doubles from the fifth
	// round on up to WaitMax, default 300 s.
	Wait, WaitMax time.Duration
	// Rounds is how often all servers are tried before the client gives up; 0: for ever.
	Rounds int
	// Poll is how long a server has for its first answer, default 120 s.
	Poll time.Duration
	// Resolve is how long a name that cannot be resolved is tried; negative: for ever.
	Resolve time.Duration
}

// AuthRetry says what follows when a server refuses user and password.
type AuthRetry uint8

// The values of auth-retry.
const (
	AuthRetryNone       AuthRetry = iota // the client ends
	AuthRetryNoInteract                  // it tries again with the same
	AuthRetryInteract                    // it asks for others
)

// Login is user and password.
type Login struct {
	// Wanted: auth-user-pass is given. File has user and password in its first two
	// lines; without File they are asked for on the console.
	Wanted bool
	File   Source
	Retry  AuthRetry
	// NoCache: user and password are asked for again each time.
	NoCache bool
	// Challenge is the question of static-challenge, "": none; Echo: the answer may be
	// seen; Concat: the answer stands behind the password.
	Challenge    string
	Echo, Concat bool
}

// Redirect says that traffic of this host goes through the tunnel.
type Redirect struct {
	// V4 and V6: all traffic of the family.
	V4, V6 bool
	// Private: only the way to the server is kept clear, for routes that follow.
	Private bool
	// Local: the server is on a network of this host and needs no route. AutoLocal:
	// look whether it is.
	Local, AutoLocal bool
	// BlockLocal: networks of this host are reached through the tunnel too.
	BlockLocal bool
}

// FilterAction is what pull-filter does.
type FilterAction uint8

// The actions of pull-filter.
const (
	FilterAccept FilterAction = iota
	FilterIgnore
	FilterReject
)

// PullFilter is one pull-filter line: what is done with pushed options that begin
// with Text.
type PullFilter struct {
	Action FilterAction
	Text   string
}

// DNS is what dhcp-option and dns say.
type DNS struct {
	// Servers have port 0 where none was given.
	Servers []netip.AddrPort
	// Search are domains to search. Routing are domains that alone are asked for at
	// Servers.
	Search, Routing []string
}

// Empty reports whether there is nothing to set.
func (d *DNS) Empty() bool { return len(d.Servers) == 0 && len(d.Search) == 0 && len(d.Routing) == 0 }

// Pushed is what only a server can say, in its PUSH_REPLY.
type Pushed struct {
	// PeerID stands in data records both ways; nil: none was pushed.
	PeerID *uint32
	// Cipher is 0 if none was pushed; it is one of Data.Ciphers.
	Cipher aead.Cipher
	// EKM: data keys come from the TLS exporter. Dynamic: renegotiations are wrapped with a
	// key from it. CCExit: goodbyes go by the control channel.
	EKM, Dynamic, CCExit bool
	// Token takes the place of the password; TokenUser that of the user. "": none.
	Token, TokenUser string
}
