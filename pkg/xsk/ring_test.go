// SPDX-License-Identifier: Apache-2.0

package xsk

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// fakeRing is a ring over ordinary memory whose indexes start anywhere.
func fakeRing(size int, start uint32) ring {
	producer, consumer, flags := start, start, uint32(0)
	return ring{
		producer: &producer, consumer: &consumer, flags: &flags,
		size: uint32(size), mask: uint32(size) - 1,
		cachedProducer: start, cachedConsumer: start,
	}
}

// Positions from which a ring of 8 slots crosses 2^32 within the test.
var starts = []uint32{0, 5, 1<<31 - 3, 1<<32 - 1, 1<<32 - 4, 1<<32 - 8}

func TestRxRing(t *testing.T) {
	const size = 8
	for _, start := range starts {
		r := rxRing{ring: fakeRing(size, start), descs: make([]unix.XDPDesc, size)}
		produced, consumed := start, start
		// The kernel's side: writes descriptors, then moves its index.
		produce := func(n uint32) {
			for range n {
				r.descs[produced%size] = unix.XDPDesc{Addr: uint64(produced)}
				produced++
			}
			*r.producer = produced
		}
		consume := func(max, want uint32) {
			t.Helper()
			pos, n := r.peek(max)
			if pos != consumed || n != want {
				t.Fatalf("start %#x: peek(%d) = %#x, %d, want %#x, %d", start, max, pos, n, consumed, want)
			}
			for i := range n {
				if got := r.desc(pos + i).Addr; got != uint64(consumed+i) {
					t.Fatalf("start %#x: descriptor %d is %#x, want %#x", start, i, got, consumed+i)
				}
			}
			if *r.consumer != consumed {
				t.Fatalf("start %#x: peek moved the consumer index", start)
			}
			r.release(n)
			consumed += n
			if *r.consumer != consumed {
				t.Fatalf("start %#x: consumer index %#x after release, want %#x", start, *r.consumer, consumed)
			}
		}
		if r.waiting() > 0 {
			t.Fatalf("start %#x: an empty ring is pending", start)
		}
		consume(size, 0)
		for range 5 {
			produce(size)
			if !(r.waiting() > 0) {
				t.Fatalf("start %#x: a full ring is not pending", start)
			}
			consume(3, 3)
			produce(3)
			// A full burst needs the index read again, a partial one does not hide frames.
			consume(size, size)
			consume(size, 0)
			produce(1)
			consume(size, 1)
		}
	}
}

func TestFillRing(t *testing.T) {
	const size = 8
	for _, start := range starts {
		r := fillRing{ring: fakeRing(size, start), addrs: make([]uint64, size)}
		next := start
		for _, n := range []uint32{8, 1, 3, 0, 8, 5} {
			pos := r.reserve()
			if pos != next {
				t.Fatalf("start %#x: reserve = %#x, want %#x", start, pos, next)
			}
			for i := range n {
				r.set(pos+i, uint64(pos+i))
			}
			if *r.producer != next {
				t.Fatalf("start %#x: visible before submit", start)
			}
			r.submit(n)
			for ; next != pos+n; next++ {
				if got := r.addrs[next%size]; got != uint64(next) {
					t.Fatalf("start %#x: slot of %#x holds %#x", start, next, got)
				}
			}
			if *r.producer != next {
				t.Fatalf("start %#x: producer index %#x, want %#x", start, *r.producer, next)
			}
		}
	}
}

func TestNeedWakeup(t *testing.T) {
	r := fakeRing(8, 0)
	if r.needWakeup() {
		t.Error("asked for without the flag")
	}
	*r.flags = unix.XDP_RING_NEED_WAKEUP
	if !r.needWakeup() {
		t.Error("flag not seen")
	}
}

// fakeSocket is a socket over ordinary memory with the kernel's side in the
// test's hands. Every chunk is in the fill ring.
func fakeSocket(ringSize, chunkSize int) *Socket {
	chunks := 2 * ringSize
	s := &Socket{
		config: Config{Ifindex: 1, RingSize: ringSize, ChunkSize: chunkSize},
		umem: &umem{
			area:      make([]byte, chunks*chunkSize),
			chunkSize: uint64(chunkSize),
			leased:    make([]bool, chunks),
			tag:       uint64(nextTag()) << addrBits,
		},
		rx:   rxRing{ring: fakeRing(ringSize, 1<<32-2), descs: make([]unix.XDPDesc, ringSize)},
		fill: fillRing{ring: fakeRing(chunks, 1<<32-2), addrs: make([]uint64, chunks)},
	}
	s.fd.Store(-1)
	return s
}

// deliver plays the kernel: a frame of length bytes at addr.
func (s *Socket) deliver(addr uint64, length uint32) {
	pos := *s.rx.producer
	*s.rx.desc(pos) = unix.XDPDesc{Addr: addr, Len: length}
	*s.rx.producer = pos + 1
}

func TestLeaseStaysInItsChunk(t *testing.T) {
	s := fakeSocket(64, 2048)
	s.deliver(3*2048+256, 100)
	s.deliver(4*2048-256, 256)
	s.deliver(127*2048+256, 1792)
	frames := make([]Frame, 8)
	if n := s.Lease(frames); n != 2 {
		// The second descriptor is of the chunk that the first has leased.
		t.Fatalf("leased %d frames, want 2", n)
	}
	if f := frames[0]; len(f.Data) != 100 || cap(f.Data) != 2048-256 || &f.Data[0] != &s.umem.area[3*2048+256] {
		t.Errorf("first frame has len %d cap %d", len(f.Data), cap(f.Data))
	}
	if f := frames[1]; len(f.Data) != 1792 || cap(f.Data) != 1792 {
		t.Errorf("last chunk's frame has len %d cap %d", len(f.Data), cap(f.Data))
	}
	if s.invalid != 1 {
		t.Errorf("%d invalid descriptors counted, want 1", s.invalid)
	}
	if got := s.Outstanding(); got != 2 {
		t.Errorf("%d outstanding, want 2", got)
	}
}

func TestLeaseRefusesForeignMemory(t *testing.T) {
	s := fakeSocket(64, 2048)
	end := uint64(len(s.umem.area))
	for _, d := range []unix.XDPDesc{{Addr: end, Len: 1}, {Addr: end - 1, Len: 2}, {Addr: 256, Len: 2048}, {Addr: 1<<64 - 1, Len: 1}} {
		s.deliver(d.Addr, d.Len)
	}
	s.deliver(0, 2048)
	frames := make([]Frame, 8)
	if n := s.Lease(frames); n != 1 || len(frames[0].Data) != 2048 {
		t.Fatalf("leased %d frames, want the one good one", n)
	}
	if s.invalid != 4 {
		t.Errorf("%d invalid descriptors counted, want 4", s.invalid)
	}
}

func TestGiveBackMisuse(t *testing.T) {
	s, other := fakeSocket(64, 2048), fakeSocket(64, 2048)
	s.deliver(5*2048+256, 60)
	s.deliver(6*2048+256, 60)
	other.deliver(5*2048+256, 60)
	frames, foreign := make([]Frame, 2), make([]Frame, 1)
	if s.Lease(frames) != 2 || other.Lease(foreign) != 1 {
		t.Fatal("lease failed")
	}
	before := *s.fill.producer
	if err := s.GiveBack([]Frame{frames[0], foreign[0], {}, frames[0]}); !errors.Is(err, ErrForeignFrame) || !errors.Is(err, ErrNotLeased) {
		t.Errorf("foreign, zero and doubled frame: %v", err)
	}
	if got := *s.fill.producer - before; got != 1 {
		t.Errorf("%d chunks published, want only the good one", got)
	}
	if got := s.fill.addrs[before&s.fill.mask]; got != 5*2048 {
		t.Errorf("published chunk at %d, want %d", got, 5*2048)
	}
	if err := s.GiveBack(frames[:1]); !errors.Is(err, ErrNotLeased) {
		t.Errorf("second give back: %v, want ErrNotLeased", err)
	}
	// A holder may reslice Data as it likes.
	frames[1].Data = frames[1].Data[42:42:42]
	if err := s.GiveBack(frames[1:]); err != nil {
		t.Errorf("give back of a resliced frame: %v", err)
	}
	if got := s.fill.addrs[(before+1)&s.fill.mask]; got != 6*2048 {
		t.Errorf("published chunk at %d, want %d", got, 6*2048)
	}
	if s.Outstanding() != 0 || other.Outstanding() != 1 {
		t.Errorf("outstanding %d and %d, want 0 and 1", s.Outstanding(), other.Outstanding())
	}
}

func TestConfig(t *testing.T) {
	good := Config{Ifindex: 1, RingSize: 512}
	if c, err := good.withDefaults(); err != nil || c.ChunkSize != DefaultChunkSize {
		t.Errorf("good configuration: %+v, %v", c, err)
	}
	for name, change := range map[string]func(*Config){
		"no ifindex":        func(c *Config) { c.Ifindex = 0 },
		"negative queue":    func(c *Config) { c.Queue = -1 },
		"ring 0":            func(c *Config) { c.RingSize = 0 },
		"ring -512":         func(c *Config) { c.RingSize = -512 },
		"ring 511":          func(c *Config) { c.RingSize = 511 },
		"ring 32":           func(c *Config) { c.RingSize = 32 },
		"ring 2^20":         func(c *Config) { c.RingSize = 1 << 20 },
		"chunk 1024":        func(c *Config) { c.ChunkSize = 1024 },
		"chunk 3000":        func(c *Config) { c.ChunkSize = 3000 },
		"copy and zerocopy": func(c *Config) { c.Copy, c.ZeroCopy = true, true },
	} {
		c := good
		change(&c)
		if s, err := Open(c); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v, want ErrConfig", name, err)
			if err == nil {
				s.Close()
			}
		}
	}
}
