// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/coalesce"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/packet"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/poll"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/record"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/tun/vnet"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/udp"
)

// One receive call takes up to socketMessages datagrams or aggregates. While
// they are opened the next arrive, and up to socketCalls calls, each into
// buffers of its own, are written together, so that super-packets grow with the
// load: 4 x 4 aggregates of 64 segments are what a GRO holds.
const (
	socketMessages = 4
	socketCalls    = vnet.Capacity / (socketMessages * coalesce.MaxBatch)
)

// socket is the worker of one listener. It carries every record on the socket
// rung, and on the others those that the steering programs passed.
type socket struct {
	conn    *udp.Conn
	merged  bool            // UDP_GRO was on: aggregates may come after it is off
	recv    []*udp.Receiver // socketCalls at most
	opener  *Opener
	inner   *inner
	poller  *poll.Poller
	control Control
	stopped atomic.Bool
	done    chan struct{}

	holding atomic.Int32  // how many want data records held back
	asked   atomic.Uint64 // see emptied
	seen    atomic.Uint64

	records [socketMessages * coalesce.MaxBatch]coalesce.Record
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
		found, err := s.receive()
		if found {
			idle.found()
		}
		switch {
		case err == nil:
			continue
		case errors.Is(err, unix.EAGAIN):
			s.seen.Store(asked)
			if found {
				continue
			}
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

// receive takes what is there to its end, and reports whether there was
// anything. The error is that of the last call.
func (s *socket) receive() (found bool, err error) {
	for _, r := range s.recv {
		var msgs []udp.Message
		if msgs, err = r.Recv(s.conn); err != nil {
			break
		}
		found = true
		s.open(msgs)
	}
	if found {
		s.inner.flush()
	}
	return found, err
}

// open opens what one receive call returned.
func (s *socket) open(msgs []udp.Message) {
	now := Monotonic()
	unsized := s.merged && !s.conn.GRO()
	n, bytes := 0, 0
	for i := range msgs {
		m := &msgs[i]
		flow := packet.Flow{Src: m.Src, Dst: m.Dst}
		size := m.SegmentSize
		if unsized && size == 0 {
			size = segmentSize(m.Data)
		}
		for b := m.Data; ; {
			one := b
			if size > 0 && len(b) > size {
				one = b[:size]
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

// process opens the records collected, or puts them aside while the other
// source is drained.
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
	if s.inner.held()+n > vnet.Capacity { // aggregates of more than 64 segments
		s.inner.flush()
	}
	s.opener.Burst(s.records[:n], now, true)
}

// release processes what was held back, in order.
func (s *socket) release() {
	if s.held.empty() {
		return
	}
	s.inner.flush() // what is there already is older, and needs the room
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
// until the time is over, or until enough says so, and reports whether it was empty.
func (s *socket) emptied(limit time.Duration, enough func() bool) bool {
	want := s.asked.Add(1)
	deadline := time.Now().Add(limit)
	for s.seen.Load() < want {
		if time.Now().After(deadline) || enough() {
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
