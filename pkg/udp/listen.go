// SPDX-License-Identifier: Apache-2.0

package udp

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/sockaddr"
)

// DefaultBuffer is the size of each socket buffer in bytes, as asked for: 4 MiB
// hold 64 full aggregates. The kernel books twice that for its own overhead.
const DefaultBuffer = 4 << 20

// Config describes a listener.
type Config struct {
	// Addr is the local address and port. A wildcard address listens on all
	// addresses of its family; port 0 takes a free one. IPv4 in IPv6-mapped
	// form is taken as IPv4. A link-local address needs a zone.
	Addr netip.AddrPort
	// Mark is the firewall mark of packets sent (SO_MARK); 0: none.
	Mark int
	// RcvBuf and SndBuf are in bytes; 0: DefaultBuffer. With CAP_NET_ADMIN
	// net.core.rmem_max and wmem_max don't limit them, without it they do.
	RcvBuf, SndBuf int
	// GRO lets aggregates be received, where the kernel has UDP_GRO (5.0).
	GRO bool
	// NoGSO sends each datagram by itself from the start.
	NoGSO bool
	// Log hears once that segmentation offload was switched off; nil: nobody.
	Log *slog.Logger
}

// Conn is a bound socket. Its methods may be called from any goroutine. One
// Receiver and any number of Senders may use it at the same time.
type Conn struct {
	fd   int
	addr netip.AddrPort
	log  *slog.Logger

	gro, gso atomic.Bool
	gsoOnce  sync.Once
	gsoErr   atomic.Pointer[error]
}

// Listen opens a listener in the network namespace of the calling thread. It
// shares its port with nobody: neither SO_REUSEADDR nor SO_REUSEPORT is set,
// and an address in use is an error that wraps EADDRINUSE.
func Listen(cfg Config) (*Conn, error) {
	addr := netip.AddrPortFrom(cfg.Addr.Addr().Unmap(), cfg.Addr.Port())
	if !addr.Addr().IsValid() {
		return nil, errors.New("listen on udp: no address given")
	}
	family := unix.AF_INET6
	if addr.Addr().Is4() {
		family = unix.AF_INET
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("listen on udp %s: open socket: %w", addr, err)
	}
	c := &Conn{fd: fd, log: cfg.Log}
	if err := c.setUp(cfg, addr); err != nil {
		return nil, errors.Join(fmt.Errorf("listen on udp %s: %w", addr, err), unix.Close(fd))
	}
	return c, nil
}

type option struct {
	name              string
	level, opt, value int
}

// Path MTU discovery is off: single and segmented sends then leave DF clear
// alike, and what is longer than the path is fragmented and not refused.
var options4 = []option{
	{"IP_PKTINFO", unix.IPPROTO_IP, unix.IP_PKTINFO, 1},
	{"IP_MTU_DISCOVER", unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DONT},
}

var options6 = []option{
	{"IPV6_V6ONLY", unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1},
	{"IPV6_RECVPKTINFO", unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1},
	{"IPV6_MTU_DISCOVER", unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DONT},
}

func (c *Conn) setUp(cfg Config, addr netip.AddrPort) error {
	options := options6
	if addr.Addr().Is4() {
		options = options4
	}
	for _, o := range options {
		if err := unix.SetsockoptInt(c.fd, o.level, o.opt, o.value); err != nil {
			return fmt.Errorf("set %s: %w", o.name, err)
		}
	}
	if cfg.Mark != 0 {
		if err := unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_MARK, cfg.Mark); err != nil {
			return fmt.Errorf("set mark %#x: %w; CAP_NET_ADMIN is needed", cfg.Mark, err)
		}
	}
	if err := c.setBuffer("receive", unix.SO_RCVBUFFORCE, unix.SO_RCVBUF, cfg.RcvBuf); err != nil {
		return err
	}
	if err := c.setBuffer("send", unix.SO_SNDBUFFORCE, unix.SO_SNDBUF, cfg.SndBuf); err != nil {
		return err
	}
	if cfg.GRO {
		if err := c.SetGRO(true); err != nil && !errors.Is(err, unix.ENOPROTOOPT) {
			return err
		}
	}
	_, err := unix.GetsockoptInt(c.fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT)
	c.gso.Store(!cfg.NoGSO && err == nil)
	return c.bind(addr)
}

// setBuffer goes around the sysctl limits where it may, and else takes what they allow.
func (c *Conn) setBuffer(name string, force, polite, size int) error {
	if size == 0 {
		size = DefaultBuffer
	}
	if unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, force, size) == nil {
		return nil
	}
	if err := unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, polite, size); err != nil {
		return fmt.Errorf("set %s buffer of %d bytes: %w", name, size, err)
	}
	return nil
}

func (c *Conn) bind(addr netip.AddrPort) error {
	sa, err := sockaddr.From(addr)
	if err != nil {
		return err
	}
	switch err := unix.Bind(c.fd, sa); {
	case errors.Is(err, unix.EADDRINUSE):
		return fmt.Errorf("port in use: %w; listeners share no port, stop its owner (ss -ulpn shows it) or take another port", err)
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return fmt.Errorf("bind: %w; the address is not one of this host's", err)
	case err != nil:
		return fmt.Errorf("bind: %w", err)
	}
	bound, err := unix.Getsockname(c.fd)
	if err != nil {
		return fmt.Errorf("get bound address: %w", err)
	}
	c.addr = netip.AddrPortFrom(addr.Addr(), sockaddr.AddrPort(bound).Port())
	return nil
}

// FD is the socket, to poll.
func (c *Conn) FD() int { return c.fd }

// Addr is the local address, as it was asked for, and the port it got.
func (c *Conn) Addr() netip.AddrPort { return c.addr }

// GRO reports whether aggregates are received.
func (c *Conn) GRO() bool { return c.gro.Load() }

// SetGRO lets the kernel deliver aggregates, or not. What is in the receive
// buffer already stays as it is. A kernel without it gives ENOPROTOOPT.
func (c *Conn) SetGRO(on bool) error {
	value := 0
	if on {
		value = 1
	}
	if err := unix.SetsockoptInt(c.fd, unix.IPPROTO_UDP, unix.UDP_GRO, value); err != nil {
		return fmt.Errorf("set UDP_GRO to %d: %w", value, err)
	}
	c.gro.Store(on)
	return nil
}

// GSO reports whether runs are sent as one message each.
func (c *Conn) GSO() bool { return c.gso.Load() }

// GSOError is the errno for which segmentation offload was switched off; nil
// while it is on, when NoGSO was asked for and when the kernel never had it.
func (c *Conn) GSOError() error {
	if p := c.gsoErr.Load(); p != nil {
		return *p
	}
	return nil
}

func (c *Conn) disableGSO(err error) {
	c.gsoOnce.Do(func() {
		c.gsoErr.Store(&err)
		c.gso.Store(false)
		if c.log != nil {
			c.log.Warn("UDP segmentation offload switched off", "listener", c.addr, "reason", err)
		}
	})
}

// Close closes the socket. Nobody may be sending, receiving or polling any more.
func (c *Conn) Close() error {
	if err := unix.Close(c.fd); err != nil {
		return fmt.Errorf("close udp %s: %w", c.addr, err)
	}
	return nil
}
