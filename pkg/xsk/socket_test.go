// SPDX-License-Identifier: Apache-2.0

package xsk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// deadline bounds every wait for frames. Only a failing test reaches it.
const deadline = 20 * time.Second

// leaseAll leases want frames, waiting for them as long as it takes.
func leaseAll(t *testing.T, s *Socket, want int) []Frame {
	t.Helper()
	frames := make([]Frame, want)
	n := 0
	for end := time.Now().Add(deadline); n < want; {
		n += s.Lease(frames[n:])
		if n < want {
			if time.Now().After(end) {
				stats, err := s.Stats()
				t.Fatalf("%d of %d frames arrived (%+v, %v)", n, want, stats, err)
			}
			if _, err := s.Wait(100); err != nil {
				t.Fatal(err)
			}
		}
	}
	return frames
}

func TestReceive(t *testing.T) {
	onVeth(t, 1, func(v *veth) {
		for _, chunk := range []int{2048, 4096} {
			s := v.open(Config{RingSize: 64, ChunkSize: chunk})
			if s.ZeroCopy() {
				t.Error("veth granted zero-copy")
			}
			if s.Pending() {
				t.Error("pending before anything was sent")
			}
			if ready, err := s.Wait(0); ready || err != nil {
				t.Errorf("wait on an empty ring: %v, %v", ready, err)
			}
			// More rounds than the fill ring has slots, so that every chunk is
			// used again and the indexes go around.
			sizes := []int{14, 60, 333, 1514}
			for round := range 64 {
				sent := make([][]byte, len(sizes))
				for i, size := range sizes {
					sent[i] = v.send(uint32(round*len(sizes)+i), size)
				}
				frames := leaseAll(t, s, len(sizes))
				for i, f := range frames {
					if !bytes.Equal(f.Data, sent[i]) {
						t.Fatalf("frame %d of %d bytes arrived as %d bytes: %x", i, len(sent[i]), len(f.Data), f.Data)
					}
					if cap(f.Data)-len(f.Data) < 16 {
						t.Fatalf("%d bytes of room behind frame %d", cap(f.Data)-len(f.Data), i)
					}
				}
				if got := s.Outstanding(); got != len(sizes) {
					t.Fatalf("%d outstanding, want %d", got, len(sizes))
				}
				if err := s.GiveBack(frames); err != nil {
					t.Fatal(err)
				}
			}
			stats, err := s.Stats()
			if err != nil || stats != (Stats{}) {
				t.Errorf("statistics %+v, %v, want none lost", stats, err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Leases end in random order on other goroutines while the next are taken, and
// every frame is checked once more right before its lease ends: a chunk handed
// out twice would be overwritten by then.
func TestGiveBackFromOtherThreads(t *testing.T) {
	onVeth(t, 1, func(v *veth) {
		const total, holders = 20_000, 3
		s := v.open(Config{RingSize: 64})
		type held struct {
			frames []Frame
			first  uint32
		}
		work := make(chan held, 8)
		credit := make(chan struct{}, 48) // what may be on its way or on lease at once
		var wg sync.WaitGroup
		for h := range holders {
			wg.Go(func() {
				random := rand.New(rand.NewPCG(uint64(h), 1))
				var mine []Frame
				give := func(n int) {
					for range n {
						i := random.IntN(len(mine))
						if number := binary.BigEndian.Uint32(mine[i].Data[14:]); !intact(mine[i].Data, number) {
							t.Errorf("frame %d changed while on lease", number)
						}
						if err := s.GiveBack(mine[i : i+1]); err != nil {
							t.Error(err)
						}
						mine[i] = mine[len(mine)-1]
						mine = mine[:len(mine)-1]
						<-credit
					}
				}
				for w := range work {
					for i, f := range w.frames {
						if number := binary.BigEndian.Uint32(f.Data[14:]); number != w.first+uint32(i) {
							t.Errorf("frame %d where %d was due", number, w.first+uint32(i))
						}
					}
					mine = append(mine, w.frames...)
					give(random.IntN(len(mine) + 1))
				}
				give(len(mine))
			})
		}
		// The sender needs credit back even when a holder sits on its frames,
		// which give(random) does for a while but never for good: each holder
		// keeps some only until its next piece of work or the end.
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			for i := range uint32(total) {
				select {
				case credit <- struct{}{}:
				case <-time.After(deadline):
					t.Errorf("no credit for frame %d", i)
					return
				}
				v.send(i, 64+int(i%1400))
			}
		}()
		next := uint32(0)
		for end := time.Now().Add(2 * deadline); next < total && time.Now().Before(end); {
			frames := make([]Frame, 16)
			n := s.Lease(frames)
			if n == 0 {
				if _, err := s.Wait(10); err != nil {
					t.Error(err)
					break
				}
				// Nudge holders that keep frames while the sender waits for credit.
				select {
				case work <- held{}:
				default:
				}
				continue
			}
			work <- held{frames[:n], next}
			next += uint32(n)
		}
		close(work)
		wg.Wait()
		<-sent
		if next != total {
			t.Errorf("%d of %d frames arrived", next, total)
		}
		if got := s.Outstanding(); got != 0 {
			t.Errorf("%d still on lease", got)
		}
		if stats, err := s.Stats(); err != nil || stats != (Stats{}) {
			t.Errorf("statistics %+v, %v, want none lost", stats, err)
		}
	})
}

func TestLossIsCounted(t *testing.T) {
	onVeth(t, 1, func(v *veth) {
		s := v.open(Config{RingSize: 64})
		sendAndSettle := func(first, n int) {
			t.Helper()
			before := v.seen()
			for i := range n {
				v.send(uint32(first+i), 100)
			}
			for end := time.Now().Add(deadline); v.seen() < before+uint64(n); time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("the program saw %d of %d frames", v.seen()-before, n)
				}
			}
		}
		check := func(what string, want Stats) {
			t.Helper()
			// The program counts a frame before the redirect that may lose it.
			var stats Stats
			var err error
			for end := time.Now().Add(deadline); ; time.Sleep(time.Millisecond) {
				if stats, err = s.Stats(); err != nil || stats == want || time.Now().After(end) {
					break
				}
			}
			if err != nil || stats != want {
				t.Errorf("%s: %+v, %v, want %+v", what, stats, err, want)
			}
		}
		// 64 fit the receive ring, 10 do not; their chunks are not lost.
		sendAndSettle(0, 74)
		check("receive ring full", Stats{RingFull: 10})
		first := leaseAll(t, s, 64)
		if s.Pending() {
			t.Error("pending after all were leased")
		}
		// With all of it on lease, the other half of the chunks serves on.
		sendAndSettle(100, 64)
		second := leaseAll(t, s, 64)
		sendAndSettle(200, 5)
		check("no chunk left", Stats{RingFull: 10, FillEmpty: 5, FillDropped: 5})
		if n := s.Lease(make([]Frame, 1)); n != 0 {
			t.Errorf("leased %d frames of a dry socket", n)
		}
		if err := errors.Join(s.GiveBack(second), s.GiveBack(first)); err != nil {
			t.Fatal(err)
		}
		v.send(300, 100)
		if f := leaseAll(t, s, 1); !intact(f[0].Data, 300) {
			t.Error("the frame after the drought is not the one sent")
		} else if err := s.GiveBack(f); err != nil {
			t.Fatal(err)
		}
		// A frame too large for its chunk (veth takes it with a 3000-byte MTU).
		v.command("ip", "link", "set", "xa", "mtu", "3000")
		v.command("ip", "link", "set", "xb", "mtu", "3000")
		v.send(301, 2500)
		check("oversize", Stats{RingFull: 10, FillEmpty: 5, FillDropped: 5, Dropped: 1})
		if stats, _ := s.Stats(); stats.Lost() != 16 {
			t.Errorf("lost %d, want 16", stats.Lost())
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		check("after close", Stats{RingFull: 10, FillEmpty: 5, FillDropped: 5, Dropped: 1})
	})
}

func TestBindErrors(t *testing.T) {
	onVeth(t, 1, func(v *veth) {
		for name, test := range map[string]struct {
			config Config
			want   error
		}{
			"zero-copy on veth": {Config{Ifindex: v.ifindex, RingSize: 64, ZeroCopy: true}, unix.EOPNOTSUPP},
			"missing queue":     {Config{Ifindex: v.ifindex, RingSize: 64, Queue: 7}, unix.EINVAL},
			"missing device":    {Config{Ifindex: 1 << 30, RingSize: 64}, unix.ENODEV},
			"queue in use":      {Config{Ifindex: v.ifindex, RingSize: 64}, unix.EBUSY},
		} {
			var holder *Socket
			if test.want == unix.EBUSY {
				holder = v.open(Config{RingSize: 64, Copy: true})
			}
			s, err := Open(test.config)
			if !errors.Is(err, test.want) {
				t.Errorf("%s: %v, want %v", name, err, test.want)
			}
			if err == nil {
				s.Close()
			} else if where := fmt.Sprintf("ifindex %d", test.config.Ifindex); !strings.Contains(err.Error(), where) {
				t.Errorf("%s: %q does not say %q", name, err, where)
			}
			if holder != nil {
				holder.Close()
			}
		}
	})
}

// The kernel frees a queue some time after its socket is closed; opening again
// at once has to work, every time, and leak neither descriptors nor mappings.
func TestReopen(t *testing.T) {
	onVeth(t, 1, func(v *veth) {
		reopen := func(i uint32) {
			s := v.open(Config{RingSize: 64})
			v.send(i, 200)
			frames := leaseAll(t, s, 1)
			if !intact(frames[0].Data, i) {
				t.Fatalf("round %d: wrong frame", i)
			}
			if err := errors.Join(s.GiveBack(frames), s.Close(), s.Close()); err != nil {
				t.Fatal(err)
			}
		}
		reopen(0)
		descriptors, mappings := count(t, "/proc/self/fd"), mapped(t)
		for i := range uint32(10) {
			reopen(i + 1)
		}
		if got := count(t, "/proc/self/fd"); got != descriptors {
			t.Errorf("%d descriptors, %d before", got, descriptors)
		}
		if got := mapped(t); got != mappings {
			t.Errorf("%d socket mappings, %d before", got, mappings)
		}
	})
}

func TestCloseWithFramesOut(t *testing.T) {
	onVeth(t, 1, func(v *veth) {
		s := v.open(Config{RingSize: 64})
		v.send(1, 700)
		v.send(2, 700)
		frames := leaseAll(t, s, 2)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if n := s.Lease(make([]Frame, 4)); n != 0 || s.Pending() || s.FD() != -1 {
			t.Errorf("closed socket leases %d, pending %v, descriptor %d", n, s.Pending(), s.FD())
		}
		if _, err := s.Wait(0); !errors.Is(err, ErrClosed) {
			t.Errorf("wait after close: %v, want ErrClosed", err)
		}
		// Still mapped, and still what arrived.
		for i, f := range frames {
			if !intact(f.Data, uint32(i+1)) {
				t.Errorf("frame %d changed at close", i+1)
			}
			if s.umem.area == nil {
				t.Fatal("memory unmapped under a lease")
			}
			if err := s.GiveBack(frames[i : i+1]); err != nil {
				t.Error(err)
			}
		}
		if s.umem.area != nil {
			t.Error("memory still mapped after the last lease")
		}
		if err := s.GiveBack(frames[:1]); !errors.Is(err, ErrNotLeased) {
			t.Errorf("give back twice after close: %v, want ErrNotLeased", err)
		}
	})
}

// Close may fall between any two steps of a consumer in another thread.
func TestCloseBesideLease(t *testing.T) {
	onVeth(t, 1, func(v *veth) {
		s := v.open(Config{RingSize: 64})
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				frames := make([]Frame, 8)
				for {
					select {
					case <-stop:
						return
					default:
					}
					n := s.Lease(frames)
					for _, f := range frames[:n] {
						f.Data[0]++
					}
					if err := s.GiveBack(frames[:n]); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		for i := range uint32(200) {
			v.send(i, 100)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		close(stop)
		wg.Wait()
		if s.Outstanding() != 0 || s.umem.area != nil {
			t.Errorf("%d on lease and memory mapped %v after the end", s.Outstanding(), s.umem.area != nil)
		}
	})
}

func TestQueues(t *testing.T) {
	onVeth(t, 2, func(v *veth) {
		a, b := v.open(Config{RingSize: 64, Queue: 0}), v.open(Config{RingSize: 64, Queue: 1})
		if a.Queue() != 0 || b.Queue() != 1 {
			t.Errorf("queues %d and %d", a.Queue(), b.Queue())
		}
		const total = 32
		for i := range uint32(total) {
			v.send(i, 100)
		}
		got := map[uint32]int{}
		frames := make([]Frame, total)
		for end := time.Now().Add(deadline); len(got) < total && time.Now().Before(end); {
			for _, s := range []*Socket{a, b} {
				n := s.Lease(frames)
				for _, f := range frames[:n] {
					got[binary.BigEndian.Uint32(f.Data[14:])]++
				}
				if err := s.GiveBack(frames[:n]); err != nil {
					t.Fatal(err)
				}
			}
		}
		if len(got) != total {
			t.Errorf("%d of %d frames over both queues", len(got), total)
		}
	})
}

func TestBurstAllocatesNothing(t *testing.T) {
	onVeth(t, 1, func(v *veth) {
		s := v.open(Config{RingSize: 64})
		frames := make([]Frame, 4)
		packet := frame(1, 100)
		got := 0
		allocs := testing.AllocsPerRun(100, func() {
			v.write(packet)
			if _, err := s.Wait(1000); err != nil {
				t.Error(err)
			}
			n := s.Lease(frames)
			got += n
			if err := s.GiveBack(frames[:n]); err != nil {
				t.Error(err)
			}
			// The driver of this device never asks, so ask for it.
			if err := s.kick(); err != nil {
				t.Error(err)
			}
		})
		if allocs != 0 {
			t.Errorf("%v allocations per burst", allocs)
		}
		if got == 0 {
			t.Error("no frame arrived")
		}
	})
}

func TestKickReportsDeviceDown(t *testing.T) {
	onVeth(t, 1, func(v *veth) {
		s := v.open(Config{RingSize: 64})
		if err := s.kick(); err != nil {
			t.Errorf("kick of a device that is up: %v", err)
		}
		byPoll := s.kickPoll // a kernel before 5.11: poll reports nothing
		v.command("ip", "link", "set", "xa", "down")
		if err := s.kick(); byPoll {
			if err != nil {
				t.Errorf("kick by poll of a device that is down: %v", err)
			}
		} else if !errors.Is(err, unix.ENETDOWN) {
			t.Errorf("kick of a device that is down: %v, want ENETDOWN", err)
		}
		// The way of kernels whose AF_XDP has no recvfrom.
		v.command("ip", "link", "set", "xa", "up")
		s.kickPoll = true
		if err := s.kick(); err != nil {
			t.Errorf("kick by poll: %v", err)
		}
	})
}

func count(t *testing.T, dir string) int {
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// mapped counts this process's mappings of AF_XDP rings.
func mapped(t *testing.T) int {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(maps, []byte("socket:["))
}
