// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/poll"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/xsk"
)

// switchLimit bounds each wait while sources change places. A source that is
// not empty by then is under such load that a few records out of order do less
// harm than silence.
const switchLimit = 250 * time.Millisecond

// Steering is the program that fills a NIC's rings.
type Steering interface {
	// Accept makes it steer records, or leave all of them to the listeners.
	Accept(on bool) error
	// Settle returns when whatever it decided before the last Accept has arrived in
	// a ring or at a listener.
	Settle() error
}

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

// Add starts workers on the sockets and lets steering begin. Records that went to
// the listeners before must not be overtaken by those that the rings get: the workers
// leave their rings alone until the program has settled and each listener was found
// empty after that, or a ring is half full: order matters less than loss.
//
// When Accept fails nothing is left running. The sockets stay the caller's.
func (e *Engine) Add(nic, rung string, socks []*xsk.Socket, program Steering) (*Rings, error) {
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
	if err := program.Accept(true); err != nil {
		e.end(r)
		return nil, err
	}
	settled := settle(program)
	settled.wait(switchLimit, r.halfFull)
	for _, s := range e.sockets {
		s.emptied(switchLimit, r.halfFull)
	}
	for _, w := range r.rings {
		w.setMode(ringRunning)
	}
	if err := settled.result(); err != nil {
		e.cfg.Log.Warn("cannot tell when steering has begun; records may have been overtaken", "nic", nic, "error", err)
	}
	return r, nil
}

// Remove ends steering and then the workers, with nothing lost. The listeners'
// data records are put aside until the program has settled and the rings were found
// empty after that, so that they do not overtake what was still on its way there;
// under such a load that the listeners cannot hold so many, sooner.
//
// An error of the program is returned, but does not keep the workers from ending.
// The sockets stay the caller's.
func (e *Engine) Remove(r *Rings, program Steering) error {
	e.switching.Lock()
	defer e.switching.Unlock()
	for _, s := range e.sockets {
		s.hold(true)
	}
	err := program.Accept(false)
	settled := settle(program)
	settled.wait(switchLimit, nil)
	r.emptied(switchLimit)
	for _, s := range e.sockets {
		s.hold(false)
	}
	err = errors.Join(err, settled.result())
	e.end(r)
	return err
}

// settling is a program that settles while others go on.
type settling struct {
	done chan struct{}
	err  error
}

func settle(program Steering) *settling {
	s := &settling{done: make(chan struct{})}
	go func() {
		defer close(s.done)
		s.err = program.Settle()
	}()
	return s
}

// wait waits for the end, until the time is over or until enough, if there is
// one, says so.
func (s *settling) wait(limit time.Duration, enough func() bool) {
	tick := time.NewTicker(200 * time.Microsecond)
	defer tick.Stop()
	for deadline := time.Now().Add(limit); time.Now().Before(deadline) && (enough == nil || !enough()); {
		select {
		case <-s.done:
			return
		case <-tick.C:
		}
	}
}

// result waits for the end, however long it takes.
func (s *settling) result() error {
	<-s.done
	return s.err
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
