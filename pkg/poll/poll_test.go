// SPDX-License-Identifier: Apache-2.0

package poll

import (
	"errors"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func open(t *testing.T) (p *Poller, r, w int) {
	t.Helper()
	p, err := New()
	if err != nil {
		t.Fatal(err)
	}
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		unix.Close(fds[0])
		unix.Close(fds[1])
	})
	return p, fds[0], fds[1]
}

// wait repeats a Wait that a signal ended early.
func wait(t *testing.T, p *Poller, fd int, events int16) (ready, woken bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !ready && !woken {
		var err error
		if ready, woken, err = p.Wait(fd, events, 1000); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatal("neither ready nor woken")
		}
	}
	return ready, woken
}

func TestReadiness(t *testing.T) {
	p, r, w := open(t)
	if ready, woken, err := p.Wait(r, unix.POLLIN, 0); ready || woken || err != nil {
		t.Errorf("empty pipe: %v %v %v", ready, woken, err)
	}
	if ready, woken := wait(t, p, w, unix.POLLOUT); !ready || woken {
		t.Errorf("writable pipe: %v %v", ready, woken)
	}
	if _, err := unix.Write(w, []byte{1}); err != nil {
		t.Fatal(err)
	}
	if ready, woken := wait(t, p, r, unix.POLLIN); !ready || woken {
		t.Errorf("full pipe: %v %v", ready, woken)
	}
	p.Wake()
	if ready, woken := wait(t, p, r, unix.POLLIN); !ready || !woken {
		t.Errorf("full pipe and wake: %v %v", ready, woken)
	}
}

func TestWakeCountsOnce(t *testing.T) {
	p, r, _ := open(t)
	for range 3 {
		p.Wake()
	}
	if ready, woken := wait(t, p, r, unix.POLLIN); ready || !woken {
		t.Errorf("woken: %v %v", ready, woken)
	}
	if ready, woken, err := p.Wait(-1, 0, 0); ready || woken || err != nil {
		t.Errorf("afterwards: %v %v %v", ready, woken, err)
	}
}

func TestWakeFromOtherGoroutines(t *testing.T) {
	p, _, _ := open(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				p.Wake()
			}
		})
	}
	if _, woken := wait(t, p, -1, 0); !woken {
		t.Error("not woken")
	}
	wg.Wait()
}

func TestClosed(t *testing.T) {
	p, r, _ := open(t)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	p.Wake() // must not write to whoever has the descriptor now
	if ready, woken, err := p.Wait(r, unix.POLLIN, 0); ready || woken || err != nil {
		t.Errorf("after close: %v %v %v", ready, woken, err)
	}
}

func TestBadDescriptor(t *testing.T) {
	p, _, _ := open(t)
	if _, _, err := p.Wait(1<<20, unix.POLLIN, 0); !errors.Is(err, unix.EBADF) {
		t.Errorf("got %v", err)
	}
}

func TestAllocations(t *testing.T) {
	p, r, _ := open(t)
	if n := testing.AllocsPerRun(100, func() {
		p.Wake()
		if _, woken, err := p.Wait(r, unix.POLLIN, 1000); !woken || err != nil {
			t.Fatal(woken, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
