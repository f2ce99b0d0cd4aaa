// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/poll"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/xsk"
)

// switchLimit bounds each wait while sources change places. A source that is
// not empty by then is under such load that a few records out of order do less
// harm than silence.
const switchLimit = 250 * time.Millisecond

// After handoverGrace, in which a program that saw the old state ends its NAPI
// poll of 64 frames, a source that is found empty stays so.
const handoverGrace = 2 * time.Millisecond

// RungGeneric is the rung whose frames may be segmentation aggregates of local
// senders: its program sees no sign of it.
const RungGeneric = "xdp-generic"

// Rings are the workers of one NIC's AF_XDP sockets.
type Rings struct {
	NIC   string
	Rung  string
	rings []*ring
}

// Broken reports whether a socket says that its device is gone.
func (r *Rings) Broken() bool {
	for _, w := range r.rings {
		if w.broken.Load() {
			return true
		}
	}
	return false
}

// emptied waits until every ring was found empty once from now on, or until
// the time is over.
func (r *Rings) emptied(limit time.Duration) {
	deadline := time.Now().Add(limit)
	for _, w := range r.rings {
		for before := w.laps.Load(); w.laps.Load() == before && time.Now().Before(deadline); {
			w.poller.Wake()
			time.Sleep(100 * time.Microsecond)
		}
	}
}

// halfFull reports whether a ring is about to lose records.
func (r *Rings) halfFull() bool {
	for _, w := range r.rings {
		if w.sock.Waiting() >= w.sock.RingSize()/2 {
			return true
		}
	}
	return false
}

// Add starts workers on the sockets and lets steering begin. Records that
// arrived before on the listeners must not be overtaken by those that the rings
// get: steer makes the program accept, and the workers leave their rings alone
// until each listener was found empty once after that and a grace, or a ring is
// half full: order matters less than loss.
//
// When steer fails nothing is left running. The sockets stay the caller's.
func (e *Engine) Add(nic, rung string, socks []*xsk.Socket, steer func() error) (*Rings, error) {
	e.switching.Lock()
	defer e.switching.Unlock()
	r := &Rings{NIC: nic, Rung: rung}
	for i, sock := range socks {
		poller, err := poll.New()
		if err != nil {
			e.end(r)
			return nil, fmt.Errorf("make poller: %w", err)
		}
		w := &ring{sock: sock, lease: e.burst(ringBurst), merged: rung == RungGeneric, poller: poller, done: make(chan struct{})}
		w.opener, w.inner = e.newInbound(i)
		w.mode.Store(ringHeld)
		r.rings = append(r.rings, w)
		go w.run()
	}
	e.mu.Lock()
	e.rings[r] = struct{}{}
	workers := e.workers()
	for other := range e.rings {
		workers += len(other.rings)
	}
	e.mu.Unlock()
	e.reserveThreads(workers)
	if err := steer(); err != nil {
		e.end(r)
		return nil, err
	}
	time.Sleep(handoverGrace)
	for _, s := range e.sockets {
		s.emptied(switchLimit, r.halfFull)
	}
	for _, w := range r.rings {
		w.setMode(ringRunning)
	}
	return r, nil
}

// Remove ends steering and then the workers, with nothing lost. The listeners'
// data records are put aside until the rings are found empty, so that they do not
// overtake what is still in there. That is sooner than stop returns, since a
// grace period of RCU is as long as a TCP sender waits before it sends its last
// segment again (two round trips and 8 ms at 250 Hz); a NAPI poll that takes longer
// has its records overtaken by a few milliseconds' worth, and none is lost.
//
// stop makes the program pass everything and returns when every packet steered
// before is in its ring; an error of it is returned, but does not keep the workers
// from ending. The sockets stay the caller's.
func (e *Engine) Remove(r *Rings, stop func() error) error {
	e.switching.Lock()
	defer e.switching.Unlock()
	for _, s := range e.sockets {
		s.hold(true)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	time.Sleep(handoverGrace)
	r.emptied(switchLimit)
	for _, s := range e.sockets {
		s.hold(false)
	}
	err := <-stopped
	e.end(r)
	return err
}

// end drains the rings and waits for the workers to end.
func (e *Engine) end(r *Rings) {
	for _, w := range r.rings {
		w.setMode(ringDraining)
	}
	for _, w := range r.rings {
		<-w.done
		w.poller.Close()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, known := e.rings[r]; known {
		delete(e.rings, r)
		if e.gone[r.Rung] == nil {
			e.gone[r.Rung] = new(InCounters)
		}
		for _, w := range r.rings {
			e.gone[r.Rung].merge(w.opener.Counters)
		}
	}
}
