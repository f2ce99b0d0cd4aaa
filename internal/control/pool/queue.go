// SPDX-License-Identifier: Apache-2.0

package pool

// queue holds the free places, those first that were given back first, so that a pool
// all of whose places were used once need not be searched for each client.
type queue struct{ first, last *place }

// insert puts in a place by the time of its return, behind others of the same
// time. Times hardly ever go back, so that it is nearly always the end.
func (q *queue) insert(x *place) {
	before := q.last
	for before != nil && x.since.Before(before.since) {
		before = before.prev
	}
	x.prev = before
	if before == nil {
		x.next, q.first = q.first, x
	} else {
		x.next, before.next = before.next, x
	}
	if x.next == nil {
		q.last = x
	} else {
		x.next.prev = x
	}
}

// remove takes a place out, if it is in.
func (q *queue) remove(x *place) {
	if x.prev == nil && q.first != x {
		return
	}
	if x.prev == nil {
		q.first = x.next
	} else {
		x.prev.next = x.next
	}
	if x.next == nil {
		q.last = x.prev
	} else {
		x.next.prev = x.prev
	}
	x.prev, x.next = nil, nil
}
