// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Receiver takes what one connection carries. Its methods are called by the
// connection's worker, never two at a time.
type Receiver interface {
	// Packets hands over packets in order, without their lengths. They are
	// borrowed until it returns; their bytes may be written, and 16 bytes behind
	// each one too if they are restored. Calls with one worker's number, 0 to
	// Workers-1, never overlap, whatever the connection.
	Packets(worker int, packets [][]byte)
	// Closed is called once, last: the connection is gone. why is io.EOF when the
	// other end closed it, ErrFrame, ErrHandshake, ErrClosed after Close, or the
	// socket's errno.
	Closed(why error)
}

// Reasons for the end of a connection, beside ErrFrame, io.EOF and the socket's errnos.
var (
	ErrHandshake = errors.New("connection was not proven in time")
	ErrClosed    = errors.New("connection was closed on our side")
)

// lingerTime is how long a connection that was closed here may take to deliver
// what is on its way, before it is reset.
const lingerTime = 5 * time.Second

// state is how far a connection has come.
type state uint8

const (
	open      state = iota
	flushing        // Close was called; what is queued still goes
	lingering       // everything was handed to the kernel, with a FIN behind it; input is discarded
	closed          // the descriptor is closed
)

// Conn is one connection. Its methods may be called from any goroutine; none of
// them blocks.
type Conn struct {
	listener      *Listener
	worker        *worker
	remote, local netip.AddrPort
	from          netip.Prefix
	opened        time.Time
	receiver      Receiver

	partial []byte // the worker's: a packet that is not whole yet, with its length
	used    bool   // the worker's: something was read since the last look

	proven  atomic.Bool
	evicted bool // guarded by the worker's lock

	mu      sync.Mutex
	fd      int
	state   state
	waiting bool // for EPOLLOUT
	queue   queue
	closeAt time.Time // when flushing or lingering ends
}

// Remote is the other end's address; a link-local one has its zone.
func (c *Conn) Remote() netip.AddrPort { return c.remote }

// Local is our own address of the connection, without zone.
func (c *Conn) Local() netip.AddrPort { return c.local }

// Proven says that the other end has authenticated: the connection may stay as
// long as it likes, and no longer counts against its source.
func (c *Conn) Proven() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != closed && c.proven.CompareAndSwap(false, true) {
		c.listener.limits.proven(c.from)
	}
}

// SendFrames sends records, each behind its length, and returns how many of them,
// from the first on, were taken. b, which must hold whole frames only, is borrowed
// until it returns. Records that don't fit the queue are not sent. It does not
// allocate once the queue has grown to what it needs.
func (c *Conn) SendFrames(b []byte) (taken int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != open {
		return 0
	}
	room := c.listener.cfg.Queue - c.listener.cfg.Reserve
	if c.queue.len() == 0 {
		n, ok := c.write(b)
		if !ok {
			return 0
		}
		frames, end := whole(b, n)
		taken, b, n = frames, b[end:], n-end
		if n > 0 { // a frame that was begun must be ended, room or not
			end = frameLen(b)
			c.queue.add(b[n:end])
			taken, b = taken+1, b[end:]
		}
		if len(b) == 0 {
			c.await()
			return taken
		}
	}
	frames, end := whole(b, room-c.queue.len())
	c.queue.add(b[:end])
	c.await()
	return taken + frames
}

// SendPacket sends one packet, without its length, of 1 to MaxPacket bytes, and
// reports whether there was room for it. It is copied.
func (c *Conn) SendPacket(packet []byte) bool {
	if len(packet) == 0 || len(packet) > MaxPacket {
		return false
	}
	b := make([]byte, PrefixLen+len(packet))
	PutPrefix(b, len(packet))
	copy(b[PrefixLen:], packet)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != open || c.queue.len()+len(b) > c.listener.cfg.Queue {
		return false
	}
	if c.queue.len() == 0 {
		n, ok := c.write(b)
		if !ok {
			return false
		}
		b = b[n:]
	}
	c.queue.add(b)
	c.await()
	return true
}

// write hands bytes to the kernel and returns how many it took. A connection that
// is broken is not ok; its worker hears of that by itself. c.mu is held.
func (c *Conn) write(b []byte) (n int, ok bool) {
	for {
		n, err := unix.Write(c.fd, b)
		switch {
		case err == nil:
			return n, true
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			return 0, true
		default:
			return 0, false
		}
	}
}

// await asks to be told when the socket takes more, if something waits; c.mu is
// held.
func (c *Conn) await() {
	if want := c.queue.len() > 0; want != c.waiting && c.state != closed {
		c.waiting = want
		c.worker.interest(c.fd, want)
	}
}

// flush sends what waits; c.mu is held.
func (c *Conn) flush() {
	for c.queue.len() > 0 {
		n, ok := c.write(c.queue.bytes())
		if !ok || n == 0 {
			return
		}
		c.queue.gone(n)
	}
	c.await()
	if c.state == flushing {
		c.finish()
	}
}

// finish tells the other end that nothing more comes; c.mu is held. Input goes on
// to be read, since closing a socket with unread input resets the connection and
// takes from the other end what it has not read yet.
func (c *Conn) finish() {
	c.state = lingering
	_ = unix.Shutdown(c.fd, unix.SHUT_WR) // fails when the connection is broken, which the worker sees
}

// Close ends the connection: what is queued goes first, for 5 seconds at most.
// Nothing more is received. Receiver.Closed follows.
func (c *Conn) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != open {
		return
	}
	c.state = flushing
	c.closeAt = time.Now().Add(c.listener.linger)
	if c.queue.len() == 0 {
		c.finish()
	}
}

// abort has the worker end the connection at once.
func (c *Conn) abort() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == open || c.state == flushing {
		c.state, c.closeAt = lingering, c.opened
		_ = unix.Shutdown(c.fd, unix.SHUT_RDWR) // the worker reads the end
	}
}

// isOpen reports whether packets are still wanted.
func (c *Conn) isOpen() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state == open
}
