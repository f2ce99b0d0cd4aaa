// SPDX-License-Identifier: Apache-2.0

// Package replay tells packet ids that were seen before, or are too old to know,
// from new ones, with the window of the kernel's ovpn driver. It has no file
// descriptors and no clock.
package replay

import "time"

const (
	// Size is the number of ids that the window spans, the newest included.
	Size = 2048

	// Patience is how long after the last accepted id ids older than the newest are
	// still accepted, in nanoseconds.
	Patience = int64(30 * time.Second)
)

// Window is the receive window of one key. The zero value has seen nothing. It is
// not safe for concurrent use: the owner of the key locks, so that rungs and
// workers share one.
//
// Its rules:
//   - Id 0 is never accepted.
//   - An id above the highest is accepted, however far it jumps.
//   - An older id is accepted once if it lies less than Size below the highest.
//     Ids that a jump skipped count as unseen, and so do those before the first
//     id received, but not below 1.
//   - If nothing was accepted for Patience, every id up to the highest counts as
//     seen.
type Window struct {
	seen    [Size / 64]uint64 // bit id%Size; right only for the newest extent ids
	expire  int64             // when the older ids lapse
	highest uint32
	floor   uint32 // ids up to this one count as seen
	extent  uint32 // ids below highest, and itself, that bits are kept for; at most Size
}

// Highest returns the highest id accepted, 0 if none was.
func (w *Window) Highest() uint32 { return w.highest }

// Check reports whether id could be accepted, without accepting it. False means
// that Accept would refuse it at any time; true may still become false with the
// clock. It is meant for ids that are not authenticated yet.
func (w *Window) Check(id uint32) bool {
	if id > w.highest {
		return true
	}
	// Id 0 is never above the floor.
	return w.highest-id < w.extent && id > w.floor && w.seen[id%Size/64]&(1<<(id%64)) == 0
}

// Accept reports whether id is new, and remembers it if so. It must be called
// only with the id of an authenticated record. now is a monotonic time in
// nanoseconds, not negative, and should not go backwards between calls.
func (w *Window) Accept(id uint32, now int64) bool {
	if now >= w.expire {
		w.floor = w.highest
	}
	if !w.Check(id) {
		return false
	}
	if id > w.highest {
		w.advance(id)
	}
	w.seen[id%Size/64] |= 1 << (id % 64)
	w.expire = now + Patience
	return true
}

// advance makes id the highest one and the skipped ids unseen.
func (w *Window) advance(id uint32) {
	jump := id - w.highest
	if jump >= Size {
		w.seen = [Size / 64]uint64{}
		w.extent = Size
	} else {
		w.forget(w.highest+1, id)
		w.extent = min(w.extent+jump, Size)
	}
	w.highest = id
}

// forget clears the bits of the ids from first to before end, less than Size.
func (w *Window) forget(first, end uint32) {
	for first < end {
		bits := min(64-first%64, end-first)
		w.seen[first%Size/64] &^= (1<<bits - 1) << (first % 64)
		first += bits
	}
}
