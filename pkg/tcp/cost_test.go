// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"runtime"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/sockaddr"
)

// ignore is a Receiver that keeps nothing.
type ignore struct{ packets atomic.Int64 }

func (i *ignore) Opened(*Conn) Receiver           { return i }
func (i *ignore) Packets(_ int, packets [][]byte) { i.packets.Add(int64(len(packets))) }
func (i *ignore) Closed(error)                    {}

// raw connects a bare descriptor, without the runtime's poller.
func (b *bed) raw() int {
	b.t.Helper()
	fd := -1
	b.ns.Do(func() {
		var err error
		if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
			b.t.Fatal(err)
		}
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
			b.t.Fatal(err)
		}
		sa, err := sockaddr.From(b.l.Addr())
		if err == nil {
			err = unix.Connect(fd, sa)
		}
		if err != nil {
			b.t.Fatal(err)
		}
	})
	b.t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// Reading packets that are cut anywhere, and sending them, allocates nothing.
func TestAllocatesNothing(t *testing.T) {
	b := newBed(t, Config{Workers: 1})
	in := new(ignore)
	b.l.handler = in
	far := b.raw()
	w := b.l.workers[0]
	w.accept()
	defer func() {
		for _, c := range w.all() {
			w.end(c, ErrClosed, false)
		}
	}()
	c := w.all()[0]
	var stream []byte
	for i := range 40 {
		stream = append(stream, framed(filled(1000+i, byte(i)))...)
	}
	out := framed(filled(1400, 1), filled(1400, 2), filled(100, 3))
	got := make([]byte, len(out))
	sent, runs := 0, int64(0)
	if n := testing.AllocsPerRun(20, func() {
		for rest := stream; len(rest) > 0; {
			n := min(len(rest), 7777)
			if _, err := unix.Write(far, rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
			w.read(c)
		}
		for runs++; in.packets.Load() < 40*runs; {
			w.read(c) // what the sender's stack held back
		}
		sent += c.SendFrames(out)
		for n := 0; n < len(got); {
			k, err := unix.Read(far, got)
			if err != nil {
				t.Fatal(err)
			}
			n += k
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if in.packets.Load() != 40*21 || sent != 3*21 {
		t.Errorf("%d packets received, %d sent", in.packets.Load(), sent)
	}
}

// An idle connection has neither goroutine nor buffer.
func TestIdleConnectionsAreCheap(t *testing.T) {
	const count = 2000
	b := newBed(t, Config{Workers: 2, MaxPerPrefix: count})
	in := new(ignore)
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	fds := make([]int, 0, count)
	before, goroutines := heap(), runtime.NumGoroutine()
	b.l.Start(in)
	for range count {
		fds = append(fds, b.raw())
	}
	eventually(t, "all are accepted", func() bool { return b.l.Stats().Open == count })
	for _, fd := range fds {
		if _, err := unix.Write(fd, framed(filled(100, 1))); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "all have been served", func() bool { return in.packets.Load() == count })
	per := int64(heap()-before) / count
	t.Logf("%d bytes for each of %d connections", per, count)
	if per > 1024 {
		t.Errorf("%d bytes for each connection", per)
	}
	if n := runtime.NumGoroutine() - goroutines; n > 2 {
		t.Errorf("%d goroutines more", n)
	}
	b.l.Stop() // their end is not the descriptors' own business
}
