// SPDX-License-Identifier: Apache-2.0

package xsk

import (
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// rxRing is the ring on which the kernel produces received frames and this
// side consumes them. One consumer at a time.
type rxRing struct {
	ring
	descs []unix.XDPDesc
}

// peek returns the position of the first unread descriptor and how many there
// are, at most max. It moves nothing: release does.
func (r *rxRing) peek(max uint32) (pos, n uint32) {
	n = r.cachedProducer - r.cachedConsumer
	if n < max {
		r.cachedProducer = atomic.LoadUint32(r.producer)
		n = r.cachedProducer - r.cachedConsumer
	}
	return r.cachedConsumer, min(n, max)
}

// desc is the descriptor at a position that peek covered. It belongs to the
// kernel again after release.
func (r *rxRing) desc(pos uint32) *unix.XDPDesc { return &r.descs[pos&r.mask] }

// release hands the first n descriptors back to the kernel.
func (r *rxRing) release(n uint32) {
	r.cachedConsumer += n
	atomic.StoreUint32(r.consumer, r.cachedConsumer)
}

// waiting is the number of unread descriptors; it moves nothing.
func (r *rxRing) waiting() int {
	return int(atomic.LoadUint32(r.producer) - r.cachedConsumer)
}
