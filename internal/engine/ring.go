// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/coalesce"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/packet"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/poll"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/reason"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/tun/vnet"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/xsk"
)

// ringBurst is the most frames of one lease. While a burst is opened the next
// frames arrive; they join it before it is written, up to MaxBurst, so that
// super-packets grow with the load. A NAPI poll ends at 64 frames, which are
// seldom whole super-packets.
const ringBurst = MaxBurst / 2

// Modes of a ring's worker.
const (
	ringHeld     = iota // leave frames in the ring
	ringRunning         // process them
	ringDraining        // process what is there, then end
)

// ring is the worker of one AF_XDP socket.
type ring struct {
	sock   *xsk.Socket
	opener *Opener
	inner  *inner
	poller *poll.Poller
	mode   atomic.Int32
	laps   atomic.Uint64 // times the ring was found empty
	lease  int           // frames per lease, up to ringBurst
	merged bool          // frames may be aggregates
	broken atomic.Bool   // the socket reports an error: its device is gone
	done   chan struct{}

	frames  [MaxBurst]xsk.Frame
	records [ringBurst]coalesce.Record
}

func (r *ring) setMode(mode int32) {
	r.mode.Store(mode)
	r.poller.Wake()
}

// run works until the ring is drained. It is its thread's only user.
func (r *ring) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(r.done)
	var idle idle
	for {
		mode := r.mode.Load()
		if mode == ringHeld {
			_, _, _ = r.poller.Wait(-1, 0, 1000)
			continue
		}
		if r.burst() {
			idle.found()
			continue
		}
		r.laps.Add(1)
		if mode == ringDraining {
			return
		}
		if idle.again() {
			continue
		}
		ready, _, err := r.poller.Wait(r.sock.FD(), unix.POLLIN, 1000)
		if (ready && !r.sock.Pending()) || err != nil {
			// Ready with nothing there is an error condition: the device went
			// away. The socket stays until it is taken off, and every wait
			// would return at once.
			r.broken.Store(true)
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// burst takes what is in the ring to its end, and reports whether there was
// anything.
func (r *ring) burst() bool {
	n := 0
	for n <= len(r.frames)-r.lease {
		got := r.sock.Lease(r.frames[n : n+r.lease])
		if got == 0 {
			break
		}
		r.open(r.frames[n : n+got])
		n += got
		if r.lease == 1 {
			break
		}
	}
	if n == 0 {
		return false
	}
	r.inner.flush()
	// A wake-up that fails (device down) is retried with the next give-back.
	_ = r.sock.GiveBack(r.frames[:n])
	return true
}

// open opens leased frames.
func (r *ring) open(frames []xsk.Frame) {
	c := r.opener.Counters
	n, bytes := 0, 0
	now := Monotonic()
	for i := range frames {
		flow, payload, ok := packet.ParseFrame(frames[i].Data)
		if !ok {
			c.drop(reason.BadFrame, 1)
			continue
		}
		bytes += len(payload)
		for r.merged {
			size := segmentSize(payload)
			if size == 0 {
				break
			}
			n = r.put(n, coalesce.Record{Flow: flow, Data: payload[:size]}, now)
			payload = payload[size:]
			c.Taken.Add(1)
			c.Split.Add(1)
		}
		n = r.put(n, coalesce.Record{Flow: flow, Data: payload}, now)
	}
	c.Bursts.Add(1)
	c.Taken.Add(uint64(len(frames)))
	c.Bytes.Add(uint64(bytes))
	r.process(n, now)
}

// put collects a record behind n others and returns how many there are now.
func (r *ring) put(n int, record coalesce.Record, now int64) int {
	if n == len(r.records) {
		r.process(n, now)
		n = 0
	}
	r.records[n] = record
	return n + 1
}

func (r *ring) process(n int, now int64) {
	if r.inner.held()+n > vnet.Capacity { // aggregates
		r.inner.flush()
	}
	r.opener.Burst(r.records[:n], now, false)
}
