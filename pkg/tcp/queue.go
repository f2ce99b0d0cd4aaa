// SPDX-License-Identifier: Apache-2.0

package tcp

// queue holds bytes that wait for a socket, in order. It grows as needed and
// keeps its memory until shrink; who adds to it keeps to the bound.
type queue struct {
	buf  []byte
	head int // bytes of buf that have gone
}

func (q *queue) len() int { return len(q.buf) - q.head }

// bytes is what waits, to be read until the next call.
func (q *queue) bytes() []byte { return q.buf[q.head:] }

func (q *queue) add(b []byte) {
	if len(q.buf)+len(b) > cap(q.buf) && q.head > 0 {
		q.buf = q.buf[:copy(q.buf, q.buf[q.head:])]
		q.head = 0
	}
	q.buf = append(q.buf, b...)
}

// gone takes the first n bytes out.
func (q *queue) gone(n int) {
	q.head += n
	if q.head == len(q.buf) {
		q.buf, q.head = q.buf[:0], 0
	}
}

// shrink gives the memory of an empty queue back.
func (q *queue) shrink() {
	if q.len() == 0 {
		*q = queue{}
	}
}
