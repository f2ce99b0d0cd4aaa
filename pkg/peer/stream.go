// SPDX-License-Identifier: Apache-2.0

package peer

// Stream is the connection of one peer that is reached over TCP, where records
// follow each other behind their lengths. It is compared by identity, so its
// dynamic type must be comparable: a pointer.
type Stream interface {
	// SendFrames sends records, each behind its length of 16 bits in network
	// byte order, and returns how many of them, from the first on, were taken.
	// What has no room, because the other end reads too slowly or the connection
	// is closed, is not sent at all. b is borrowed until it returns. It never
	// blocks and may be called from any goroutine.
	SendFrames(b []byte) int
}
