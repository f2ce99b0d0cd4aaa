// SPDX-License-Identifier: Apache-2.0

package xsk

import "sync/atomic"

// fillRing is the ring on which this side produces empty chunks and the driver
// consumes them. One producer at a time.
//
// It has a slot for every chunk of the UMEM, so a chunk that is not in the ring
// always finds room. Room is therefore never computed from the kernel's
// consumer index: the kernel publishes that index lazily, up to a burst behind
// what it has really read, and a producer that believed it would turn chunks
// away for which there is room.
type fillRing struct {
	ring
	addrs []uint64
}

// reserve returns the position of the next free slot. Nothing is visible to the
// kernel before submit.
func (r *fillRing) reserve() (pos uint32) { return r.cachedProducer }

// set writes a chunk's UMEM offset into a reserved slot.
func (r *fillRing) set(pos uint32, addr uint64) { r.addrs[pos&r.mask] = addr }

// submit publishes the first n reserved slots.
func (r *fillRing) submit(n uint32) {
	r.cachedProducer += n
	atomic.StoreUint32(r.producer, r.cachedProducer)
}
