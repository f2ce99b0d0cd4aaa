// SPDX-License-Identifier: Apache-2.0

package control

import "sync"

// laterEvery is the turn in which a worker prefers clients that are not authenticated: so
// one that is and never stops sending keeps nobody out.
const laterEvery = 8

// runQueue holds instances with something to do, each at most once and not
// while it runs: no worker waits for another one's. Those of clients that are
// authenticated come first, so that half-open handshakes, however many, delay
// only one another.
type runQueue struct {
	mu           sync.Mutex
	cond         *sync.Cond
	first, later []*instance
	turn         int
	closed       bool
}

func (q *runQueue) init() { q.cond = sync.NewCond(&q.mu) }

func (q *runQueue) add(i *instance) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i.queued {
		return
	}
	i.queued = true
	if !i.running {
		q.push(i)
	}
}

// push puts an instance at an end; mu is held.
func (q *runQueue) push(i *instance) {
	if i.trusted.Load() {
		q.first = append(q.first, i)
	} else {
		q.later = append(q.later, i)
	}
	q.cond.Signal()
}

// done notes that an instance that next returned has run.
func (q *runQueue) done(i *instance) {
	q.mu.Lock()
	defer q.mu.Unlock()
	i.running = false
	if i.queued {
		q.push(i)
	}
}

// next waits for an instance; nil means that the queue was closed.
func (q *runQueue) next() *instance {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.closed && len(q.first) == 0 && len(q.later) == 0 {
		q.cond.Wait()
	}
	if q.closed {
		return nil
	}
	q.turn++
	from := &q.first
	if len(q.first) == 0 || q.turn%laterEvery == 0 && len(q.later) > 0 {
		from = &q.later
	}
	i := (*from)[0]
	(*from)[0] = nil
	*from = (*from)[1:]
	i.queued, i.running = false, true
	return i
}

func (q *runQueue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.cond.Broadcast()
}
