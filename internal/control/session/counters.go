// SPDX-License-Identifier: Apache-2.0

package session

// Counters count datagrams. Every datagram that came in is counted in In, and
// in at most one of the drops.
type Counters struct {
	In, BytesIn   uint64 // bytes of UDP payload
	Out, BytesOut uint64
	Repeated      uint64 // messages sent again, part of Out
	Duplicates    uint64 // messages received again, part of In

	DropMalformed uint64 // too short, too long, or no control packet of our layout
	DropAuth      uint64 // wrapping not authentic
	DropReplay    uint64 // packet id of the wrapping seen before
	DropOpcode    uint64 // legal, but not in this role, for this key or with this message id
	DropSession   uint64 // a session id that isn't the one of the session
	DropKeyID     uint64 // no key state with this key id
	DropWindow    uint64 // message id beyond the receive window
	DropClosed    uint64 // the session was dead or closed
}

// Taken returns how many of the datagrams that came in were of the session: all but
// the dropped ones.
func (c Counters) Taken() uint64 {
	return c.In - c.DropMalformed - c.DropAuth - c.DropReplay - c.DropOpcode - c.DropSession - c.DropKeyID - c.DropWindow - c.DropClosed
}
