// SPDX-License-Identifier: Apache-2.0

package xsk

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// ErrClosed is returned by calls on a socket after Close.
var ErrClosed = errors.New("socket closed")

// sockets counts the sockets ever opened, for their tags.
var sockets atomic.Uint32

// nextTag returns what tells this socket's frames from another's: 1 to 65535,
// never the 0 of a zero Frame.
func nextTag() uint16 { return uint16(sockets.Add(1)%65535) + 1 }

// Socket is one receive-only AF_XDP socket, bound to one queue of one device.
type Socket struct {
	config   Config
	fill     fillRing
	rx       rxRing
	rings    [2][]byte
	zeroCopy bool

	// mu guards the rings, the marks of the UMEM and closed. It is held for the
	// index work of one burst, never across a system call that can block.
	mu      sync.Mutex
	umem    *umem
	closed  bool
	invalid uint64
	final   Stats

	// fdMu keeps the descriptor from being closed, and its number reused, under
	// a wake-up or a statistics call. Taken before mu where both are needed.
	fdMu     sync.Mutex
	fd       atomic.Int32
	kickPoll bool
}

// Open makes a socket, gives every chunk of its memory to the driver and binds
// it. Frames arrive once an XDP program on the device redirects them to FD
// through an XSKMAP slot.
//
// Errors wrap the kernel's errno: EOPNOTSUPP when ZeroCopy is not to be had
// from the driver, EINVAL for a queue that does not exist (or that cannot do
// zero-copy with this chunk size), ENODEV, EPERM without CAP_NET_RAW, ENOBUFS
// when RLIMIT_MEMLOCK is too low, EBUSY when another socket holds the queue. A
// device that is down can be bound, and delivers once it is up. The kernel frees a queue some time after its last socket was closed,
// so EBUSY is tried again for about a second first.
func Open(config Config) (*Socket, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	memory, err := newUmem(2*config.RingSize, config.ChunkSize, nextTag())
	if err != nil {
		return nil, err
	}
	s := &Socket{config: config, umem: memory}
	s.fd.Store(-1)
	// 10 + 20 + ... + 320 ms, then 400 ms: 1.03 s in all.
	delay := 10 * time.Millisecond
	for waited := time.Duration(0); ; {
		err = s.setup()
		if !errors.Is(err, unix.EBUSY) || waited >= time.Second {
			break
		}
		time.Sleep(delay)
		waited += delay
		delay = min(2*delay, 400*time.Millisecond)
	}
	if err != nil {
		return nil, errors.Join(err, memory.unmap())
	}
	return s, nil
}

// setup makes one attempt. A socket whose bind failed is not used again: some
// kernels have handed its rings to a pool that is already torn down.
func (s *Socket) setup() (err error) {
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		if errors.Is(err, unix.EPERM) {
			return s.errorf("open socket (needs CAP_NET_RAW)", err)
		}
		return s.errorf("open socket", err)
	}
	defer func() {
		if err != nil {
			s.unmapRings()
			unix.Close(fd)
		}
	}()

	if err := setUmem(fd, s.umem.area, s.config.ChunkSize); err != nil {
		if errors.Is(err, unix.ENOBUFS) {
			return s.errorf(fmt.Sprintf("register %d bytes of packet memory (raise RLIMIT_MEMLOCK or give CAP_IPC_LOCK)", len(s.umem.area)), err)
		}
		return s.errorf("register packet memory", err)
	}
	chunks := 2 * s.config.RingSize
	if err := unix.SetsockoptInt(fd, unix.SOL_XDP, unix.XDP_UMEM_FILL_RING, chunks); err != nil {
		return s.errorf("size fill ring", err)
	}
	// The kernel binds no UMEM without a completion ring. Nothing is ever sent,
	// so the smallest will do, and it is not even mapped.
	if err := unix.SetsockoptInt(fd, unix.SOL_XDP, unix.XDP_UMEM_COMPLETION_RING, 1); err != nil {
		return s.errorf("size completion ring", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_XDP, unix.XDP_RX_RING, s.config.RingSize); err != nil {
		return s.errorf("size receive ring", err)
	}
	offsets, err := mmapOffsets(fd)
	if err != nil {
		return s.errorf("read ring offsets", err)
	}
	if s.rx, s.rings[0], err = mapRxRing(fd, offsets.Rx, s.config.RingSize); err != nil {
		return s.errorf("map receive ring", err)
	}
	if s.fill, s.rings[1], err = mapFillRing(fd, offsets.Fr, chunks); err != nil {
		return s.errorf("map fill ring", err)
	}

	// Full before bind: some drivers (ice, i40e) take buffers only then.
	pos := s.fill.reserve()
	for i := range uint32(chunks) {
		s.fill.set(pos+i, uint64(i)*uint64(s.config.ChunkSize))
	}
	s.fill.submit(uint32(chunks))

	address := unix.SockaddrXDP{
		Flags:   unix.XDP_USE_NEED_WAKEUP,
		Ifindex: uint32(s.config.Ifindex),
		QueueID: uint32(s.config.Queue),
	}
	mode := ""
	switch {
	case s.config.ZeroCopy:
		address.Flags |= unix.XDP_ZEROCOPY
		mode = " in zero-copy mode"
	case s.config.Copy:
		address.Flags |= unix.XDP_COPY
		mode = " in copy mode"
	}
	if err := unix.Bind(fd, &address); err != nil {
		return s.errorf("bind socket"+mode, err)
	}
	// Without a forced mode the kernel falls to copy mode and does not say so.
	granted, err := xdpOptions(fd)
	if err != nil {
		return s.errorf("read granted mode", err)
	}
	s.zeroCopy = granted&unix.XDP_OPTIONS_ZEROCOPY != 0
	s.fd.Store(int32(fd))
	return nil
}

// kick makes the driver look at the fill ring. Errors that only say "not now"
// are none: the driver is at work already.
func (s *Socket) kick() error {
	s.fdMu.Lock()
	defer s.fdMu.Unlock()
	fd := s.FD()
	if fd < 0 {
		return nil
	}
	if !s.kickPoll {
		_, _, errno := unix.Syscall6(unix.SYS_RECVFROM, uintptr(fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
		switch errno {
		case 0, unix.EAGAIN, unix.EBUSY, unix.ENOBUFS, unix.EINTR:
			return nil
		case unix.EOPNOTSUPP:
			// AF_XDP has recvfrom since 5.11; before, poll alone wakes.
			s.kickPoll = true
		default:
			return s.errorf("wake driver", errno)
		}
	}
	fds := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	if _, err := unix.Poll(fds[:], 0); err != nil && err != unix.EINTR {
		return s.errorf("wake driver", err)
	}
	return nil
}

// FD is the descriptor to put into an XSKMAP or to poll for POLLIN, -1 after
// Close. It stays the socket's own. Use poll, as Wait does, not epoll: the
// kernel wakes a sleeping driver from the poll call itself, which epoll makes
// only once.
func (s *Socket) FD() int { return int(s.fd.Load()) }

// Queue is the receive queue that the socket is bound to.
func (s *Socket) Queue() int { return s.config.Queue }

// ZeroCopy says whether the driver granted zero-copy mode.
func (s *Socket) ZeroCopy() bool { return s.zeroCopy }

// RingSize is the number of slots of the receive ring.
func (s *Socket) RingSize() int { return s.config.RingSize }

// MaxFrame is the size in bytes of the largest frame that fits a chunk.
func (s *Socket) MaxFrame() int { return s.config.ChunkSize - Headroom }

// Close takes a last reading of the statistics, closes the descriptor, which
// unbinds the queue and empties its XSKMAP slot, and unmaps the rings. What was
// in the receive ring and not leased is lost: drain first. The packet memory
// stays mapped until the last frame on lease has been given back. Safe to call
// twice and beside Lease and GiveBack, but not beside Wait.
func (s *Socket) Close() error {
	s.fdMu.Lock()
	defer s.fdMu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	var errs []error
	stats, err := s.readStats()
	if err != nil {
		errs = append(errs, err)
	}
	s.final = stats
	s.closed = true
	if err := unix.Close(int(s.fd.Swap(-1))); err != nil {
		errs = append(errs, s.errorf("close socket", err))
	}
	errs = append(errs, s.unmapRings(), s.unmapIfIdle())
	return errors.Join(errs...)
}

func (s *Socket) unmapRings() error {
	var errs []error
	for i, mem := range s.rings {
		if mem != nil {
			errs = append(errs, unix.Munmap(mem))
			s.rings[i] = nil
		}
	}
	s.rx, s.fill = rxRing{}, fillRing{}
	return errors.Join(errs...)
}

// unmapIfIdle unmaps the packet memory of a closed socket once nothing of it is
// on lease. mu is held.
func (s *Socket) unmapIfIdle() error {
	if s.umem.outstanding > 0 {
		return nil
	}
	return s.umem.unmap()
}

func (s *Socket) errorf(what string, err error) error {
	return fmt.Errorf("%s: queue %d of ifindex %d: %w", what, s.config.Queue, s.config.Ifindex, err)
}
