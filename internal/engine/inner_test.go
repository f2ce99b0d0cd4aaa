// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/internal/netdev"
	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/aead"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/peer"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/reason"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/record"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/tun"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/udp"
)

// occExit is the 17-byte message of OpenVPN's occ.c: magic and OCC_EXIT.
var occExit = []byte{0x28, 0x7f, 0x34, 0x6b, 0xd4, 0xef, 0x7a, 0x81, 0x2d, 0x56, 0xb8, 0xd3, 0xaf, 0xc5, 0x45, 0x9c, 6}

// plains are copies of packets, since the inward path changes them in place.
func plains(pkts ...[]byte) (out [][]byte) {
	for _, p := range pkts {
		out = append(out, slices.Clone(p))
	}
	return out
}

func TestSuperPacketsReachTheTun(t *testing.T) {
	b := newBed(t, false)
	p, _ := b.peerAt(5, "10.9.0.2/32", "fd00:9::2/128")
	tap := b.newTap()
	_, in := b.inbound()

	four, six := inner4().stream(40, 1380), inner6().stream(20, 1360)
	in.Opened(p, plains(four...))
	in.Opened(p, plains(six...))
	in.flush()
	if w := tap.want(append(slices.Clone(four), six...)...); !slices.Equal(w, []int{40, 20}) {
		t.Errorf("writes of %v packets, want 40 and 20", w)
	}
	c := in.c
	if d, w := c.Delivered.Load(), c.Writes.Load(); d != 60 || w != 2 {
		t.Errorf("%d packets in %d writes", d, w)
	}
	// Headers of merged packets are written once.
	if got, want := c.DelBytes.Load(), uint64(40+40*1380+60+20*1360); got != want {
		t.Errorf("%d bytes delivered, want %d", got, want)
	}
	if n, bytes := p.In.Records.Load(), p.In.Bytes.Load(); n != 60 || bytes != 40*1420+20*1420 {
		t.Errorf("peer got %d packets of %d bytes", n, bytes)
	}
	wantDrops(t, c, nil)
}

func TestWhatComesOutOfRecords(t *testing.T) {
	b := newBed(t, false)
	p, _ := b.peerAt(5, "10.9.0.2/32", "fd00:9::2/128", "10.77.0.0/16")
	b.peerAt(6, "10.77.8.0/24")
	tap := b.newTap()
	_, in := b.inbound()

	spoof := func(src string) []byte {
		f := inner4()
		if addr(src).Is6() {
			f = inner6()
		}
		f.src = addr(src)
		return f.udp(0, text(20, 1))
	}
	good := func(seed uint32) []byte { return inner4().udp(uint16(7*seed), text(30, seed)) }
	short := good(9)
	short[3]++ // longer than what came
	padded := append(good(4), 0, 0, 0)
	in.Opened(p, plains(
		good(1), spoof("10.9.0.3"), record.Keepalive[:], good(2), spoof("fd00:9::3"), spoof("10.77.8.1"), occExit,
		short, text(100, 3), []byte{0x45}, good(3), spoof("0.0.0.0"), occExit, record.Keepalive[:],
		spoof("10.77.7.1"), inner6().udp(0, text(40, 1)), padded, []byte{0x60, 0}, record.Keepalive[:15],
	))
	in.flush()
	writes := tap.want(good(1), good(2), good(3), spoof("10.77.7.1"), inner6().udp(0, text(40, 1)), padded[:len(padded)-3])
	if len(writes) != 6 {
		t.Errorf("%d writes, want 6", len(writes))
	}
	wantDrops(t, in.c, drops{reason.SpoofedSource: 4, reason.BadInner: 5, reason.OCCExit: 2})
	if d, k := in.c.Delivered.Load(), in.c.Keepalive.Load(); d != 6 || k != 2 {
		t.Errorf("%d delivered, %d keepalives", d, k)
	}
	if e := b.events.of(peer.Exited); len(e) != 1 || e[0].Peer != p {
		t.Errorf("exit events %+v, want one", e)
	}
	if fated := in.c.Fated(); fated != 19 {
		t.Errorf("%d met their end, of 19", fated)
	}
}

// A point-to-point peer may send from any address.
func TestNoSourceCheckPointToPoint(t *testing.T) {
	b := newBed(t, true)
	p := addPeer(t, b.table, peer.Config{ID: 5, Remote: b.far.Addr()})
	tap := b.newTap()
	_, in := b.inbound()
	f, g := inner4(), inner6()
	f.src, g.src = addr("203.0.113.77"), addr("2001:db8::77")
	in.Opened(p, plains(f.udp(0, text(20, 1)), g.udp(0, text(20, 2))))
	in.flush()
	tap.want(f.udp(0, text(20, 1)), g.udp(0, text(20, 2)))
	wantDrops(t, in.c, nil)
}

func TestMSSIsClampedInward(t *testing.T) {
	b := newBed(t, false, func(c *Config, _ *udp.Config, _ *tun.Config) { c.MSS = 1200 })
	p, _ := b.peerAt(5, "10.9.0.2/32", "fd00:9::2/128")
	tap := b.newTap()
	_, in := b.inbound()
	in.Opened(p, plains(inner4().syn(1460), inner6().syn(1440), inner4().syn(800)))
	in.flush()
	for i, want := range []uint16{1200, 1180, 800} {
		if got := mssOf(t, tap.next()[0]); got != want {
			t.Errorf("SYN %d: MSS %d, want %d", i, got, want)
		}
	}
}

func TestTunDownIsCounted(t *testing.T) {
	b := newBed(t, false)
	p, _ := b.peerAt(5, "10.9.0.2/32")
	_, in := b.inbound()
	b.ns.Do(func() {
		if err := netdev.SetDown("tun0"); err != nil {
			t.Fatal(err)
		}
	})
	in.Opened(p, plains(inner4().stream(10, 1000)...))
	in.Opened(p, plains(inner4().udp(0, text(20, 1))))
	in.flush()
	wantDrops(t, in.c, drops{reason.TunWrite: 11})
	if d, w := in.c.Delivered.Load(), in.c.Writes.Load(); d != 0 || w != 2 {
		t.Errorf("%d delivered in %d writes", d, w)
	}
	if tso, _, why := b.engine.offload.state(); !tso || why != "" {
		t.Errorf("a TUN that is down cost the offload: %q", why)
	}
}

// refuseLongWrites makes the kernel refuse this thread's writev calls of more
// than so many pieces with EINVAL, as it refuses super-packets that it does not
// know. A thread cannot get rid of it.
func refuseLongWrites(pieces uint32) error {
	const (
		load   = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		above  = unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K
		answer = unix.BPF_RET | unix.BPF_K
		number = 0           // offset of nr in struct seccomp_data
		third  = 16 + 2*8    // low half of args[2] on a little-endian machine
		errno  = 0x0005_0000 // SECCOMP_RET_ERRNO
		allow  = 0x7fff_0000 // SECCOMP_RET_ALLOW
	)
	filter := []unix.SockFilter{
		{Code: load, K: number},
		{Code: equal, K: unix.SYS_WRITEV, Jf: 3},
		{Code: load, K: third},
		{Code: above, K: pieces, Jf: 1},
		{Code: answer, K: errno | uint32(unix.EINVAL)},
		{Code: answer, K: allow},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
}

// onThread runs fn on a thread that ends with it.
func onThread(fn func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		fn()
	}()
	<-done
}

func TestRefusedSuperPacketIsWrittenOneByOne(t *testing.T) {
	for _, c := range []struct {
		name string
		udp  bool
	}{{"TSO", false}, {"USO", true}} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t, false)
			if c.udp {
				testlab.RequireFeature(t, "TUN with USO (kernel 6.2)", func() error {
					if !b.dev.Offload().USO {
						return unix.EINVAL
					}
					return nil
				})
			}
			p, _ := b.peerAt(5, "10.9.0.2/32")
			tap := b.newTap()
			_, in := b.inbound()
			_, second := b.inbound() // another worker of the same TUN
			pkts := inner4().stream(12, 1000)
			if c.udp {
				for i := range pkts {
					pkts[i] = inner4().udp(uint16(i), text(1000, uint32(i)))
				}
			}
			var failed error
			burst := func(in *inner) {
				in.Opened(p, plains(pkts...))
				in.flush()
			}
			onThread(func() {
				if failed = refuseLongWrites(2); failed == nil {
					burst(in)
					burst(in)     // told: writes singles at once
					burst(second) // not told yet: has to find out, says nothing
				}
			})
			if failed != nil {
				t.Fatal(failed)
			}
			for range 3 {
				for _, n := range tap.want(pkts...) {
					if n != 1 {
						t.Fatalf("a write of %d packets", n)
					}
				}
			}
			wantDrops(t, in.c, nil)
			wantDrops(t, second.c, nil)
			if d, w := in.c.Delivered.Load(), in.c.Writes.Load(); d != 24 || w != 24 {
				t.Errorf("%d delivered in %d writes", d, w)
			}
			if !slices.Equal(b.offloads, []string{c.name}) {
				t.Errorf("told %q, want %s once", b.offloads, c.name)
			}
			tso, uso, why := b.engine.offload.state()
			if tso != c.udp || (uso && c.udp) || why == "" {
				t.Errorf("TSO %v, USO %v, %q", tso, uso, why)
			}
			if has := b.dev.Offload(); has.TSO != c.udp || (has.USO && c.udp) {
				t.Errorf("device has %+v", has)
			}
		})
	}
}

// When the packets of a refused super-packet are refused as well, it was not the
// offload: it stays.
func TestRefusedSinglesLeaveTheOffloadOn(t *testing.T) {
	b := newBed(t, false)
	p, _ := b.peerAt(5, "10.9.0.2/32")
	_, in := b.inbound()
	var failed error
	onThread(func() {
		if failed = refuseLongWrites(1); failed == nil {
			in.Opened(p, plains(inner4().stream(12, 1000)...))
			in.flush()
		}
	})
	if failed != nil {
		t.Fatal(failed)
	}
	wantDrops(t, in.c, drops{reason.TunWrite: 12})
	if tso, _, _ := b.engine.offload.state(); !tso || len(b.offloads) != 0 {
		t.Errorf("TSO %v, told %q", tso, b.offloads)
	}
}

// From records to the TUN, with keepalives and foreign sources in one burst:
// each record ends in one counter.
func TestBurstToTun(t *testing.T) {
	b := newBed(t, false)
	p, far := b.peerAt(5, "10.9.0.2/32")
	q := addPeer(t, b.table, peer.Config{ID: 6, Prefixes: prefixes("10.9.0.6/32")})
	farQ := addKey(t, q, 1, aead.ChaCha20Poly1305)
	tap := b.newTap()
	o, in := b.inbound()
	pkts := inner4().stream(20, 1380)
	var burst [][]byte
	for i, pkt := range pkts {
		burst = append(burst, far.seal(pkt))
		switch i % 4 {
		case 0:
			burst = append(burst, far.seal(record.Keepalive[:]))
		case 1:
			burst = append(burst, farQ.seal(pkt)) // not its source
		case 2:
			bad := far.seal(pkt)
			bad[100] ^= 1
			burst = append(burst, bad)
		}
	}
	o.Burst(taken(from("192.0.2.1:1194"), burst...), second, true)
	in.flush()
	tap.want(pkts...)
	wantDrops(t, o.Counters, drops{reason.SpoofedSource: 5, reason.Auth: 5})
	c := o.Counters
	if c.Delivered.Load() != 20 || c.Keepalive.Load() != 5 || c.Fated() != uint64(len(burst)) {
		t.Errorf("delivered %d, keepalives %d, %d fates for %d records", c.Delivered.Load(), c.Keepalive.Load(), c.Fated(), len(burst))
	}
	if n := p.In.Records.Load(); n != 20 {
		t.Errorf("peer's packets: %d", n)
	}
}
