// SPDX-License-Identifier: Apache-2.0

package xsk

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Misuse of a lease, wrapped by errors of GiveBack.
var (
	// ErrForeignFrame: the frame is of another socket, or of none.
	ErrForeignFrame = errors.New("frame of another socket")
	// ErrNotLeased: the frame was given back before.
	ErrNotLeased = errors.New("frame not on lease")
)

// Frame is one received Ethernet frame, on lease from a Socket. The holder may
// read and write Data, up to its capacity, which reaches to the end of the
// chunk and never into another frame's. Data may be resliced freely: GiveBack
// knows the chunk by itself. Copies of a Frame are the same lease.
type Frame struct {
	Data []byte
	addr uint64
}

// Lease borrows up to len(dst) received frames in the order of their arrival
// and returns how many. It never blocks. The frames belong to the caller until
// GiveBack; they may be given back in any order, in parts and by any thread.
// One consumer at a time: calls from several goroutines are safe, but would
// part a flow's frames. After Close it returns 0.
func (s *Socket) Lease(dst []Frame) int {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return 0
	}
	pos, n := s.rx.peek(uint32(min(len(dst), s.config.RingSize)))
	leased := 0
	for end := pos + n; pos != end; pos++ {
		d := s.rx.desc(pos)
		f, ok := s.umem.lease(d.Addr, d.Len)
		if !ok {
			s.invalid++
			continue
		}
		dst[leased] = f
		leased++
	}
	if n > 0 {
		s.rx.release(n)
	}
	s.mu.Unlock()
	return leased
}

// GiveBack ends the lease of the frames: their Data must not be touched any
// more. They go to the driver with one publish and, if the driver asks for it,
// one wake-up. Any thread may call it, in any order of frames. After Close the
// frames only end their lease.
//
// An error that wraps ErrForeignFrame or ErrNotLeased names a caller's mistake:
// that frame was left alone, all others were given back. Any other error is
// the wake-up's, such as ENETDOWN, and the frames have been given back.
func (s *Socket) GiveBack(frames []Frame) error {
	if len(frames) == 0 {
		return nil
	}
	s.mu.Lock()
	var misuse error
	if s.closed {
		for i := range frames {
			if _, err := s.umem.giveBack(&frames[i]); err != nil {
				misuse = errors.Join(misuse, frameError(i, err))
			}
		}
		err := s.unmapIfIdle()
		s.mu.Unlock()
		return errors.Join(misuse, err)
	}
	pos := s.fill.reserve()
	given := uint32(0)
	for i := range frames {
		base, err := s.umem.giveBack(&frames[i])
		if err != nil {
			misuse = errors.Join(misuse, frameError(i, err))
			continue
		}
		s.fill.set(pos+given, base)
		given++
	}
	wake := false
	if given > 0 {
		s.fill.submit(given)
		wake = s.fill.needWakeup()
	}
	s.mu.Unlock()
	if wake {
		if err := s.kick(); err != nil {
			return errors.Join(misuse, err)
		}
	}
	return misuse
}

func frameError(i int, err error) error {
	return fmt.Errorf("give back frame %d: %w", i, err)
}

// Outstanding is the number of frames on lease. Any thread may call it.
func (s *Socket) Outstanding() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.umem.outstanding
}

// Pending says whether a received frame waits to be leased; after Close it is
// false. Any thread may call it.
func (s *Socket) Pending() bool { return s.Waiting() > 0 }

// Waiting is how many received frames wait to be leased; after Close 0. Any
// thread may call it.
func (s *Socket) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0
	}
	return s.rx.waiting()
}

// Wait blocks until a frame waits to be leased or timeoutMs milliseconds have
// passed (0: not at all, below 0: no limit) and says whether one does. It also
// wakes a driver that ran out of chunks and went to sleep after the last
// GiveBack had looked. A signal ends it early without an error. The caller must
// have left Wait, and any poll of its own on FD, before Close.
func (s *Socket) Wait(timeoutMs int) (bool, error) {
	fd := s.FD()
	if fd < 0 {
		return false, ErrClosed
	}
	fds := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds[:], timeoutMs)
	if err == unix.EINTR {
		return false, nil
	}
	if err != nil {
		return false, s.errorf("poll", err)
	}
	return n > 0 && fds[0].Revents&unix.POLLIN != 0, nil
}
