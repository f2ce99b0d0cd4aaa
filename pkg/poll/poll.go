// SPDX-License-Identifier: Apache-2.0

// Package poll lets a worker sleep until its descriptor is ready or another
// goroutine wakes it. The worker sleeps in poll(2) on its own thread and not in
// the runtime's network poller, which would cost a goroutine switch per burst.
package poll

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// Poller is an eventfd to wait on together with one other descriptor.
type Poller struct {
	fds     [2]unix.PollFd // the caller's, the eventfd; the waiter's own
	counter [8]byte        // the waiter's own

	mu    sync.Mutex // between Wake and Close
	event int        // -1: closed
}

// New opens a poller. It holds one descriptor until Close.
func New() (*Poller, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("open eventfd: %w", err)
	}
	return &Poller{event: fd, fds: [2]unix.PollFd{{}, {Fd: int32(fd), Events: unix.POLLIN}}}, nil
}

// Wait sleeps until fd has one of the events (POLLIN, POLLOUT) or an error or
// hang-up, until Wake, or for timeoutMs milliseconds (negative: without limit).
// With fd -1 it waits for Wake alone. A Wake that came since the last Wait ends
// this one at once, and any number of them counts as one. It may
// return early with neither ready nor woken, after a signal. One goroutine at a
// time may wait. The error is that fd isn't open, or poll(2)'s. It does not allocate.
func (p *Poller) Wait(fd int, events int16, timeoutMs int) (ready, woken bool, err error) {
	p.fds[0] = unix.PollFd{Fd: int32(fd), Events: events}
	p.fds[1].Revents = 0
	n, err := unix.Poll(p.fds[:], timeoutMs)
	if err != nil {
		if errors.Is(err, unix.EINTR) {
			return false, false, nil
		}
		return false, false, err
	}
	if n == 0 {
		return false, false, nil
	}
	if p.fds[1].Revents != 0 {
		woken = true
		// EAGAIN cannot matter: the counter is zero then, as wanted.
		_, _ = unix.Read(int(p.fds[1].Fd), p.counter[:])
	}
	if p.fds[0].Revents&unix.POLLNVAL != 0 {
		return false, woken, unix.EBADF
	}
	return p.fds[0].Revents != 0, woken, nil
}

// one is the eventfd's increment; any byte order makes it more than nothing.
var one = [8]byte{1}

// Wake ends the Wait that goes on, or else the next one. Any goroutine may call
// it at any time, also after Close.
func (p *Poller) Wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.event >= 0 {
		// EAGAIN would mean 2^64-2 wake-ups outstanding: it is awake.
		_, _ = unix.Write(p.event, one[:])
	}
}

// Close frees the descriptor. Nobody may be waiting; a second Close does nothing.
func (p *Poller) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.event < 0 {
		return nil
	}
	fd := p.event
	p.event, p.fds[1].Fd = -1, -1
	return unix.Close(fd)
}
