// SPDX-License-Identifier: Apache-2.0

package wrap

import "time"

const (
	// windowSize is how far back a packet id may be, OpenVPN's default.
	windowSize = 64
	// windowAge is how long an id that was skipped may come late, OpenVPN's
	// default.
	windowAge = 15 * time.Second
)

// window keeps which packet ids were received. Ids belong to a time in
// seconds, which the sender puts beside them: a lower one is refused, and a
// higher one starts ids again.
type window struct {
	time    uint32
	highest uint32
	mask    uint64    // bit n: highest-n was received
	raised  time.Time // when highest was
}

// accept reports whether an id is new, and notes it.
func (w *window) accept(id, stamp uint32, now time.Time) bool {
	if id == 0 || stamp < w.time {
		return false
	}
	if stamp > w.time || w.highest == 0 {
		*w = window{time: stamp, highest: id, mask: 1, raised: now}
		return true
	}
	if id > w.highest {
		if d := id - w.highest; d < windowSize {
			w.mask = w.mask<<d | 1
		} else {
			w.mask = 1
		}
		w.highest, w.raised = id, now
		return true
	}
	d := w.highest - id
	if d >= windowSize || w.mask&(1<<d) != 0 || now.Sub(w.raised) > windowAge {
		return false
	}
	w.mask |= 1 << d
	return true
}
