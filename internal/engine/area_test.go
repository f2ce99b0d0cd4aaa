// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/internal/netdev"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/aead"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/peer"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/reason"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/tun"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/udp"
)

// runs tells the area's runs by their number of records; the last is negative
// while it can still grow.
func runs(a *area) (n []int) {
	for i := range a.runs {
		k := a.info[i].records
		if a.info[i].open {
			k = -k
		}
		n = append(n, k)
	}
	return n
}

func wantRuns(t *testing.T, a *area, want ...int) {
	t.Helper()
	if got := runs(a); !slices.Equal(got, want) {
		t.Errorf("runs of %v records, want %v", got, want)
	}
	for _, r := range a.runs {
		if len(r.Data) > udp.MaxRunBytes || (len(r.Data)+r.SegmentSize-1)/r.SegmentSize > udp.MaxSegments {
			t.Errorf("run of %d bytes in segments of %d breaks the limits of a send", len(r.Data), r.SegmentSize)
		}
	}
}

func TestRunsSpanSuperPackets(t *testing.T) {
	b := newBed(t, false)
	_, far := b.peerAt(5, "10.9.0.2/32")
	o, f := b.out(), out4()
	var want [][]byte
	step := func(n, size int) {
		data := text(n*size, uint32(len(want)))
		o.packet(f.super(1, uint32(len(want)), pshAck, data, size))
		want = append(want, f.segments(1, uint32(len(want)), pshAck, data, size)...)
	}
	step(30, 100)
	wantRuns(t, o.area, -30)
	step(30, 100)
	wantRuns(t, o.area, -60)
	step(10, 100) // 64 segments
	wantRuns(t, o.area, 64, -6)
	step(1, 40) // a shorter one ends it
	wantRuns(t, o.area, 64, 7)
	step(20, 1000) // 24+40+1000: 61 of them are within 65,507 bytes
	wantRuns(t, o.area, 64, 7, -20)
	step(41, 1000)
	wantRuns(t, o.area, 64, 7, 61)
	step(1, 1000)
	step(1, 1001) // a longer one begins anew
	wantRuns(t, o.area, 64, 7, 61, 1, -1)
	b.flush()
	wantRuns(t, o.area)
	b.wantPlain(far, 1, want)
}

// Runs that are complete can leave while the last one waits, and it goes on growing.
func TestOpenRunStaysBehind(t *testing.T) {
	b := newBed(t, false)
	_, far := b.peerAt(5, "10.9.0.2/32")
	o, f := b.out(), out4()
	data := text(70*1000, 1)[:60*1000]
	want := append(f.segments(1, 0, pshAck, data, 1000), f.segments(1, 0, pshAck, data, 1000)...)
	o.packet(f.super(1, 0, pshAck, data, 1000))
	if o.area.eager() {
		t.Error("an open run alone is no reason to send")
	}
	o.area.sendClosed(second)
	wantRuns(t, o.area, -60)
	o.packet(f.super(1, 0, pshAck, data, 1000))
	wantRuns(t, o.area, 61, -59)
	if !o.area.eager() {
		t.Error("65 KB wait and are not sent")
	}
	o.area.sendClosed(second)
	wantRuns(t, o.area, -59)
	b.wantPlain(far, 1, want[:61])
	b.nothingMore()
	o.packet(f.super(1, 0, pshAck, data[:2000], 1000))
	want = append(want, f.segments(1, 0, pshAck, data[:2000], 1000)...)
	wantRuns(t, o.area, 61)
	o.area.sendClosed(second)
	wantRuns(t, o.area)
	b.wantPlain(far, 62, want[61:])
}

func TestAnotherPeerOrEndpointEndsARun(t *testing.T) {
	b := newBed(t, false)
	p, far := b.peerAt(5, "10.9.0.2/32")
	q, farQ := b.peerAt(6, "10.9.0.3/32")
	o := b.out()
	f, g := out4(), out4()
	g.dst = addr("10.9.0.3")
	pkts := f.segments(1, 1, pshAck, text(500, 1), 100)
	other := g.segments(1, 1, pshAck, text(500, 2), 100)
	o.packet(single(pkts[0]))
	o.packet(single(other[0]))
	o.packet(single(pkts[1]))
	wantRuns(t, o.area, 1, 1, -1)
	// The same address anew is another endpoint object: one more run, no harm.
	remote := b.far.Addr()
	if _, err := b.table.Set(5, peer.Change{Remote: &remote}, 1); err != nil {
		t.Fatal(err)
	}
	o.packet(single(pkts[2]))
	wantRuns(t, o.area, 1, 1, 1, -1)
	b.flush()
	for i, d := range b.received(4) {
		who, id, want := far, uint32(1), pkts[0]
		switch i {
		case 1:
			who, want = farQ, other[0]
		case 2, 3:
			id, want = uint32(i), pkts[i-1]
		}
		if got, plain := who.open(t, d.data); got != id || !bytes.Equal(plain, want) {
			t.Errorf("datagram %d: id %d, want %d, or its text differs", i, got, id)
		}
	}
	if p.LinkOut.Records.Load() != 3 || q.LinkOut.Records.Load() != 1 {
		t.Errorf("records out: %d and %d", p.LinkOut.Records.Load(), q.LinkOut.Records.Load())
	}
}

// A super-packet that overflows the area in its middle, by bytes and by runs.
func TestAreaOverflows(t *testing.T) {
	t.Run("bytes", func(t *testing.T) {
		b := newBed(t, false)
		_, far := b.peerAt(5, "10.9.0.2/32")
		var want [][]byte
		// The area holds 181 of these records, so it is full once within the
		// first ones of a super-packet and once within the last ones.
		for i, n := range []int{46, 46, 46, 38, 46, 46, 46, 46, 46} {
			data := text(n*1380, uint32(i))
			b.out().packet(out4().super(1, 1, pshAck, data, 1380))
			want = append(want, out4().segments(1, 1, pshAck, data, 1380)...)
		}
		if b.out().c.Sends.Load() == 0 {
			t.Fatal("nothing was sent: the area did not overflow")
		}
		b.flush()
		b.wantPlain(far, 1, want)
	})
	t.Run("runs", func(t *testing.T) {
		b := newBed(t, false)
		b.peerAt(5, "10.9.0.2/32")
		b.peerAt(6, "10.9.0.3/32")
		f, g := out4(), out4()
		g.dst = addr("10.9.0.3")
		for range areaRuns {
			b.out().packet(single(f.tcp(1, 1, pshAck, text(50, 1))))
			b.out().packet(single(g.tcp(1, 1, pshAck, text(50, 1))))
		}
		b.flush()
		b.received(2 * areaRuns)
		wantDrops(t, b.out().c, nil)
	})
}

// With batch 1 each record is sent by itself.
func TestBatchOfOneMakesRunsOfOne(t *testing.T) {
	b := newBed(t, false, func(c *Config, _ *udp.Config, _ *tun.Config) { c.Batch = 1 })
	_, far := b.peerAt(5, "10.9.0.2/32")
	data := text(500, 1)
	b.out().packet(out4().super(1, 1, pshAck, data, 100))
	wantRuns(t, b.out().area, 1) // the others have been sent
	b.flush()
	b.wantPlain(far, 1, out4().segments(1, 1, pshAck, data, 100))
}

// What the path does not take is counted by its cause, and burns its ids: the
// next record goes on with the id behind them.
func TestFailedSends(t *testing.T) {
	t.Run("message_size", func(t *testing.T) {
		b := newBed(t, false)
		p, far := b.peerAt(5, "10.9.0.2/32")
		b.ns.Do(func() {
			if err := netdev.SetMTU("lo", 1280); err != nil {
				t.Fatal(err)
			}
		})
		if err := unix.SetsockoptInt(b.conn.FD(), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO); err != nil {
			t.Fatal(err)
		}
		b.out().packet(out4().super(1, 1, pshAck, text(5*1380, 1), 1380))
		b.flush()
		wantDrops(t, b.out().c, drops{reason.MessageSize: 5})
		if p.LinkOut.Records.Load() != 0 {
			t.Error("counted as sent")
		}
		pkt := out4().udp(0, text(100, 1))
		b.out().packet(single(pkt))
		b.flush()
		b.wantPlain(far, 6, [][]byte{pkt})
		if !b.conn.GSO() {
			t.Error("segmentation offload was switched off")
		}
	})
	t.Run("send_error", func(t *testing.T) {
		b := newBed(t, false)
		p := addPeer(t, b.table, peer.Config{ID: 5, Remote: addrPort("203.0.113.1:1194"), Prefixes: prefixes("10.9.0.2/32")})
		addKey(t, p, 0, aead.AES128GCM)
		b.out().packet(out4().super(1, 1, pshAck, text(500, 1), 100))
		b.flush()
		wantDrops(t, b.out().c, drops{reason.SendError: 5})
		if p.LastSent.Load() != 0 {
			t.Error("a failed send counts as a sign of life")
		}
	})
	t.Run("only the run that fails", func(t *testing.T) {
		b := newBed(t, false)
		p := addPeer(t, b.table, peer.Config{ID: 6, Remote: addrPort("203.0.113.1:1194"), Prefixes: prefixes("10.9.0.3/32")})
		addKey(t, p, 0, aead.AES128GCM)
		_, far := b.peerAt(5, "10.9.0.2/32")
		lost := out4()
		lost.dst = addr("10.9.0.3")
		pkt := out4().udp(0, text(100, 1))
		b.out().packet(single(pkt))
		b.out().packet(lost.super(1, 1, pshAck, text(300, 1), 100))
		b.out().packet(single(pkt))
		b.flush()
		b.wantPlain(far, 1, [][]byte{pkt, pkt})
		wantDrops(t, b.out().c, drops{reason.SendError: 3})
	})
}
