// SPDX-License-Identifier: Apache-2.0

package xsk

// Stats counts what a socket has lost since it was opened, in frames. It is the
// receive half of the kernel's XDP_STATISTICS, which end with the socket.
type Stats struct {
	// Dropped were redirected to the socket and dropped for another reason than
	// the next two: larger than a chunk, as a rule.
	Dropped uint64
	// RingFull were dropped since the receive ring was full.
	RingFull uint64
	// FillDropped were redirected and dropped since no chunk was left. Always 0
	// in zero-copy mode, where the NIC drops before the program can see a frame.
	FillDropped uint64
	// FillEmpty is how often the driver wanted a chunk and the fill ring was
	// empty. In copy mode each is one of FillDropped; in zero-copy mode it only
	// says that the NIC ran short, and how often it asked.
	FillEmpty uint64
	// InvalidFill are fill ring entries that the kernel rejected, and Invalid
	// descriptors that named memory which was not the kernel's to hand out. Both
	// are faults of software and stay 0.
	InvalidFill uint64
	Invalid     uint64
}

// Lost is the number of frames that a program redirected to the socket and that
// nobody could lease: what is missing between the two sides' counters.
func (s Stats) Lost() uint64 {
	return s.Dropped + s.RingFull + s.FillDropped + s.Invalid
}

// Stats returns the counters as they are now, or after Close as they were at
// its end. Any thread may call it.
func (s *Socket) Stats() (Stats, error) {
	s.fdMu.Lock()
	defer s.fdMu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return s.final, nil
	}
	return s.readStats()
}

// readStats needs both locks.
func (s *Socket) readStats() (Stats, error) {
	k, err := xdpStatistics(s.FD())
	if err != nil {
		return Stats{}, s.errorf("read statistics", err)
	}
	stats := Stats{
		Dropped:     k.Rx_dropped,
		RingFull:    k.Rx_ring_full,
		FillEmpty:   k.Rx_fill_ring_empty_descs,
		InvalidFill: k.Rx_invalid_descs,
		Invalid:     s.invalid,
	}
	if !s.zeroCopy {
		// The copy path counts a frame without a chunk in rx_dropped as well.
		stats.FillDropped = min(stats.FillEmpty, stats.Dropped)
		stats.Dropped -= stats.FillDropped
	}
	return stats, nil
}
