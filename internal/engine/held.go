// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"github.com/ovpn-xdp/ovpn-xdp/pkg/coalesce"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/record"
)

// While a ring is drained its socket's records are put aside, at most this
// long and this many bytes: a barrier takes about 5 ms and a full ring of 2,048
// records 3 ms, so that a quarter of a second is ample, and 16 MiB are 10 ms at
// 13 Gbit/s.
const (
	heldTime  = int64(250e6) // ns
	heldBytes = 16 << 20
)

// heldRecords are records put aside, copied out of the receive buffers. They
// cost memory only while a NIC is attached or detached.
type heldRecords struct {
	records []coalesce.Record
	taken   int
	bytes   int
	since   int64
}

func (h *heldRecords) empty() bool { return len(h.records) == 0 }

func (h *heldRecords) overdue(now int64) bool {
	return !h.empty() && now-h.since > heldTime
}

// keep copies a burst, unless the bounds are reached.
func (h *heldRecords) keep(burst []coalesce.Record, now int64) bool {
	if h.overdue(now) || h.bytes > heldBytes {
		return false
	}
	if h.empty() {
		h.since = now
	}
	for _, r := range burst {
		copied := make([]byte, len(r.Data), len(r.Data)+record.TagLen)
		copy(copied, r.Data)
		h.records = append(h.records, coalesce.Record{Flow: r.Flow, Data: copied})
		h.bytes += len(copied)
	}
	return true
}

// next returns the next records in order, at most limit; none when all are
// taken.
func (h *heldRecords) next(limit int) []coalesce.Record {
	n := min(limit, len(h.records)-h.taken)
	burst := h.records[h.taken : h.taken+n]
	h.taken += n
	return burst
}

func (h *heldRecords) reset() { *h = heldRecords{} }
