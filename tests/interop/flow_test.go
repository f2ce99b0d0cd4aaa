// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
)

// flow sends numbered and checked datagrams at a steady rate from one namespace
// to another, whose sum and order it takes account of.
type flow struct {
	t        *testing.T
	what     string
	from, to *net.UDPConn
	quit     chan struct{}
	sending  sync.WaitGroup
	reading  sync.WaitGroup

	mu  sync.Mutex
	sum tally
}

// tally is what became of a flow's datagrams.
type tally struct {
	sent, received        uint64
	lost                  uint64 // sent and not received
	duplicated, reordered uint64
	damaged               uint64 // received with another content
	unsent                uint64 // refused by the sender's own kernel
	longest               time.Duration
	last                  time.Time
}

func (n tally) String() string {
	return fmt.Sprintf("%d sent, %d received, %d lost, %d duplicated, %d reordered, %d damaged, %d not sent, longest gap %s",
		n.sent, n.received, n.lost, n.duplicated, n.reordered, n.damaged, n.unsent, n.longest.Round(time.Millisecond))
}

// flowSizes are the payload sizes, one after the other: the smallest, some between, and
// the largest that leaves an inner packet of 1400 bytes.
var flowSizes = []int{32, 100, 577, 1024, 1352}

// flowHeader is the magic, the number and the checksum of the rest.
const flowHeader = 16

// startFlow sends rate datagrams a second until stop.
func startFlow(t *testing.T, what string, from, to *testlab.Namespace, src, dst netip.Addr, rate int) *flow {
	t.Helper()
	f := &flow{t: t, what: what, quit: make(chan struct{})}
	open := func(ns *testlab.Namespace, at netip.Addr) (c *net.UDPConn) {
		ns.Do(func() {
			var err error
			if c, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(at, 0))); err != nil {
				t.Fatal(err)
			}
			_ = c.SetReadBuffer(4 << 20)
		})
		t.Cleanup(func() { c.Close() })
		return c
	}
	f.from, f.to = open(from, src), open(to, dst)
	f.reading.Go(f.receive)
	f.sending.Go(func() { f.send(rate) })
	return f
}

func (f *flow) send(rate int) {
	to := f.to.LocalAddr().(*net.UDPAddr).AddrPort()
	// What a slow machine misses of a tick is made up at the next.
	tick := time.NewTicker(max(5*time.Millisecond, time.Second/time.Duration(rate)))
	defer tick.Stop()
	begin, number := time.Now(), uint64(0)
	for {
		select {
		case <-f.quit:
			return
		case <-tick.C:
		}
		for due := uint64(time.Since(begin).Seconds() * float64(rate)); number < due; number++ {
			_, err := f.from.WriteToUDPAddrPort(datagram(number), to)
			f.mu.Lock()
			if f.sum.sent++; err != nil {
				f.sum.unsent++
			}
			f.mu.Unlock()
		}
	}
}

// datagram is the one of that number.
func datagram(number uint64) []byte {
	b := make([]byte, flowSizes[number%uint64(len(flowSizes))])
	copy(b, "flow")
	binary.BigEndian.PutUint64(b[4:], number)
	_, _ = pseudoRandom(byte(number)).Read(b[flowHeader:])
	binary.BigEndian.PutUint32(b[12:], crc32.ChecksumIEEE(b[flowHeader:]))
	return b
}

func (f *flow) receive() {
	buf := make([]byte, 2048)
	seen := map[uint64]bool{}
	var next uint64
	for {
		n, err := f.to.Read(buf)
		if err != nil {
			return
		}
		now := time.Now()
		f.mu.Lock()
		if !f.sum.last.IsZero() {
			f.sum.longest = max(f.sum.longest, now.Sub(f.sum.last))
		}
		f.sum.last = now
		var number uint64
		if n >= flowHeader {
			number = binary.BigEndian.Uint64(buf[4:])
		}
		switch {
		case n < flowHeader || !bytes.Equal(buf[:n], datagram(number)):
			f.sum.damaged++
		case seen[number]:
			f.sum.duplicated++
		default:
			seen[number] = true
			f.sum.received++
			if number < next {
				f.sum.reordered++
			}
			next = max(next, number+1)
		}
		f.mu.Unlock()
	}
}

// sofar is what has become of the datagrams until now; some may be on their way.
func (f *flow) sofar() tally {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sum
}

// advance waits until n more datagrams were received.
func (f *flow) advance(n uint64) {
	f.t.Helper()
	f.reach(f.sofar().received + n)
}

// reach waits until so many datagrams were received.
func (f *flow) reach(want uint64) {
	f.t.Helper()
	eventually(f.t, f.what+" goes on", func() bool { return f.sofar().received >= want })
}

// stop ends the flow, waits for what is on its way, and returns the tally.
func (f *flow) stop() tally {
	close(f.quit)
	f.sending.Wait()
	for from, last := time.Now(), uint64(0); time.Since(from) < 2*time.Second; time.Sleep(10 * time.Millisecond) {
		now := f.sofar()
		if now.received == now.sent {
			break
		}
		if now.received > last {
			from, last = time.Now(), now.received
		}
	}
	f.to.Close()
	f.from.Close()
	f.reading.Wait()
	sum := f.sofar()
	sum.lost = sum.sent - sum.received
	return sum
}

// whole stops the flow, none of whose datagrams may be missing, doubled or damaged.
func (f *flow) whole() {
	f.t.Helper()
	sum := f.stop()
	if sum.lost+sum.duplicated+sum.damaged > 0 || sum.sent == 0 {
		f.t.Errorf("%s: %s", f.what, sum)
	}
}

// flows are one in each direction between a client and the server.
func (c *client) flows(server *testlab.Namespace, rate int) (up, down *flow) {
	c.t.Helper()
	v4, _ := c.addresses()
	return startFlow(c.t, c.name+" to server", c.ns, server, v4, inner4, rate),
		startFlow(c.t, "server to "+c.name, server, c.ns, inner4, v4, rate)
}
