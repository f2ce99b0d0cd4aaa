// SPDX-License-Identifier: Apache-2.0

package ovpnconf

import (
	"net/netip"
	"time"
)

// Common is what configurations of servers and of clients share, with all helper
// options expanded and all defaults filled in. Relative paths of files are already
// joined with `cd` and so stand relative to the process's working directory; commands
// are not, they run in Cd.
type Common struct {
	Socket Socket
	Tunnel Tunnel
	// Routes are kernel routes into the tunnel, IPv4 and IPv6.
	Routes []Route
	TLS    TLS
	Peers  PeerChecks
	Wrap   Wrapping
	Data   Data
	Timers
	Scripts    Scripts
	Management Management
	Status     Status
	Log        Log
	Process    Process
	XDP        XDP

	lines map[string]Line // the last one of each option
}

// Server is a server's configuration.
type Server struct {
	Common
	Listen []Listen
	// Network4 and Network6 are the tunnel's networks. At least one is given.
	Network4, Network6 Network
	Pool4              Pool4
	Pool6              Pool6
	PoolPersist        PoolPersist
	// Push is what every client is told, in order, helper options' own text
	// included (route-gateway, topology, ping, ping-restart). Addresses, peer id
	// and cipher are a client's own and not in here.
	Push    []Push
	Clients Clients
	Auth    Auth
}

// Listen is one endpoint to listen on. `proto udp6` without an address is two of
// them, one for each family, since stock binds it dual-stack.
type Listen struct {
	// Host is what stood behind `local`: an address, a name to resolve, or "" for
	// every address.
	Host string
	// Addr is the address when Host is one or is empty (then the wildcard of one
	// family only); invalid when Host is a name.
	Addr netip.Addr
	Port uint16
	// TCP: proto tcp-server and its forms.
	TCP bool
	// Proto is the protocol's name as scripts see it in proto_1: udp, udp4, udp6,
	// tcp-server, tcp4-server or tcp6-server.
	Proto string
	Line  Line
}

// Socket holds options of the outer sockets.
type Socket struct {
	// Multihome: answer from the address that a client spoke to. Data and control
	// always do.
	Multihome bool
	// Mark is SO_MARK of outer packets; 0: none.
	Mark uint32
	// SndBuf and RcvBuf are bytes; 0: the kernel's default.
	SndBuf, RcvBuf int
}

// Tunnel describes the TUN device.
type Tunnel struct {
	// Dev is the device's name; "": the first free tunN (`dev tun`).
	Dev string
	// MTU is tun-mtu in bytes, default 1500.
	MTU int
	// MTUMax is the largest tun-mtu that may be pushed, default 1600.
	MTUMax int
	MSSFix MSSFix
	// RoutesNoExec: Server.Routes are not to be set (route-noexec).
	RoutesNoExec bool
	// MaxPacket is the most bytes of a control datagram with IP and UDP headers,
	// default 1250.
	MaxPacket int
}

// Network is a tunnel network with our address in it; the zero value is none.
type Network struct {
	// Prefix is the network, host bits zero.
	Prefix netip.Prefix
	// Own is the server's address.
	Own netip.Addr
}

// Pool4 is the range of IPv4 addresses given to clients; the zero value is none
// (`nopool`, or no ifconfig-pool).
type Pool4 struct {
	Start, End netip.Addr
	// Mask is the prefix length that clients are told.
	Mask int
}

// Pool6 is the range of IPv6 addresses given to clients: Base is the first, the
// length of Prefix what clients are told. The zero value is none.
type Pool6 struct {
	Base   netip.Addr
	Prefix netip.Prefix
}

// PoolPersist is ifconfig-pool-persist.
type PoolPersist struct {
	// File is "" when addresses are not kept.
	File string
	// Every is how often the file is written; 0: it is only read. Default 600 s.
	Every time.Duration
}

// Route is a kernel route of `route` or `route-ipv6`.
type Route struct {
	Prefix netip.Prefix
	// Gateway is the next hop; invalid: the tunnel device itself.
	Gateway netip.Addr
	// Direct: Gateway is outside the tunnel (`net_gateway`), to be looked up in the
	// routing table.
	Direct bool
	// Metric is -1 when the kernel's default is to be used.
	Metric int
	Line   Line
}

// Push is one pushed option as text.
type Push struct {
	Text string
	Line Line
}

// Clients holds rules about clients.
type Clients struct {
	// Max is max-clients, default 1024.
	Max int
	// MaxRoutes is max-routes-per-client, default 256.
	MaxRoutes int
	// ConfigDir is client-config-dir; "": none.
	ConfigDir string
	// ConfigExclusive: no client without a file in ConfigDir.
	ConfigExclusive bool
	// ToClient: packets between clients stay inside the gateway.
	ToClient bool
	// BlockToClient: packets between clients are dropped.
	BlockToClient bool
	// DuplicateCN: several clients may have one common name.
	DuplicateCN bool
	// Connect limits established clients (connect-freq), Initial limits answered
	// first packets (connect-freq-initial, default 100 in 10 s). A zero Count is
	// no limit.
	Connect, Initial Frequency
	// ExitNotify is explicit-exit-notify: 0 none, 1 RESTART, 2 RESTART,[N].
	ExitNotify int
}

// Frequency is a number of events in a time.
type Frequency struct {
	Count int
	Per   time.Duration
}
