// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"crypto/sha256"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
)

// stream sends an injector's good records at an even pace until stopped.
type stream struct {
	x    *injector
	conn *net.UDPConn
	quit chan struct{}
	done sync.WaitGroup
	err  error
}

// perTick records leave every millisecond, which is 8,000 a second.
const perTick = 8

func (x *injector) stream(t *testing.T, d *bed) *stream {
	t.Helper()
	return x.streamOf(t, d, perTick)
}

// streamOf sends that many records every millisecond. What a tick was too late
// for is not made up for, since a burst would show nothing but the size of rings.
func (x *injector) streamOf(t *testing.T, d *bed, perTick int) *stream {
	t.Helper()
	s := &stream{x: x, conn: listenUDP(t, d.b, x.src), quit: make(chan struct{})}
	s.done.Go(func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-s.quit:
				return
			case <-tick.C:
			}
			for range perTick {
				if _, err := s.conn.WriteToUDPAddrPort(x.good(), x.dst); err != nil {
					s.err = err
					return
				}
			}
		}
	})
	return s
}

// stop ends the stream and returns how many records it sent.
func (s *stream) stop(t *testing.T) uint64 {
	t.Helper()
	close(s.quit)
	s.done.Wait()
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.x.number
}

// pacedTCP sends bytes at an even pace until stopped, so that nothing but the
// path under test can lose a segment.
type pacedTCP struct {
	from, to *net.TCPConn
	quit     chan struct{}
	results  chan error
}

func newPacedTCP(t *testing.T, from, to *testlab.Namespace, src, dst netip.Addr) *pacedTCP {
	t.Helper()
	l := listenTCP(t, to, netip.AddrPortFrom(dst, 0))
	p := &pacedTCP{from: dialTCP(t, from, src, l.Addr().(*net.TCPAddr).AddrPort()), quit: make(chan struct{}), results: make(chan error, 2)}
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	p.to = conn.(*net.TCPConn)
	t.Cleanup(func() { p.to.Close() })
	sent, got := sha256.New(), sha256.New()
	received := make(chan error, 1)
	go func() {
		_, err := io.Copy(got, p.to)
		received <- err
	}()
	go func() {
		source, chunk := pseudoRandom(3), make([]byte, 8<<10)
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-p.quit:
				_ = p.from.CloseWrite()
				err := <-received
				if err == nil && !bytes.Equal(sent.Sum(nil), got.Sum(nil)) {
					err = io.ErrUnexpectedEOF
				}
				p.results <- err
				return
			case <-tick.C:
			}
			_, _ = io.ReadFull(source, chunk)
			if _, err := p.from.Write(chunk); err != nil {
				p.results <- err
				return
			}
			_, _ = sent.Write(chunk)
		}
	}()
	return p
}

// stop ends the transfer and returns how many segments were sent again.
func (p *pacedTCP) stop(t *testing.T) uint32 {
	t.Helper()
	close(p.quit)
	if err := <-p.results; err != nil {
		t.Errorf("TCP through the tunnel: %v", err)
	}
	return retransmissions(t, p.from)
}

// tcpTrouble says which of the kernel's recovery mechanisms ran in a namespace.
func tcpTrouble(t *testing.T, ns *testlab.Namespace) (text string) {
	t.Helper()
	lines := strings.Split(ns.Output("cat", "/proc/net/netstat"), "\n")
	for i := 0; i+1 < len(lines); i += 2 {
		names, values := strings.Fields(lines[i]), strings.Fields(lines[i+1])
		for j := 1; j < len(names) && j < len(values); j++ {
			for _, part := range []string{"Loss", "Retrans", "Reorder", "DSACK", "Timeout", "Spurious"} {
				if values[j] != "0" && strings.Contains(names[j], part) {
					text += " " + names[j] + "=" + values[j]
				}
			}
		}
	}
	return text
}

// TestAttachDetach moves a gateway onto a NIC's fast path and off it 20
// times under load. Every numbered record arrives once, and TCP sends nothing twice.
func TestAttachDetach(t *testing.T) {
	long(t)
	for _, modes := range [][]string{{"xdp"}, {"tc"}, {"xdp-generic"}, {"xdp", "tc"}} {
		name := modes[0]
		if len(modes) > 1 {
			name = "alternating"
		}
		t.Run(name, func(t *testing.T) {
			d := newBed(t, testlab.Veth{WireLike: true, Queues: 2})
			// A tail loss probe goes out when two round trips and 8 ms pass without
			// an answer: here that shows only that the processors were busy.
			d.b.Sysctl("net.ipv4.tcp_early_retrans", "0")
			a, b := d.runA(modes[0]).start(), d.runB("socket").start()
			d.connect(a, b, tunnel{id: 1})
			to := newSink(t, d.a, netip.AddrPortFrom(innerA4, sinkPort))
			x := d.inject(a, 7, outerB4, netip.MustParseAddr("10.9.0.7"), to)
			tcp := newPacedTCP(t, d.b, d.a, innerB4, innerA4)
			records := x.stream(t, d)
			eventually(t, "records delivered", func() bool { return to.total.Load() > 100 })
			for i := range 20 {
				a.do("detach", "eth0")
				seen := to.total.Load()
				eventually(t, "records by socket", func() bool { return to.total.Load() > seen+50 })
				a.do("attach", "eth0", "--mode", modes[i%len(modes)])
				seen = to.total.Load()
				eventually(t, "records by the rung", func() bool { return to.total.Load() > seen+50 })
			}
			sent := records.stop(t)
			to.exactly(t, 0, sent)
			if again := tcp.stop(t); again != 0 {
				t.Errorf("%d TCP segments were retransmitted:%s", again, tcpTrouble(t, d.b))
			}
			s := a.settled()
			in := &s.Totals.In
			for reason, n := range s.Totals.Drops {
				if n > 0 && reason != "no_route" {
					t.Errorf("%d records dropped: %s", n, reason)
				}
			}
			var byRings uint64
			for _, mode := range modes {
				byRings += in.Rungs[mode].Records
			}
			if in.Steered == 0 || in.Socket == 0 || in.Rungs["socket"].Records != in.Socket || byRings != in.Steered {
				t.Errorf("both ways were to be used, and rungs to add up: %+v", in)
			}
			if p := a.peer("7"); p.In.Records != sent || p.LinkIn.Records != sent || p.Keys[0].HighestReceived != uint32(sent) {
				t.Errorf("sent %d records, the peer has %+v", sent, p)
			}
			a.stop()
			b.stop()
		})
	}
}

// TestAttachDetachUnderLoad does the same at a rate that keeps the workers
// busy: 40,000 records a second, about half of what two processors can manage
// with sender, gateway and receiver on them. No ring may run full meanwhile.
func TestAttachDetachUnderLoad(t *testing.T) {
	long(t)
	for _, rung := range []string{"xdp", "tc"} {
		t.Run(rung, func(t *testing.T) {
			d := newBed(t, testlab.Veth{WireLike: true, Queues: 2})
			g := d.runA(rung).start()
			to := newSink(t, d.a, netip.AddrPortFrom(innerA4, sinkPort))
			x := d.inject(g, 7, outerB4, innerB4, to)
			const loadPerTick, cycles, between = 40, 10, 2000
			started := time.Now()
			records := x.streamOf(t, d, loadPerTick)
			passes := func(what string) {
				t.Helper()
				seen := to.total.Load()
				eventually(t, what, func() bool { return to.total.Load() > seen+between })
			}
			for range cycles {
				passes("records by the rung")
				g.do("detach", "eth0")
				passes("records by socket")
				g.do("attach", "eth0", "--mode", rung)
			}
			passes("records by the rung again")
			sent := records.stop(t)
			t.Logf("%d records in %s", sent, time.Since(started).Round(time.Millisecond))
			to.exactly(t, 0, sent)
			s := g.settled()
			in := &s.Totals.In
			if in.Delivered != sent || len(in.Drops) > 0 || s.Totals.Drops["ring_full"] != 0 || in.Steered == 0 || in.Socket == 0 {
				t.Errorf("sent %d records: %+v", sent, in)
			}
			for _, r := range g.nic(s, "eth0").Rings {
				if r.RingFull+r.FillEmpty+r.Dropped > 0 {
					t.Errorf("ring %+v", r)
				}
			}
			g.stop()
		})
	}
}
