// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/sockaddr"
)

// Handler is told of connections.
type Handler interface {
	// Opened is called for each connection when it is accepted, and returns who
	// takes what it carries. It must not block.
	Opened(c *Conn) Receiver
}

// Stats is what a listener has seen.
type Stats struct {
	Open     int    // connections at present
	Accepted uint64 // since the start
	Refused  uint64 // closed at once: one too many
	Evicted  uint64 // unproven ones that made room for another
	Expired  uint64 // closed because they were not proven in time
	Broken   uint64 // closed because of a length out of range
}

// Listener is a bound socket and the connections that came to it.
type Listener struct {
	cfg     Config
	fd      int
	addr    netip.AddrPort
	limits  limits
	workers []*worker
	linger  time.Duration
	next    int // worker of the next connection; worker 0's
	handler Handler
	running bool

	accepted, refused, evicted, expired, broken atomic.Uint64
}

// backlog is how many connections wait to be accepted; the kernel caps it at
// net.core.somaxconn.
const backlog = 4096

// notSent bounds what the kernel holds of a connection without having sent it:
// more would only make what is sent older.
const notSent = 128 << 10

// Listen opens a listener in the network namespace of the calling thread. An
// address in use is an error that wraps EADDRINUSE. Connections wait until Start.
func Listen(cfg Config) (*Listener, error) {
	addr := netip.AddrPortFrom(cfg.Addr.Addr().Unmap(), cfg.Addr.Port())
	if !addr.Addr().IsValid() {
		return nil, errors.New("listen on tcp: no address given")
	}
	family := unix.AF_INET6
	if addr.Addr().Is4() {
		family = unix.AF_INET
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("listen on tcp %s: open socket: %w", addr, err)
	}
	l := &Listener{cfg: cfg.withDefaults(), fd: fd, linger: lingerTime}
	l.limits = limits{conns: l.cfg.MaxConns, perPrefix: l.cfg.MaxPerPrefix, unproven: map[netip.Prefix]int{}}
	if err := l.setUp(addr); err != nil {
		return nil, errors.Join(fmt.Errorf("listen on tcp %s: %w", addr, err), unix.Close(fd))
	}
	return l, nil
}

type option struct {
	name              string
	level, opt, value int
}

// setUp sets the options, which connections inherit, and binds.
func (l *Listener) setUp(addr netip.AddrPort) error {
	options := []option{
		// A restarted gateway takes its port while old connections time out.
		{"SO_REUSEADDR", unix.SOL_SOCKET, unix.SO_REUSEADDR, 1},
		// A record is a packet that somebody waits for.
		{"TCP_NODELAY", unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
		{"TCP_NOTSENT_LOWAT", unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, notSent},
	}
	if addr.Addr().Is6() {
		options = append(options, option{"IPV6_V6ONLY", unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1})
	}
	if l.cfg.Mark != 0 {
		options = append(options, option{"SO_MARK", unix.SOL_SOCKET, unix.SO_MARK, l.cfg.Mark})
	}
	if l.cfg.RcvBuf != 0 {
		options = append(options, option{"SO_RCVBUF", unix.SOL_SOCKET, unix.SO_RCVBUF, l.cfg.RcvBuf})
	}
	if l.cfg.SndBuf != 0 {
		options = append(options, option{"SO_SNDBUF", unix.SOL_SOCKET, unix.SO_SNDBUF, l.cfg.SndBuf})
	}
	for _, o := range options {
		if err := unix.SetsockoptInt(l.fd, o.level, o.opt, o.value); err != nil {
			return fmt.Errorf("set %s to %d: %w", o.name, o.value, err)
		}
	}
	sa, err := sockaddr.From(addr)
	if err != nil {
		return err
	}
	switch err := unix.Bind(l.fd, sa); {
	case errors.Is(err, unix.EADDRINUSE):
		return fmt.Errorf("port in use: %w; stop its owner (ss -tlpn shows it) or take another port", err)
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return fmt.Errorf("bind: %w; the address is not one of this host's", err)
	case err != nil:
		return fmt.Errorf("bind: %w", err)
	}
	if err := unix.Listen(l.fd, backlog); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	bound, err := unix.Getsockname(l.fd)
	if err != nil {
		return fmt.Errorf("get bound address: %w", err)
	}
	l.addr = netip.AddrPortFrom(addr.Addr(), sockaddr.AddrPort(bound).Port())
	return l.makeWorkers()
}

// makeWorkers makes the workers, so that Start needs nothing that can be lacking.
func (l *Listener) makeWorkers() error {
	for i := range l.cfg.Workers {
		w, err := newWorker(l, i)
		l.workers = append(l.workers, w)
		if err != nil {
			l.free()
			return err
		}
	}
	if err := l.workers[0].control(unix.EPOLL_CTL_ADD, l.fd, unix.EPOLLIN); err != nil {
		l.free()
		return err
	}
	return nil
}

func (l *Listener) free() {
	for _, w := range l.workers {
		w.free()
	}
}

// Addr is the local address, as it was asked for, and the port it got.
func (l *Listener) Addr() netip.AddrPort { return l.addr }

// Workers returns how many threads serve the connections.
func (l *Listener) Workers() int { return l.cfg.Workers }

// Start begins to accept connections and hands them to h. It is called at most once.
func (l *Listener) Start(h Handler) {
	l.handler = h
	l.running = true
	for _, w := range l.workers {
		go w.run()
	}
}

// Stop ends all connections, each with a call of its Receiver.Closed, and waits
// for the workers; afterwards none of the handler's methods is called. What waits
// in queues is lost. A listener that was not started has nothing to stop.
func (l *Listener) Stop() {
	if !l.running {
		return
	}
	l.running = false
	for _, w := range l.workers {
		w.stop()
	}
	for _, w := range l.workers {
		<-w.done
	}
	// No worker is left that could be doing the same, or accept one more.
	for _, w := range l.workers {
		for _, c := range w.all() {
			w.end(c, ErrClosed, false)
		}
	}
}

// Close stops the listener and closes its socket.
func (l *Listener) Close() error {
	l.Stop()
	l.free()
	if err := unix.Close(l.fd); err != nil {
		return fmt.Errorf("close tcp %s: %w", l.addr, err)
	}
	return nil
}

// Stats reads the counters. It may be called from any goroutine.
func (l *Listener) Stats() Stats {
	return Stats{
		Open:     l.limits.count(),
		Accepted: l.accepted.Load(),
		Refused:  l.refused.Load(),
		Evicted:  l.evicted.Load(),
		Expired:  l.expired.Load(),
		Broken:   l.broken.Load(),
	}
}
