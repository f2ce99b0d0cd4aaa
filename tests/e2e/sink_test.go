// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/binary"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
)

// numbered is a payload of n bytes, at least 8, that carries a number and
// whose every further byte follows from it.
func numbered(number uint64, n int) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, n), number)
	x := byte(number*31 + number>>8)
	for len(b) < n {
		b = append(b, x)
		x += 7
	}
	return b
}

// intact reports a payload's number and whether the rest belongs to it.
func intact(b []byte) (number uint64, ok bool) {
	if len(b) < 8 {
		return 0, false
	}
	number = binary.BigEndian.Uint64(b)
	x := byte(number*31 + number>>8)
	for _, c := range b[8:] {
		if c != x {
			return number, false
		}
		x += 7
	}
	return number, true
}

// sink receives numbered payloads by UDP and keeps count of each number.
type sink struct {
	addr  netip.AddrPort
	total atomic.Uint64 // datagrams received

	mu      sync.Mutex
	times   map[uint64]int
	damaged int
}

// newSink listens in a namespace.
func newSink(t *testing.T, ns *testlab.Namespace, at netip.AddrPort) *sink {
	t.Helper()
	c := listenUDP(t, ns, at)
	s := &sink{addr: c.LocalAddr().(*net.UDPAddr).AddrPort(), times: map[uint64]int{}}
	go func() {
		buf := make([]byte, 1<<16)
		for {
			n, err := c.Read(buf)
			if err != nil {
				return
			}
			number, ok := intact(buf[:n])
			s.mu.Lock()
			if ok {
				s.times[number]++
			} else {
				s.damaged++
			}
			s.mu.Unlock()
			s.total.Add(1)
		}
	}()
	return s
}

// exactly checks that the numbers from first to below end came once each and
// nothing else did. It waits for the last of them.
func (s *sink) exactly(t *testing.T, first, end uint64) {
	t.Helper()
	arrived := func() bool { return s.total.Load() >= end-first }
	s.waitFor(arrived)
	s.mu.Lock()
	defer s.mu.Unlock()
	var missing, doubled, foreign int
	var example uint64
	for n := first; n < end; n++ {
		switch s.times[n] {
		case 0:
			missing++
			example = n
		case 1:
		default:
			doubled++
		}
	}
	foreign = len(s.times) - int(end-first) + missing
	if missing+doubled+foreign+s.damaged > 0 {
		t.Errorf("of %d payloads %d are missing (%d for one), %d came more than once, %d are foreign, %d are damaged",
			end-first, missing, example, doubled, foreign, s.damaged)
	}
}

func (s *sink) waitFor(arrived func() bool) {
	for deadline := time.Now().Add(limit / 6); !arrived() && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
	// A moment longer, for what should not come at all.
	time.Sleep(20 * time.Millisecond)
}
