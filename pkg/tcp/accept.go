// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/sockaddr"
)

// accepts bounds the connections accepted in one turn.
const accepts = 64

// accept takes connections from the listener's socket.
func (w *worker) accept() {
	l := w.listener
	for range accepts {
		fd, sa, err := unix.Accept4(l.fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		switch {
		case err == nil:
			l.adopt(fd, sockaddr.AddrPort(sa))
		case errors.Is(err, unix.EAGAIN):
			return
		case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.ENOMEM):
			// They wait in the backlog until some have ended.
			w.paused.Store(w.control(unix.EPOLL_CTL_MOD, l.fd, 0) == nil)
			return
		}
		// Others are errors of a connection that broke while it waited.
	}
}

// adopt makes a connection of an accepted descriptor, or closes it.
func (l *Listener) adopt(fd int, remote netip.AddrPort) {
	bound, err := unix.Getsockname(fd)
	from := source(remote.Addr())
	ok, over := false, false
	if err == nil {
		ok, over = l.limits.enter(from)
	}
	if over && !l.evict() {
		l.limits.leave(from, false)
		ok = false
	}
	if !ok {
		l.refused.Add(1)
		_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
		_ = unix.Close(fd)
		return
	}
	local := sockaddr.AddrPort(bound)
	c := &Conn{listener: l, worker: l.workers[l.next%len(l.workers)], fd: fd, remote: remote,
		local: netip.AddrPortFrom(local.Addr().WithZone(""), local.Port()), from: from, opened: time.Now()}
	l.next++
	l.accepted.Add(1)
	c.receiver = l.handler.Opened(c)
	w := c.worker
	w.mu.Lock()
	w.conns[fd] = c
	w.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = true // for what Opened may have queued
	if w.control(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN|unix.EPOLLOUT) != nil && c.state == open {
		// No memory for it: its worker ends it when it looks.
		c.state, c.closeAt = flushing, c.opened
	}
}

// evict ends an unproven connection, if there is one. Maps are walked from a
// random place, so that it may be any.
func (l *Listener) evict() bool {
	first := rand.IntN(len(l.workers))
	for i := range l.workers {
		w := l.workers[(first+i)%len(l.workers)]
		w.mu.Lock()
		var victim *Conn
		for _, c := range w.conns {
			if !c.proven.Load() && !c.evicted {
				victim = c
				c.evicted = true
				break
			}
		}
		w.mu.Unlock()
		if victim != nil {
			l.evicted.Add(1)
			victim.abort()
			return true
		}
	}
	return false
}
