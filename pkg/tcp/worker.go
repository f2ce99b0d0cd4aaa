// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// readSize is the most bytes of one read: two full TCP aggregates, so that one
	// connection's turn is about as long as a burst of datagrams.
	readSize = 128 << 10
	// readSlack is what may be borrowed behind the last packet of a read.
	readSlack = 64
	// readPackets is the most packets handed over at once: eight batches of 64.
	readPackets = 512
	// turn is the most descriptors that are served between two waits.
	turn = 128
	// lookEvery is how often a worker looks after its connections' time.
	lookEvery = time.Second
)

// worker serves its share of a listener's connections. It alone closes their
// descriptors, and each descriptor is at most once in what one wait returns, so
// that no event can meet a descriptor that was given out anew.
type worker struct {
	listener *Listener
	index    int
	epoll    int
	event    int // eventfd that ends a wait
	stopped  atomic.Bool
	done     chan struct{}

	mu    sync.Mutex
	conns map[int]*Conn

	events  [turn]unix.EpollEvent
	buf     []byte
	packets [][]byte
	paused  atomic.Bool // accepting, for want of descriptors or memory
}

func newWorker(l *Listener, index int) (*worker, error) {
	w := &worker{listener: l, index: index, epoll: -1, event: -1, done: make(chan struct{}), conns: map[int]*Conn{},
		buf: make([]byte, readSize+readSlack), packets: make([][]byte, 0, readPackets)}
	var err error
	if w.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return w, fmt.Errorf("open epoll: %w", err)
	}
	if w.event, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return w, fmt.Errorf("open eventfd: %w", err)
	}
	return w, w.control(unix.EPOLL_CTL_ADD, w.event, unix.EPOLLIN)
}

func (w *worker) control(op, fd int, events uint32) error {
	if err := unix.EpollCtl(w.epoll, op, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)}); err != nil {
		return fmt.Errorf("change epoll: %w", err)
	}
	return nil
}

// interest asks for a connection's writability, or no more. Any goroutine may
// call it while the descriptor is open.
func (w *worker) interest(fd int, write bool) {
	events := uint32(unix.EPOLLIN)
	if write {
		events |= unix.EPOLLOUT
	}
	// It cannot fail for a descriptor that is registered, as this one is.
	_ = w.control(unix.EPOLL_CTL_MOD, fd, events)
}

// run works until stopped. It is its thread's only user.
func (w *worker) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(w.done)
	looked := time.Now()
	for !w.stopped.Load() {
		n, err := unix.EpollWait(w.epoll, w.events[:], int(lookEvery/time.Millisecond))
		if err != nil && !errors.Is(err, unix.EINTR) {
			time.Sleep(10 * time.Millisecond) // cannot happen; must not spin
		}
		for _, e := range w.events[:max(n, 0)] {
			switch fd := int(e.Fd); fd {
			case w.event:
			case w.listener.fd:
				w.accept()
			default:
				w.serve(fd, e.Events)
			}
		}
		if now := time.Now(); now.Sub(looked) >= lookEvery {
			looked = now
			w.look(now)
		}
	}
}

// serve acts on what epoll says of a connection.
func (w *worker) serve(fd int, events uint32) {
	w.mu.Lock()
	c := w.conns[fd]
	w.mu.Unlock()
	if c == nil {
		return
	}
	if events&unix.EPOLLOUT != 0 {
		c.mu.Lock()
		c.flush()
		c.mu.Unlock()
	}
	if events&^unix.EPOLLOUT != 0 {
		w.read(c)
	}
}

// read takes what a connection has, once: epoll tells of what is left, and the
// others have their turn before.
func (w *worker) read(c *Conn) {
	have := copy(w.buf, c.partial)
	n, err := unix.Read(c.fd, w.buf[have:readSize])
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		return
	case err != nil:
		w.end(c, err, false)
		return
	case n == 0:
		w.end(c, io.EOF, false)
		return
	}
	c.used = true
	rest := w.buf[:have+n]
	for {
		var packets [][]byte
		packets, rest, err = Split(rest, w.packets, w.listener.cfg.MaxPacket)
		if !c.isOpen() {
			c.partial = c.partial[:0]
			return
		}
		if len(packets) > 0 {
			c.receiver.Packets(w.index, packets)
		}
		if err != nil {
			w.listener.broken.Add(1)
			w.end(c, err, true)
			return
		}
		if len(packets) < readPackets {
			break
		}
	}
	c.partial = append(c.partial[:0], rest...)
}

// look ends connections whose time is over and takes memory back that they no
// longer need.
func (w *worker) look(now time.Time) {
	for _, c := range w.all() {
		c.mu.Lock()
		late := c.state != open && now.After(c.closeAt)
		if !c.used {
			c.queue.shrink()
		}
		c.mu.Unlock()
		if !c.used && len(c.partial) == 0 {
			c.partial = nil
		}
		c.used = false
		switch {
		case late:
			w.end(c, ErrClosed, true)
		case !c.proven.Load() && now.Sub(c.opened) >= w.listener.cfg.Handshake:
			w.listener.expired.Add(1)
			w.end(c, ErrHandshake, true)
		}
	}
	if w.paused.Load() {
		w.paused.Store(w.control(unix.EPOLL_CTL_MOD, w.listener.fd, unix.EPOLLIN) != nil)
	}
}

func (w *worker) all() []*Conn {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]*Conn, 0, len(w.conns))
	for _, c := range w.conns {
		all = append(all, c)
	}
	return all
}

// end closes a connection's descriptor and tells its receiver; with reset the
// kernel forgets at once what the other end has not read.
func (w *worker) end(c *Conn, why error, reset bool) {
	w.mu.Lock()
	delete(w.conns, c.fd)
	w.mu.Unlock()
	c.mu.Lock()
	if c.state != open && errors.Is(why, io.EOF) {
		why = ErrClosed
	}
	c.state = closed
	c.queue = queue{}
	proven := c.proven.Load()
	if reset {
		_ = unix.SetsockoptLinger(c.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	}
	_ = unix.Close(c.fd)
	c.mu.Unlock()
	c.partial = nil
	w.listener.limits.leave(c.from, proven)
	c.receiver.Closed(why)
}

// stop ends run.
func (w *worker) stop() {
	w.stopped.Store(true)
	one := [8]byte{1}
	_, _ = unix.Write(w.event, one[:])
}

// free closes the worker's own descriptors.
func (w *worker) free() {
	for _, fd := range []int{w.epoll, w.event} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}
