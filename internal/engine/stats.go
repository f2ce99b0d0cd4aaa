// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"github.com/ovpn-xdp/ovpn-xdp/pkg/reason"
)

// WorkerStats is what one worker did.
type WorkerStats struct {
	Kind    string // "ring", "socket", "stream" or "out"
	NIC     string // ring
	Queue   int    // receive queue, listener, thread of the TCP listeners or TUN queue
	Bursts  uint64
	Records uint64
	Bytes   uint64
	Batches uint64
	Rung    string
}

// Stats is a reading of all counters, including those of workers that have
// ended. Each is read by itself: under load sums differ by what is in flight.
type Stats struct {
	Workers []WorkerStats
	// Ended has one entry for each rung: the sum of its workers that have ended.
	Ended []WorkerStats

	// Inward, over all sources.
	Ring      uint64 // records taken from rings
	Split     uint64 // of those, found in one frame with another: more records than frames
	Socket    uint64 // records taken from listeners
	Stream    uint64 // records taken from TCP connections
	Batches   uint64
	Keepalive uint64
	Delivered uint64
	DelBytes  uint64
	Writes    uint64
	C2C       uint64 // inner packets handed from one peer to another inside
	C2CBytes  uint64
	Control   uint64
	CtlBytes  uint64
	CtlDrop   uint64
	InFlight  uint64 // taken and not yet at their end
	InDrops   [reason.Count]uint64

	// Outward.
	Reads        uint64
	Packets      uint64
	Bytes        uint64
	Sends        uint64
	KeepaliveOut uint64
	C2COut       uint64 // inner packets that came from other peers inside; part of Packets and OutDrops
	ControlOut   uint64 // control datagrams sent by UDP
	ControlLost  uint64 // control datagrams that the socket did not take
	OutDrops     [reason.Count]uint64

	TSO, USO bool
	Why      string // why an offload is off
}

// Stats reads all counters.
func (e *Engine) Stats() Stats {
	var s Stats
	s.TSO, s.USO, s.Why = e.offload.state()
	e.mu.Lock()
	defer e.mu.Unlock()
	for rung, c := range e.gone {
		s.Ring += c.Taken.Load()
		s.inward(c)
		s.Ended = append(s.Ended, WorkerStats{Kind: "ring", Rung: rung,
			Bursts: c.Bursts.Load(), Records: c.Taken.Load(), Bytes: c.Bytes.Load(), Batches: c.Batches.Load()})
	}
	for r := range e.rings {
		for _, w := range r.rings {
			c := w.opener.Counters
			s.Ring += c.Taken.Load()
			s.inward(c)
			s.Workers = append(s.Workers, WorkerStats{Kind: "ring", NIC: r.NIC, Queue: w.sock.Queue(), Rung: r.Rung,
				Bursts: c.Bursts.Load(), Records: c.Taken.Load(), Bytes: c.Bytes.Load(), Batches: c.Batches.Load()})
		}
	}
	for i, w := range e.sockets {
		c := w.opener.Counters
		s.Socket += c.Taken.Load()
		s.inward(c)
		s.Workers = append(s.Workers, WorkerStats{Kind: "socket", Queue: i, Rung: "socket",
			Bursts: c.Bursts.Load(), Records: c.Taken.Load(), Bytes: c.Bytes.Load(), Batches: c.Batches.Load()})
	}
	s.streams(e)
	s.ControlOut, s.ControlLost = e.control.sent.Load(), e.control.failed.Load()
	for i, w := range e.outward {
		c := w.c
		s.Reads += c.Reads.Load()
		s.Packets += c.Packets.Load()
		s.Bytes += c.Bytes.Load()
		s.Sends += c.Sends.Load()
		s.KeepaliveOut += c.Keepalive.Load()
		s.C2COut += c.C2C.Load()
		for r := range c.Drops {
			s.OutDrops[r] += c.Drops[r].Load()
		}
		s.Workers = append(s.Workers, WorkerStats{Kind: "out", Queue: i,
			Bursts: c.Reads.Load(), Records: c.Packets.Load(), Bytes: c.Bytes.Load(), Batches: c.Sends.Load()})
	}
	return s
}

// streams adds what came on TCP.
func (s *Stats) streams(e *Engine) {
	n := 0
	for _, l := range e.streams {
		for _, w := range l.workers {
			c := w.opener.Counters
			s.Stream += c.Taken.Load()
			s.inward(c)
			s.Workers = append(s.Workers, WorkerStats{Kind: "stream", Queue: n, Rung: "tcp",
				Bursts: c.Bursts.Load(), Records: c.Taken.Load(), Bytes: c.Bytes.Load(), Batches: c.Batches.Load()})
			n++
		}
	}
}

func (s *Stats) inward(c *InCounters) {
	fated := c.Fated() // before Taken, so that the difference is not negative
	if taken := c.Taken.Load(); taken > fated {
		s.InFlight += taken - fated
	}
	s.Split += c.Split.Load()
	s.Batches += c.Batches.Load()
	s.Keepalive += c.Keepalive.Load()
	s.Delivered += c.Delivered.Load()
	s.DelBytes += c.DelBytes.Load()
	s.Writes += c.Writes.Load()
	s.C2C += c.C2C.Load()
	s.C2CBytes += c.C2CBytes.Load()
	s.Control += c.Control.Load()
	s.CtlBytes += c.CtlBytes.Load()
	s.CtlDrop += c.CtlDrop.Load()
	for r := range c.Drops {
		s.InDrops[r] += c.Drops[r].Load()
	}
}

// merge adds another worker's counters, which no longer change.
func (c *InCounters) merge(o *InCounters) {
	c.Bursts.Add(o.Bursts.Load())
	c.Taken.Add(o.Taken.Load())
	c.Split.Add(o.Split.Load())
	c.Bytes.Add(o.Bytes.Load())
	c.Batches.Add(o.Batches.Load())
	c.Keepalive.Add(o.Keepalive.Load())
	c.Delivered.Add(o.Delivered.Load())
	c.DelBytes.Add(o.DelBytes.Load())
	c.Writes.Add(o.Writes.Load())
	c.C2C.Add(o.C2C.Load())
	c.C2CBytes.Add(o.C2CBytes.Load())
	for r := range o.Drops {
		c.Drops[r].Add(o.Drops[r].Load())
	}
}
