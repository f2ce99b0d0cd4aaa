// SPDX-License-Identifier: Apache-2.0

package replay

// buffer holds the frames of one burst, each with room behind it. Frames are
// copied out of the file's buffer because they are opened in place together.
//
// The frame that ends a burst has been read before the burst is opened, so
// there are two halves: reset moves to the other one, which nothing uses by
// then, and the frame last taken stays where it is.
type buffer struct {
	half    [2][]byte
	current int
	used    int // of kept frames
	want    int // of the frame last taken
}

const bufferSize = 1 << 20

// take returns room for one frame, empty, with a capacity of size bytes.
// Until keep, the next take returns the same room. A frame that does not fit
// any more gets memory of its own.
func (b *buffer) take(size int) []byte {
	b.want = size
	mem := b.half[b.current]
	if mem == nil {
		mem = make([]byte, bufferSize)
		b.half[b.current] = mem
	}
	if b.used+size > len(mem) {
		return make([]byte, 0, size)
	}
	return mem[b.used : b.used : b.used+size]
}

// keep makes the frame last taken stay until the reset after the next.
func (b *buffer) keep() { b.used = min(b.used+b.want, bufferSize) }

// full says that the burst should end before the frame last taken is kept.
func (b *buffer) full() bool { return b.used+b.want > bufferSize }

// reset forgets all frames but the one last taken.
func (b *buffer) reset() { b.current, b.used = 1-b.current, 0 }
