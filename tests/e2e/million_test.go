// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
)

// spread sends IPv4 to the first and IPv6 to the second transmit queue of
// eth0, and so to those receive queues of the other end. The kernel would
// choose by a hash, which may put both on one.
func spread(t *testing.T, ns *testlab.Namespace) {
	t.Helper()
	const queueMapping = 12 // offset in struct __sk_buff; holds the queue's number plus one
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "spread", Type: ebpf.SchedCLS, License: "GPL",
		Instructions: asm.Instructions{
			asm.Mov.Reg(asm.R6, asm.R1),
			asm.LoadAbs(12, asm.Half),
			asm.Mov.Imm(asm.R1, 1),
			asm.JNE.Imm(asm.R0, unix.ETH_P_IPV6, "store"),
			asm.Mov.Imm(asm.R1, 2),
			asm.StoreMem(asm.R6, queueMapping, asm.R1, asm.Word).WithSymbol("store"),
			asm.Mov.Imm(asm.R0, -1),
			asm.Return(),
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ns.Do(func() {
		l, err := link.AttachTCX(link.TCXOptions{Program: p, Interface: ns.Link("eth0").Index, Attach: ebpf.AttachTCXEgress})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
	})
}

// flow carries numbered payloads from one namespace to another and never has
// more than a window of them on the way, so that no queue can overflow.
type flow struct {
	name     string
	from, to *net.UDPConn
	dst      netip.AddrPort
	records  uint64

	mu      sync.Mutex
	changed *sync.Cond
	arrived uint64
	failed  error
}

// window is less than any ring or socket buffer on the way holds.
const window = 256

func newFlow(t *testing.T, name string, from, to *testlab.Namespace, src, dst netip.Addr, records uint64) *flow {
	t.Helper()
	f := &flow{name: name, from: listenUDP(t, from, netip.AddrPortFrom(src, 0)), to: listenUDP(t, to, netip.AddrPortFrom(dst, 0)), records: records}
	f.dst = f.to.LocalAddr().(*net.UDPAddr).AddrPort()
	f.changed = sync.NewCond(&f.mu)
	return f
}

// size of a payload follows from its number: 32 to 1,055 bytes. A few have
// equal sizes in sequence, so that super-packets form.
func size(number uint64) int { return 32 + int(number/16*37%1024) }

func (f *flow) send() error {
	for n := uint64(0); n < f.records; {
		// Those of equal size go to the kernel as one message that it may
		// hand to the TUN whole.
		k := min(16-n%16, f.records-n)
		f.mu.Lock()
		for n+k > f.arrived+window && f.failed == nil {
			f.changed.Wait()
		}
		err := f.failed
		f.mu.Unlock()
		if err != nil {
			return err
		}
		var message []byte
		for i := range k {
			message = append(message, numbered(n+i, size(n))...)
		}
		if _, _, err := f.from.WriteMsgUDPAddrPort(message, segmentMessage(size(n)), f.dst); err != nil {
			return fmt.Errorf("%s: send: %w", f.name, err)
		}
		n += k
	}
	return nil
}

// receive checks every payload: its bytes, its size and its place.
func (f *flow) receive() error {
	buf := make([]byte, 1<<16)
	err := func() error {
		for want := uint64(0); want < f.records; want++ {
			_ = f.to.SetReadDeadline(time.Now().Add(limit))
			n, err := f.to.Read(buf)
			if err != nil {
				return fmt.Errorf("%s: waiting for payload %d: %w", f.name, want, err)
			}
			if number, ok := intact(buf[:n]); !ok || number != want || n != size(want) {
				return fmt.Errorf("%s: got payload %d of %d bytes, intact %v, want %d", f.name, number, n, ok, want)
			}
			f.mu.Lock()
			f.arrived++
			f.mu.Unlock()
			f.changed.Signal()
		}
		return nil
	}()
	f.mu.Lock()
	f.failed = err
	f.mu.Unlock()
	f.changed.Signal()
	return err
}

// TestMillionRecords sends a million records with checked payloads over two
// queues and in both directions. With -race the gateways have the race detector too.
func TestMillionRecords(t *testing.T) {
	long(t)
	const each = 250_000
	d := newBed(t, testlab.Veth{WireLike: true, Queues: 2})
	spread(t, d.a)
	spread(t, d.b)
	a, b := d.runA("xdp").start(), d.runB("xdp").start()
	d.connect(a, b, tunnel{id: 1, remoteA: outerA4, remoteB: outerB4, routesA: []string{innerB4.String()}, routesB: []string{innerA4.String()}})
	d.connect(a, b, tunnel{id: 2, remoteA: outerA6, remoteB: outerB6, cipher: "CHACHA20-POLY1305",
		routesA: []string{innerB6.String()}, routesB: []string{innerA6.String()}})
	flows := []*flow{
		newFlow(t, "A to B, IPv4", d.a, d.b, innerA4, innerB4, each),
		newFlow(t, "B to A, IPv4", d.b, d.a, innerB4, innerA4, each),
		newFlow(t, "A to B, IPv6", d.a, d.b, innerA6, innerB6, each),
		newFlow(t, "B to A, IPv6", d.b, d.a, innerB6, innerA6, each),
	}
	errs := make(chan error, 2*len(flows))
	for _, f := range flows {
		go func() { errs <- f.send() }()
		go func() { errs <- f.receive() }()
	}
	seen := map[string]bool{}
	for range 2 * len(flows) {
		if err := <-errs; err != nil && !seen[err.Error()] {
			seen[err.Error()] = true
			t.Error(err)
		}
	}
	for _, g := range []*gateway{a, b} {
		s := g.settled()
		if s.Totals.In.Delivered < 2*each || s.Totals.Out.Packets < 2*each {
			t.Errorf("%s: delivered %d, sent %d, want %d each", g.name, s.Totals.In.Delivered, s.Totals.Out.Packets, 2*each)
		}
		rings := g.nic(s, "eth0").Rings
		if len(rings) != 2 {
			t.Fatalf("%s: rings %+v", g.name, rings)
		}
		for _, r := range rings {
			if r.Received < each/2 {
				t.Errorf("%s: queue %d received %d records, want about half", g.name, r.Queue, r.Received)
			}
		}
		for reason, n := range s.Totals.Drops {
			if n > 0 && reason != "no_route" && reason != "no_peer_key" {
				t.Errorf("%s: %d dropped: %s", g.name, n, reason)
			}
		}
		g.stop()
	}
}
