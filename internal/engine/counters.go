// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"sync/atomic"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/reason"
)

// InCounters count what one inward worker did. The worker adds to them at
// most a few times per batch; anybody may read.
type InCounters struct {
	Bursts    atomic.Uint64 // bursts that held something
	Taken     atomic.Uint64 // records read from the source
	Split     atomic.Uint64 // of those, found in one frame with another
	Bytes     atomic.Uint64 // their bytes, headers and tags included
	Batches   atomic.Uint64
	Keepalive atomic.Uint64
	Delivered atomic.Uint64 // inner packets written
	DelBytes  atomic.Uint64
	Writes    atomic.Uint64 // TUN writes
	C2C       atomic.Uint64 // inner packets handed to another peer's outward worker
	C2CBytes  atomic.Uint64
	Control   atomic.Uint64 // datagrams that are not DATA_V2
	CtlBytes  atomic.Uint64
	CtlDrop   atomic.Uint64
	Drops     [reason.Count]atomic.Uint64
}

// Fated returns how many of the records taken have met their end.
func (c *InCounters) Fated() uint64 {
	n := c.Keepalive.Load() + c.Delivered.Load() + c.C2C.Load()
	for i := range c.Drops {
		n += c.Drops[i].Load()
	}
	return n
}

func (c *InCounters) drop(r reason.Reason, n int) {
	if n > 0 {
		c.Drops[r].Add(uint64(n))
	}
}

// OutCounters count what one outward worker did.
type OutCounters struct {
	Reads     atomic.Uint64 // TUN reads
	Packets   atomic.Uint64 // inner packets sealed
	Bytes     atomic.Uint64
	Sends     atomic.Uint64 // runs handed to sendmmsg or to a TCP connection
	C2C       atomic.Uint64 // inner packets taken over from other peers, sealed or dropped
	Keepalive atomic.Uint64
	Drops     [reason.Count]atomic.Uint64
}

func (c *OutCounters) drop(r reason.Reason, n int) {
	if n > 0 {
		c.Drops[r].Add(uint64(n))
	}
}
