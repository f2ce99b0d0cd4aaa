// SPDX-License-Identifier: Apache-2.0

package xsk

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// umem is the packet memory of one socket, cut into chunks of equal size, with
// one mark per chunk: out on lease or not. The marks cost a byte store per
// frame and make every misuse of a lease an error instead of a chunk that two
// owners write. The socket's lock guards them.
type umem struct {
	area        []byte
	chunkSize   uint64
	leased      []bool
	outstanding int
	// tag stands in the upper 16 bits of every Frame of this socket.
	tag uint64
}

// addrBits is the part of Frame.addr that is a UMEM offset; the rest is the tag.
const addrBits = 48

func newUmem(chunks, chunkSize int, tag uint16) (*umem, error) {
	area, err := unix.Mmap(-1, 0, chunks*chunkSize, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes of packet memory: %w", chunks*chunkSize, err)
	}
	return &umem{
		area:      area,
		chunkSize: uint64(chunkSize),
		leased:    make([]bool, chunks),
		tag:       uint64(tag) << addrBits,
	}, nil
}

// lease marks the chunk of a received descriptor and returns the frame, or
// false when the descriptor names memory that is not this side's to hand out,
// which a sound kernel never does.
func (u *umem) lease(addr uint64, length uint32) (Frame, bool) {
	index := addr / u.chunkSize
	end := (index + 1) * u.chunkSize
	if index >= uint64(len(u.leased)) || addr+uint64(length) > end || u.leased[index] {
		return Frame{}, false
	}
	u.leased[index] = true
	u.outstanding++
	return Frame{Data: u.area[addr : addr+uint64(length) : end], addr: u.tag | addr}, true
}

// giveBack clears a frame's mark and returns the offset of its chunk.
func (u *umem) giveBack(f *Frame) (base uint64, err error) {
	if f.addr&^(1<<addrBits-1) != u.tag {
		return 0, ErrForeignFrame
	}
	index := (f.addr & (1<<addrBits - 1)) / u.chunkSize
	if index >= uint64(len(u.leased)) {
		return 0, ErrForeignFrame
	}
	if !u.leased[index] {
		return 0, ErrNotLeased
	}
	u.leased[index] = false
	u.outstanding--
	return index * u.chunkSize, nil
}

func (u *umem) unmap() error {
	if u.area == nil {
		return nil
	}
	area := u.area
	u.area = nil
	return unix.Munmap(area)
}
