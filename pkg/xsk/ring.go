// SPDX-License-Identifier: Apache-2.0

package xsk

import "sync/atomic"

// ring is what every AF_XDP ring has: two free-running 32-bit indexes shared
// with the kernel, of which this side writes one and the kernel the other, and
// private copies of both, so that the shared cache lines are touched once per
// burst. Indexes wrap at 2^32; differences stay right, since sizes are powers
// of two below 2^31.
//
// The kernel pairs a store-release of its index with our load-acquire and the
// other way round. Go's atomics are sequentially consistent, which covers both
// and also orders "publish, then read the wake-up flag" as need_wakeup demands.
type ring struct {
	producer *uint32
	consumer *uint32
	flags    *uint32
	size     uint32
	mask     uint32

	// The receive side refreshes its copy of the kernel's producer index, the
	// fill side has no use for the kernel's consumer index (see fillRing).
	cachedProducer uint32
	cachedConsumer uint32
}

// needWakeup says whether the driver has asked for a system call before it
// looks at this ring again.
func (r *ring) needWakeup() bool {
	return atomic.LoadUint32(r.flags)&ringNeedWakeup != 0
}

// XDP_RING_NEED_WAKEUP of linux/if_xdp.h.
const ringNeedWakeup = 1
