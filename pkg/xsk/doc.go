// SPDX-License-Identifier: Apache-2.0

// Package xsk receives frames from AF_XDP sockets. It does not send.
//
// A Socket is bound to one receive queue of one device and owns its packet
// memory (UMEM) and rings. Frames come out as leases: Lease borrows a burst,
// the holder works on the frames in place, and GiveBack returns them to the
// driver in any order and from any thread.
//
// Each ring is a type in a file of its own: rx.go and fill.go over what both
// share in ring.go. The completion and transmit rings of AF_XDP serve sending
// and have no code here. All use of package unsafe is in unsafe.go.
package xsk
