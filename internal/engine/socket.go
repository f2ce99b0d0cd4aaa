// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"net/netip"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/coalesce"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/packet"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/poll"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/record"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/udp"
)

// socketMessages is how many datagrams or aggregates one receive call takes:
// eight aggregates of 64 segments are a full burst.
const socketMessages = MaxBurst / coalesce.MaxBatch

// Control takes datagrams that are not DATA_V2 records: the control channel's.
type Control interface {
	// Datagram offers a datagram with the addresses it was received with. It
	// copies what it keeps, must not block, and reports whether it took it.
	Datagram(remote, local netip.AddrPort, b []byte) bool
}

// socket is the worker of one listener. It carries every record on the socket
// rung, and on the others those that the steering programs passed.
type socket struct {
	conn    *udp.Conn
	recv    *udp.Receiver
	opener  *Opener
	inner   *inner
	poller  *poll.Poller
	control Control
	stopped atomic.Bool
	done    chan struct{}

	holding atomic.Int32  // how many want data records held back
	asked   atomic.Uint64 // see emptied
	seen    atomic.Uint64

	records [MaxBurst]coalesce.Record
	held    heldRecords

	holdSpent bool // this hold has reached its bounds: hold nothing more
}

// run works until stopped. It is its thread's only user.
func (s *socket) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(s.done)
	var idle idle
	for !s.stopped.Load() {
		if s.holding.Load() == 0 {
			s.release()
			s.holdSpent = false
		} else if s.held.overdue(Monotonic()) {
			s.release()
			s.holdSpent = true
		}
		asked := s.asked.Load()
		msgs, err := s.recv.Recv(s.conn)
		switch {
		case err == nil:
			idle.found()
			s.burst(msgs)
			continue
		case errors.Is(err, unix.EAGAIN):
			s.seen.Store(asked)
		default:
			// Pending errors are cleared by reporting them; a broken
			// descriptor must not spin.
			time.Sleep(time.Millisecond)
			continue
		}
		if idle.again() {
			continue
		}
		timeout := 1000
		if !s.held.empty() {
			timeout = 1
		}
		_, _, _ = s.poller.Wait(s.conn.FD(), unix.POLLIN, timeout)
	}
	s.release()
}

// burst takes what one receive call returned to its end.
func (s *socket) burst(msgs []udp.Message) {
	now := Monotonic()
	n, bytes := 0, 0
	for i := range msgs {
		m := &msgs[i]
		flow := packet.Flow{Src: m.Src, Dst: m.Dst}
		for b := m.Data; ; {
			one := b
			if m.SegmentSize > 0 && len(b) > m.SegmentSize {
				one = b[:m.SegmentSize]
			}
			switch {
			case len(one) == 0 || record.Opcode(one[0]) != record.DataV2:
				s.other(m, one)
			default:
				if n == len(s.records) {
					s.process(n, bytes, now)
					n, bytes = 0, 0
				}
				s.records[n] = coalesce.Record{Flow: flow, Data: one}
				n++
				bytes += len(one)
			}
			if len(one) == len(b) {
				break
			}
			b = b[len(one):]
		}
	}
	s.opener.Counters.Bursts.Add(1)
	s.process(n, bytes, now)
}

// process processes the records collected, or puts them aside while the other
// source is drained. Flushes, since the receive buffers are reused next.
func (s *socket) process(n, bytes int, now int64) {
	if n == 0 {
		return
	}
	c := s.opener.Counters
	c.Taken.Add(uint64(n))
	c.Bytes.Add(uint64(bytes))
	if s.holding.Load() > 0 && !s.holdSpent {
		if s.held.keep(s.records[:n], now) {
			return
		}
		s.holdSpent = true
	}
	s.release()
	s.opener.Burst(s.records[:n], now, true)
	s.inner.flush()
}

// release processes what was held back, in order.
func (s *socket) release() {
	if s.held.empty() {
		return
	}
	now := Monotonic()
	for {
		burst := s.held.next(MaxBurst)
		if len(burst) == 0 {
			break
		}
		s.opener.Burst(burst, now, true)
		s.inner.flush()
	}
	s.held.reset()
}

// other hands on a datagram that is no DATA_V2 record.
func (s *socket) other(m *udp.Message, b []byte) {
	c := s.opener.Counters
	c.Control.Add(1)
	c.CtlBytes.Add(uint64(len(b)))
	if s.control == nil || !s.control.Datagram(m.Src, m.Dst, b) {
		c.CtlDrop.Add(1)
	}
}

// emptied waits until the worker has found the socket empty once from now on,
// or until the time is over, and reports which.
func (s *socket) emptied(limit time.Duration) bool {
	want := s.asked.Add(1)
	deadline := time.Now().Add(limit)
	for s.seen.Load() < want {
		if time.Now().After(deadline) {
			return false
		}
		s.poller.Wake()
		time.Sleep(200 * time.Microsecond)
	}
	return true
}

// hold makes the worker put data records aside until as many calls with false
// have been made. Control datagrams are never held.
func (s *socket) hold(on bool) {
	if on {
		s.holding.Add(1)
	} else {
		s.holding.Add(-1)
	}
	s.poller.Wake()
}
