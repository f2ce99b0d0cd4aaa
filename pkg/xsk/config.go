// SPDX-License-Identifier: Apache-2.0

package xsk

import (
	"errors"
	"fmt"
)

// Limits of Config.
const (
	// MinRingSize is one NAPI poll's worth of frames: a smaller ring overflows
	// within a single burst of any driver.
	MinRingSize = 64
	// MaxRingSize keeps the UMEM of one queue, two chunks per receive slot, at
	// or below 512 MiB with 4 KiB chunks.
	MaxRingSize = 1 << 16

	// DefaultRingSize suits most queues and DefaultChunkSize stands for 0. 2048
	// slots hold 2 ms of traffic at 1 Mpps; a chunk of 2048 bytes holds a frame
	// of 2048-Headroom bytes.
	DefaultRingSize  = 2048
	DefaultChunkSize = 2048

	// Headroom is XDP_PACKET_HEADROOM: the bytes that the kernel leaves free
	// between the start of a chunk and the frame in it. A frame larger than the
	// chunk size less Headroom is dropped by the kernel.
	Headroom = 256
)

// ErrConfig is wrapped by errors about a Config that no kernel would take.
var ErrConfig = errors.New("invalid configuration")

// Config says where a socket is bound and how much memory it has.
type Config struct {
	// Ifindex is the network device's, in the caller's network namespace.
	Ifindex int
	// Queue is the receive queue, from 0.
	Queue int
	// ChunkSize is the size of one UMEM chunk: 2048 or 4096 bytes, 0 for
	// DefaultChunkSize.
	ChunkSize int
	// RingSize is the number of slots of the receive ring: a power of two from
	// MinRingSize to MaxRingSize. The fill ring and the UMEM have twice as many
	// slots and chunks, so that the driver never runs dry while a whole receive
	// ring is out on lease.
	RingSize int
	// ZeroCopy and Copy force that mode; with neither set the kernel takes
	// zero-copy where the driver has it. Socket.ZeroCopy tells what was granted.
	ZeroCopy bool
	Copy     bool
}

// withDefaults returns the configuration with its zeros filled in, or an error
// that wraps ErrConfig. A RingSize of 0 is an error: an operator who asks for
// no ring must not silently get one.
func (c Config) withDefaults() (Config, error) {
	if c.ChunkSize == 0 {
		c.ChunkSize = DefaultChunkSize
	}
	switch {
	case c.Ifindex <= 0:
		return c, fmt.Errorf("%w: ifindex %d, want 1 or more", ErrConfig, c.Ifindex)
	case c.Queue < 0:
		return c, fmt.Errorf("%w: queue %d, want 0 or more", ErrConfig, c.Queue)
	case c.ChunkSize != 2048 && c.ChunkSize != 4096:
		return c, fmt.Errorf("%w: chunk size %d, want 2048 or 4096 bytes", ErrConfig, c.ChunkSize)
	case c.RingSize < MinRingSize || c.RingSize > MaxRingSize || c.RingSize&(c.RingSize-1) != 0:
		return c, fmt.Errorf("%w: ring size %d, want a power of two from %d to %d", ErrConfig, c.RingSize, MinRingSize, MaxRingSize)
	case c.ZeroCopy && c.Copy:
		return c, fmt.Errorf("%w: zero-copy and copy mode exclude each other", ErrConfig)
	}
	return c, nil
}
