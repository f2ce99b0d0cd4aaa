// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"net/netip"
	"runtime"
	"time"
)

// Defaults of Config.
const (
	// DefaultMaxConns is a TUN's network of 4,096 clients twice, so that all of them
	// can come back before their old connections are known to be dead.
	DefaultMaxConns = 8192
	// DefaultMaxPerPrefix bounds the unproven connections of one source: a site
	// whose clients share an address may reconnect all at once.
	DefaultMaxPerPrefix = 128
	// DefaultHandshake is stock OpenVPN's hand-window.
	DefaultHandshake = 60 * time.Second
	// DefaultQueue holds 20 ms at 100 Mbit/s, more than what waits in the kernel.
	DefaultQueue = 256 << 10
	// DefaultReserve holds a control channel's full window of packets.
	DefaultReserve = 32 << 10
	// DefaultMaxPacket is room for a record or a control packet of a TUN of 1,500
	// bytes with all that can be around them.
	DefaultMaxPacket = 1500 + 2048
)

// Config describes a listener.
type Config struct {
	// Addr is the local address and port. A wildcard address listens on all
	// addresses of its family; port 0 takes a free one. IPv4 in IPv6-mapped form is
	// taken as IPv4. A link-local address needs a zone.
	Addr netip.AddrPort
	// Mark is the firewall mark of packets sent (SO_MARK); 0: none.
	Mark int
	// RcvBuf and SndBuf are a connection's socket buffers in bytes; 0: the
	// kernel's own choice, which grows with the speed of the path.
	RcvBuf, SndBuf int

	// MaxPacket is the longest packet accepted in bytes, 1 to MaxPacket; a longer
	// one ends its connection. 0: DefaultMaxPacket.
	MaxPacket int
	// MaxConns bounds all connections. With one more, an unproven one is ended, any
	// of them, so that whoever holds many from many addresses keeps nobody out; when
	// all are proven, it is the new one. 0: DefaultMaxConns.
	MaxConns int
	// MaxPerPrefix bounds the connections that are not proven yet (see
	// Conn.Proven) from one IPv4 address or one IPv6 /64. 0: DefaultMaxPerPrefix.
	MaxPerPrefix int
	// Handshake is how long a connection may stay unproven, looked at once a
	// second. 0: DefaultHandshake.
	Handshake time.Duration
	// Queue is how many bytes wait for one connection's socket at most. Records are
	// taken only while Reserve bytes of it stay free, which are left for
	// control packets. 0: DefaultQueue and DefaultReserve.
	Queue, Reserve int
	// Workers is how many threads serve the connections. 0: one for each
	// processor, at most 4.
	Workers int
}

func (c Config) withDefaults() Config {
	or := func(v *int, standard int) {
		if *v == 0 {
			*v = standard
		}
	}
	or(&c.MaxPacket, DefaultMaxPacket)
	or(&c.MaxConns, DefaultMaxConns)
	or(&c.MaxPerPrefix, DefaultMaxPerPrefix)
	or(&c.Queue, DefaultQueue)
	or(&c.Reserve, DefaultReserve)
	or(&c.Workers, min(runtime.NumCPU(), 4))
	c.MaxPacket = min(c.MaxPacket, MaxPacket)
	if c.Handshake == 0 {
		c.Handshake = DefaultHandshake
	}
	return c
}
