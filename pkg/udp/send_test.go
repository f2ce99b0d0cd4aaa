// SPDX-License-Identifier: Apache-2.0

package udp

import (
	"bytes"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kernel stands for sendmmsg: it takes messages until rule objects to one.
type kernel struct {
	rule   func(data []byte, aggregate bool, nth int) unix.Errno
	most   int // messages taken per call; 0: all
	nth    int
	sent   [][]byte // datagrams, or aggregates whole
	calls  int
	waited int
}

func (k *kernel) transmit(_ int, hdrs []mmsghdr) (int, unix.Errno) {
	k.calls++
	for i := range hdrs {
		if k.most > 0 && i == k.most {
			return i, 0
		}
		h := &hdrs[i].hdr
		data := bytes.Clone(unsafe.Slice(h.Iov.Base, h.Iov.Len))
		k.nth++
		if errno := k.rule(data, h.Controllen > 0, k.nth); errno != 0 {
			if i > 0 {
				k.nth-- // is met again as the first one
				return i, 0
			}
			return -1, errno
		}
		k.sent = append(k.sent, data)
	}
	return len(hdrs), 0
}

func newFake(rule func(data []byte, aggregate bool, nth int) unix.Errno) (*kernel, *Sender, *Conn) {
	k := &kernel{rule: rule}
	s := NewSender(1)
	s.transmit = k.transmit
	s.await = func(int, unix.Errno, int) { k.waited++ }
	c := &Conn{addr: netip.MustParseAddrPort("192.0.2.1:1194")}
	c.gso.Store(true)
	return k, s, c
}

func run(n, size int, seed byte) Run {
	return Run{Remote: netip.MustParseAddrPort("192.0.2.2:1194"), Data: pattern(n, seed), SegmentSize: size}
}

// checkBytes compares what was sent, however it was cut, with the runs.
func checkBytes(t *testing.T, k *kernel, runs ...Run) {
	t.Helper()
	var want []byte
	for _, r := range runs {
		want = append(want, r.Data...)
	}
	if got := bytes.Join(k.sent, nil); !bytes.Equal(got, want) {
		t.Errorf("sent %d bytes, want %d, or other ones", len(got), len(want))
	}
}

func TestOffloadIsSwitchedOffByItsErrnosOnly(t *testing.T) {
	for errno := unix.Errno(1); errno < 134; errno++ {
		k, s, c := newFake(func(_ []byte, aggregate bool, _ int) unix.Errno {
			if aggregate {
				return errno
			}
			return 0
		})
		var log bytes.Buffer
		c.log = slog.New(slog.NewTextHandler(&log, nil))
		runs := []Run{run(300, 100, 1), run(250, 100, 2), run(50, 0, 3)}
		res := s.Send(c, runs)
		switch errno {
		case unix.EIO, unix.ENOPROTOOPT, unix.EOPNOTSUPP:
			if c.GSO() || c.GSOError() != errno {
				t.Errorf("%v: offload is on, reason %v", errno, c.GSOError())
			}
			if res.Sent != 7 || res.Failed != 0 || len(k.sent) != 7 {
				t.Errorf("%v: %+v, %d messages", errno, res, len(k.sent))
			}
			checkBytes(t, k, runs...)
			s.Send(c, runs)
			if n := strings.Count(log.String(), "switched off"); n != 1 {
				t.Errorf("%v: said %d times", errno, n)
			}
			continue
		case unix.EMSGSIZE, unix.EINVAL:
			if res.Sent != 7 || res.Failed != 0 || len(k.sent) != 7 {
				t.Errorf("%v: %+v, %d messages", errno, res, len(k.sent))
			}
			checkBytes(t, k, runs...)
		default:
			if res.Sent != 1 || res.Failed != 6 || runs[0].Err != errno || runs[1].Err != errno || runs[2].Err != nil {
				t.Errorf("%v: %+v, errors %v %v %v", errno, res, runs[0].Err, runs[1].Err, runs[2].Err)
			}
			checkBytes(t, k, runs[2])
		}
		if !c.GSO() || c.GSOError() != nil || log.Len() != 0 {
			t.Errorf("%v: offload is %v, reason %v, log %q", errno, c.GSO(), c.GSOError(), log.String())
		}
	}
}

func TestPartialSends(t *testing.T) {
	for most := 1; most <= 5; most++ {
		for _, gso := range []bool{true, false} {
			k, s, c := newFake(func([]byte, bool, int) unix.Errno { return 0 })
			k.most = most
			c.gso.Store(gso)
			var runs []Run
			for i := range 9 {
				runs = append(runs, run(64*20-i, 20, byte(i)), run(7, 0, byte(i)))
			}
			res := s.Send(c, runs)
			if res.Failed != 0 || res.Sent != 9*65 || res.Calls != k.calls {
				t.Errorf("most %d gso %v: %+v", most, gso, res)
			}
			checkBytes(t, k, runs...)
		}
	}
}

func TestFullBufferIsWaitedForWithinBounds(t *testing.T) {
	for _, errno := range []unix.Errno{unix.EAGAIN, unix.ENOBUFS, unix.ENOMEM} {
		// Room comes after three waits.
		k, s, c := newFake(func(_ []byte, _ bool, nth int) unix.Errno {
			if nth >= 2 && nth < 5 {
				return errno
			}
			return 0
		})
		runs := []Run{run(300, 100, 1), run(300, 100, 2), run(10, 0, 3)}
		if res := s.Send(c, runs); res.Sent != 7 || res.Failed != 0 || k.waited != 3 {
			t.Errorf("%v: %+v after %d waits", errno, res, k.waited)
		}
		checkBytes(t, k, runs...)

		// Room never comes: one bound for all runs together.
		k, s, c = newFake(func([]byte, bool, int) unix.Errno { return errno })
		if res := s.Send(c, runs); res.Sent != 0 || res.Failed != 7 || k.waited != 50 {
			t.Errorf("%v: %+v after %d waits", errno, res, k.waited)
		}
		for i := range runs {
			if runs[i].Err != errno {
				t.Errorf("%v: run %d has %v", errno, i, runs[i].Err)
			}
		}
	}
}

func TestRunGoingOneByOneStopsAtItsFailure(t *testing.T) {
	k, s, c := newFake(func(data []byte, aggregate bool, _ int) unix.Errno {
		if aggregate || len(data) == 50 {
			return unix.EMSGSIZE
		}
		return 0
	})
	runs := []Run{run(250, 100, 1), run(200, 100, 2)}
	res := s.Send(c, runs)
	if runs[0].Sent != 2 || !TooLong(runs[0].Err) || runs[1].Sent != 2 || runs[1].Err != nil || res.Sent != 4 || res.Failed != 1 {
		t.Errorf("%+v, %d %v, %d %v", res, runs[0].Sent, runs[0].Err, runs[1].Sent, runs[1].Err)
	}
	checkBytes(t, k, Run{Data: runs[0].Data[:200]}, runs[1])
}

func TestPendingErrorIsTriedOnceMore(t *testing.T) {
	for _, times := range []int{1, 2} {
		k, s, c := newFake(func(_ []byte, _ bool, nth int) unix.Errno {
			if nth <= times {
				return unix.ECONNREFUSED
			}
			return 0
		})
		runs := []Run{run(300, 100, 1), run(10, 0, 2)}
		res := s.Send(c, runs)
		if times == 1 {
			if res.Sent != 4 || res.Failed != 0 {
				t.Errorf("once: %+v", res)
			}
			checkBytes(t, k, runs...)
			continue
		}
		if runs[0].Err != unix.ECONNREFUSED || runs[1].Err != nil || res.Sent != 1 {
			t.Errorf("twice: %+v, %v %v", res, runs[0].Err, runs[1].Err)
		}
	}
}

func TestRunLimits(t *testing.T) {
	for _, c := range []struct{ bytes, size, want int }{
		{0, 0, 1}, {0, 10, 1}, {1, 0, 1}, {10, 10, 1}, {11, 10, 2}, {640, 10, 64}, {641, 10, 0},
		{MaxRunBytes, 0, 1}, {MaxRunBytes, 1024, 64}, {MaxRunBytes, 1023, 0}, {MaxRunBytes + 1, 0, 0}, {10, -1, 0},
	} {
		r := Run{Data: make([]byte, c.bytes), SegmentSize: c.size}
		if got := r.datagrams(); got != c.want {
			t.Errorf("%d bytes by %d: %d datagrams, want %d", c.bytes, c.size, got, c.want)
		}
		k, s, conn := newFake(func([]byte, bool, int) unix.Errno { return 0 })
		runs := []Run{r}
		s.Send(conn, runs)
		if refused := errors.Is(runs[0].Err, ErrRun); refused != (c.want == 0) || (refused && len(k.sent) > 0) {
			t.Errorf("%d bytes by %d: %v, %d messages", c.bytes, c.size, runs[0].Err, len(k.sent))
		}
	}
}

func TestControlMessages(t *testing.T) {
	m := newMessages(1)
	for _, local := range []string{"", "192.0.2.1", "2001:db8::1"} {
		for _, segment := range []int{0, 1400, 65535} {
			var addr netip.Addr
			if local != "" {
				addr = netip.MustParseAddr(local)
			}
			m.setControl(0, addr, 3, segment)
			parsed, err := unix.ParseSocketControlMessage(m.slots[0].bytes()[:m.hdrs[0].hdr.Controllen])
			if err != nil {
				t.Fatalf("%s %d: %v", local, segment, err)
			}
			want := 0
			if local != "" {
				want++
			}
			if segment != 0 {
				want++
			}
			if len(parsed) != want {
				t.Fatalf("%s %d: %d messages", local, segment, len(parsed))
			}
			if (m.hdrs[0].hdr.Control == nil) != (want == 0) {
				t.Errorf("%s %d: control pointer", local, segment)
			}
			if local != "" {
				if got, _ := m.control(0); got != addr {
					t.Errorf("%s %d: read back %v", local, segment, got)
				}
			}
			if segment != 0 {
				last := parsed[len(parsed)-1]
				if last.Header.Level != unix.IPPROTO_UDP || last.Header.Type != unix.UDP_SEGMENT ||
					int(*(*uint16)(unsafe.Pointer(&last.Data[0]))) != segment {
					t.Errorf("%s %d: got %+v", local, segment, last)
				}
			}
		}
	}
	// Garbage ends the walk.
	clear(m.slots[0].bytes())
	m.clear(0)
	if addr, segment := m.control(0); addr.IsValid() || segment != 0 {
		t.Errorf("read %v, %d out of nothing", addr, segment)
	}
	for i := range m.slots[0].bytes() {
		m.slots[0].bytes()[i] = 0xff
	}
	if addr, segment := m.control(0); addr.IsValid() || segment != 0 {
		t.Errorf("read %v, %d out of garbage", addr, segment)
	}
}

// A full socket is waited for as long as was said, and no longer.
func TestWaitIsBounded(t *testing.T) {
	for _, c := range []struct {
		set  time.Duration
		want int
	}{{0, 0}, {5 * time.Millisecond, 5}, {-1, 50}} {
		k, s, conn := newFake(func([]byte, bool, int) unix.Errno { return unix.EAGAIN })
		if c.set >= 0 {
			s.SetWait(c.set)
		}
		res := s.Send(conn, []Run{run(100, 0, 1), run(100, 0, 2)})
		if k.waited != c.want || res.Sent != 0 || res.Failed != 2 {
			t.Errorf("wait %v: waited %d times, %+v", c.set, k.waited, res)
		}
	}
}
