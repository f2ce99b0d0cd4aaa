// SPDX-License-Identifier: Apache-2.0

package reliable

import "slices"

// Verdict is what a Receiver did with a message.
type Verdict uint8

const (
	Accepted  Verdict = iota // kept until Pop; acknowledged
	Duplicate                // received before, not kept; acknowledged again
	Ahead                    // beyond the window, not kept, not acknowledged
)

type incoming struct {
	used    bool
	opcode  uint8
	payload []byte
}

// Receiver puts messages into order and keeps what is to be acknowledged.
type Receiver struct {
	next  uint32 // id of the message that Pop waits for
	queue [ReceiveWindow]incoming

	// Acknowledgements that no packet carried yet, oldest first; and those sent
	// last, newest first, which packets with space repeat so that a lost
	// acknowledgement costs no repetition of the message.
	pending  [maxPending]uint32
	npending uint8
	recent   [MaxAcks]uint32
	nrecent  uint8
}

// NewReceiver returns a receiver that waits for the message with the id next.
// Messages below count as received.
func NewReceiver(next uint32) Receiver { return Receiver{next: next} }

// Push takes a message. payload is borrowed: what is kept is a copy.
func (r *Receiver) Push(id uint32, opcode uint8, payload []byte) Verdict {
	if id < r.next {
		r.Acknowledge(id)
		return Duplicate
	}
	if id-r.next >= ReceiveWindow {
		return Ahead
	}
	r.Acknowledge(id)
	m := &r.queue[id%ReceiveWindow]
	if m.used {
		return Duplicate
	}
	*m = incoming{used: true, opcode: opcode, payload: append([]byte(nil), payload...)}
	return Accepted
}

// Pop returns the next message in order, if it is there. The payload belongs to
// the caller.
func (r *Receiver) Pop() (opcode uint8, payload []byte, ok bool) {
	m := &r.queue[r.next%ReceiveWindow]
	if !m.used {
		return 0, nil, false
	}
	opcode, payload = m.opcode, m.payload
	*m = incoming{}
	r.next++
	return opcode, payload, true
}

// Next returns the id of the message that Pop waits for: the number of messages
// that were received in order, if they began with id 0.
func (r *Receiver) Next() uint32 { return r.next }

// Acknowledge adds an id to those that the next packets acknowledge.
func (r *Receiver) Acknowledge(id uint32) {
	for _, p := range r.pending[:r.npending] {
		if p == id {
			return
		}
	}
	if int(r.npending) < len(r.pending) {
		r.pending[r.npending] = id
		r.npending++
	}
}

// Pending returns how many acknowledgements no packet carried yet.
func (r *Receiver) Pending() int { return int(r.npending) }

// Acks fills acks with what a packet is to acknowledge and returns how many, up
// to MaxAcks and the length of acks: the newest first, then repeats of earlier
// ones.
func (r *Receiver) Acks(acks []uint32) (n int) {
	n = min(int(r.npending), MaxAcks, len(acks))
	for i, id := range r.pending[:n] {
		acks[n-1-i] = id
	}
	r.npending = uint8(copy(r.pending[:], r.pending[n:r.npending]))
	fresh := n
	for _, id := range r.recent[:r.nrecent] {
		if n == min(MaxAcks, len(acks)) {
			break
		}
		if !slices.Contains(acks[:fresh], id) {
			acks[n] = id
			n++
		}
	}
	r.nrecent = uint8(copy(r.recent[:], acks[:n]))
	return n
}
