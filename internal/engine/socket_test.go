// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/aead"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/peer"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/reason"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/record"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/tun"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/udp"
)

// channel is a Control that keeps datagrams, up to so many.
type channel struct {
	mu            sync.Mutex
	room          int
	kept          [][]byte
	remote, local netip.AddrPort
}

func (c *channel) Datagram(remote, local netip.AddrPort, b []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.kept) == c.room {
		return false
	}
	c.kept = append(c.kept, bytes.Clone(b))
	c.remote, c.local = remote, local
	return true
}

func (c *channel) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.kept)
}

func withControl(c Control) bedOption {
	return func(cfg *Config, _ *udp.Config, _ *tun.Config) { cfg.Control = c }
}

// message is an aggregate as a receiver hands it over: with room behind it.
func message(segment int, datagrams ...[]byte) udp.Message {
	data := slices.Concat(datagrams...)
	return udp.Message{Src: addrPort("192.0.2.1:1194"), Dst: addrPort("192.0.2.2:1194"),
		Data: extend(data, 0), SegmentSize: segment}
}

// deliver is what a worker does with what its receive calls returned.
func deliver(s *socket, calls ...[]udp.Message) {
	for _, msgs := range calls {
		s.open(msgs)
	}
	s.inner.flush()
}

func controlPacket(n int) []byte {
	b := text(n, 77)
	b[0] = record.ControlV1 << 3
	return b
}

func never() bool { return false }

func TestAggregateIsSplitAndEachSegmentClassified(t *testing.T) {
	control := &channel{room: 100}
	b := newBed(t, false, withControl(control))
	_, far := b.peerAt(5, "10.9.0.2/32")
	tap := b.newTap()
	s := b.engine.sockets[0]
	pkts := inner4().stream(5, 1000)
	var sealed [][]byte
	for _, p := range pkts {
		sealed = append(sealed, far.seal(p))
	}
	size := len(sealed[0])
	same := controlPacket(size) // as long as the records around it
	last := controlPacket(60)   // shorter, at the end: the kernel merges that too
	deliver(s, []udp.Message{
		message(size, sealed[0], same, sealed[1], sealed[2], last),
		message(0, sealed[3]),
		message(0),                               // empty datagram
		message(size, sealed[4], sealed[4][:20]), // ends in a stump
		message(0, []byte{record.DataV1<<3 | 1, 2, 3}),
		message(2000, controlPacket(30)), // one datagram shorter than its segment size
	})
	tap.want(pkts...)
	want := [][]byte{same, last, {}, {record.DataV1<<3 | 1, 2, 3}, controlPacket(30)}
	if !slices.EqualFunc(control.kept, want, bytes.Equal) {
		t.Errorf("control channel got %x", control.kept)
	}
	if control.remote != addrPort("192.0.2.1:1194") || control.local != addrPort("192.0.2.2:1194") {
		t.Errorf("from %s to %s", control.remote, control.local)
	}
	c := s.opener.Counters
	wantDrops(t, c, drops{reason.BadRecord: 1})
	if c.Taken.Load() != 6 || c.Fated() != 6 || c.Bytes.Load() != uint64(5*size+20) || c.Bursts.Load() != 1 {
		t.Errorf("taken %d, fates %d, bytes %d, bursts %d", c.Taken.Load(), c.Fated(), c.Bytes.Load(), c.Bursts.Load())
	}
	if c.Control.Load() != 5 || c.CtlDrop.Load() != 0 || c.CtlBytes.Load() != uint64(size+60+3+30) {
		t.Errorf("control: %d, %d bytes, %d dropped", c.Control.Load(), c.CtlBytes.Load(), c.CtlDrop.Load())
	}
}

// What the control channel does not take is dropped, counted, and costs no record.
func TestControlChannelIsBounded(t *testing.T) {
	for _, room := range []int{-1, 3} {
		var control Control
		kept := &channel{room: room}
		if room >= 0 {
			control = kept
		}
		b := newBed(t, false, withControl(control))
		_, far := b.peerAt(5, "10.9.0.2/32")
		s := b.engine.sockets[0]
		var msgs []udp.Message
		for range 8 {
			msgs = append(msgs, message(0, controlPacket(50)))
		}
		msgs = append(msgs, message(0, far.seal(inner4().udp(0, text(40, 1)))))
		deliver(s, msgs)
		c := s.opener.Counters
		took := max(room, 0)
		if c.Control.Load() != 8 || c.CtlDrop.Load() != uint64(8-took) || kept.count() != took {
			t.Errorf("room %d: %d datagrams, %d dropped, %d kept", room, c.Control.Load(), c.CtlDrop.Load(), kept.count())
		}
		if c.Delivered.Load() != 1 {
			t.Error("the record was not delivered")
		}
	}
}

// A sender on this host can make aggregates of more than 64 segments (128 with
// kernels from 6.9), and receive calls that carry more than is merged at once.
func TestLongAggregates(t *testing.T) {
	b := newBed(t, false)
	_, far := b.peerAt(5, "10.9.0.2/32")
	tap := b.newTap()
	s := b.engine.sockets[0]
	pkts := inner4().stream(socketCalls*socketMessages*128, 20)
	var calls [][]udp.Message
	for i := 0; i < len(pkts); i += 128 {
		var sealed [][]byte
		for _, p := range pkts[i : i+128] {
			sealed = append(sealed, far.seal(p))
		}
		if i%(socketMessages*128) == 0 {
			calls = append(calls, nil)
		}
		last := len(calls) - 1
		calls[last] = append(calls[last], message(len(sealed[0]), sealed...))
	}
	if len(calls) != socketCalls {
		t.Fatalf("%d calls", len(calls))
	}
	deliver(s, calls...)
	tap.want(pkts...)
	wantDrops(t, s.opener.Counters, nil)
	if n := s.opener.Counters.Delivered.Load(); n != uint64(len(pkts)) {
		t.Errorf("%d delivered, want %d", n, len(pkts))
	}
}

// A run whose last datagram belongs to the control channel arrives as one
// aggregate of the kernel's.
func TestKernelAggregateWithControl(t *testing.T) {
	control := &channel{room: 100}
	b := newBed(t, false, withControl(control), func(_ *Config, u *udp.Config, _ *tun.Config) { u.GRO = true })
	_, far := b.peerAt(5, "10.9.0.2/32")
	tap := b.newTap()
	pkts := inner4().stream(20, 1000)
	var sealed [][]byte
	for _, p := range pkts {
		sealed = append(sealed, far.seal(p))
	}
	size := len(sealed[0])
	run := udp.Run{Remote: addrPort("127.0.0.1:1194"), Data: slices.Concat(append(sealed, controlPacket(100))...), SegmentSize: size}
	if r := udp.NewSender(1).Send(b.far, []udp.Run{run}); r.Sent != 21 || r.Calls != 1 {
		t.Fatalf("sent %+v", r)
	}
	b.engine.Start()
	tap.want(pkts...)
	eventually(t, "control datagram", func() bool { return control.count() == 1 })
	if !bytes.Equal(control.kept[0], controlPacket(100)) || control.local != addrPort("127.0.0.1:1194") {
		t.Errorf("got %x at %s", control.kept[0], control.local)
	}
	if n := b.engine.sockets[0].opener.Counters.Batches.Load(); n != 1 {
		t.Errorf("%d batches: the kernel did not aggregate", n)
	}
}

// Aggregates that wait when UDP_GRO is switched off come whole and without their
// segment size.
func TestAggregatesAfterGROIsOff(t *testing.T) {
	b := newBed(t, false, func(_ *Config, u *udp.Config, _ *tun.Config) { u.GRO = true })
	_, far := b.peerAt(5, "10.9.0.2/32")
	tap := b.newTap()
	pkts := inner4().stream(90, 1000)
	sender := udp.NewSender(1)
	for i := 0; i < len(pkts); i += 30 {
		var sealed []byte
		for _, p := range pkts[i : i+30] {
			sealed = append(sealed, far.seal(p)...)
		}
		run := udp.Run{Remote: addrPort("127.0.0.1:1194"), Data: sealed, SegmentSize: len(sealed) / 30}
		if r := sender.Send(b.far, []udp.Run{run}); r.Sent != 30 {
			t.Fatalf("sent %+v", r)
		}
	}
	if err := b.conn.SetGRO(false); err != nil {
		t.Fatal(err)
	}
	b.engine.Start()
	tap.want(pkts...)
	eventually(t, "all counted", func() bool { return b.engine.Stats().Delivered == 90 })
	wantDrops(t, b.engine.sockets[0].opener.Counters, nil)
}

// While records are held back, control datagrams go on, and release keeps the order.
func TestHoldAndRelease(t *testing.T) {
	control := &channel{room: 100}
	b := newBed(t, false, withControl(control))
	_, far := b.peerAt(5, "10.9.0.2/32")
	tap := b.newTap()
	s := b.engine.sockets[0]
	c := s.opener.Counters
	pkts := inner4().stream(1200, 100)
	s.hold(true)
	s.hold(true) // two NICs are switching
	for i := 0; i < len(pkts); i += 60 {
		var msgs []udp.Message
		for _, p := range pkts[i : i+60] {
			msgs = append(msgs, message(0, far.seal(p)))
		}
		deliver(s, append(msgs, message(0, controlPacket(30))))
		clear(msgs[0].Data) // the receive buffer is used again
	}
	if c.Taken.Load() != 1200 || c.Fated() != 0 || s.held.empty() {
		t.Fatalf("%d taken, %d at their end", c.Taken.Load(), c.Fated())
	}
	if control.count() != 20 {
		t.Errorf("%d control datagrams passed, want 20", control.count())
	}
	s.hold(false)
	deliver(s, []udp.Message{message(0, controlPacket(30))})
	if c.Fated() != 0 {
		t.Error("released while somebody still holds")
	}
	s.hold(false)
	// The next record comes first to the worker and must leave last.
	last := inner4().tcp(1200, 1200*100, 0x10, text(100, 1200))
	deliver(s, []udp.Message{message(0, far.seal(last))})
	tap.want(append(pkts, last)...)
	wantDrops(t, c, nil)
	if c.Delivered.Load() != 1201 || !s.held.empty() {
		t.Errorf("%d delivered", c.Delivered.Load())
	}
}

// Holding back ends at its bounds, and what comes then is not held again.
func TestHoldIsBounded(t *testing.T) {
	t.Run("time", func(t *testing.T) {
		b := newBed(t, false)
		_, far := b.peerAt(5, "10.9.0.2/32")
		s := b.engine.sockets[0]
		c := s.opener.Counters
		ping := func() udp.Message { return message(0, far.seal(record.Keepalive[:])) }
		s.hold(true)
		deliver(s, []udp.Message{ping(), ping()})
		if c.Fated() != 0 {
			t.Fatal("not held")
		}
		s.held.since -= heldTime + 1
		deliver(s, []udp.Message{ping()})
		deliver(s, []udp.Message{ping()})
		if c.Keepalive.Load() != 4 || !s.held.empty() {
			t.Errorf("%d of 4 released", c.Keepalive.Load())
		}
		s.hold(false)
	})
	t.Run("time, with nothing more coming", func(t *testing.T) {
		b := newBed(t, false)
		_, far := b.peerAt(5, "10.9.0.2/32")
		s := b.engine.sockets[0]
		s.hold(true)
		b.engine.Start()
		run := udp.Run{Remote: addrPort("127.0.0.1:1194"), Data: far.seal(record.Keepalive[:])}
		udp.NewSender(1).Send(b.far, []udp.Run{run})
		eventually(t, "release", func() bool { return s.opener.Counters.Keepalive.Load() == 1 })
		s.hold(false)
	})
	t.Run("bytes", func(t *testing.T) {
		var h heldRecords
		burst := taken(from("192.0.2.1:1194"), make([]byte, 65000))
		kept := 0
		for ; h.keep(burst, second); kept++ {
			if kept > 2*heldBytes/65000 {
				t.Fatal("no bound")
			}
		}
		if h.bytes <= heldBytes || h.bytes > heldBytes+65000 {
			t.Errorf("%d bytes held, the bound is %d", h.bytes, heldBytes)
		}
		n := 0
		for r := h.next(100); len(r) > 0; r = h.next(100) {
			for _, one := range r {
				if cap(one.Data)-len(one.Data) < record.TagLen {
					t.Fatal("no room behind a record")
				}
			}
			n += len(r)
		}
		if n != kept {
			t.Errorf("%d records came back, of %d", n, kept)
		}
		if h.reset(); !h.empty() || h.bytes != 0 {
			t.Error("reset leaves something")
		}
	})
	t.Run("since the first", func(t *testing.T) {
		var h heldRecords
		burst := taken(from("192.0.2.1:1194"), make([]byte, 50))
		if !h.keep(burst, second) || !h.keep(burst, second+heldTime) || h.keep(burst, second+heldTime+1) {
			t.Error("the bound is not heldTime from the first record on")
		}
	})
}

func TestEmptied(t *testing.T) {
	b := newBed(t, false)
	_, far := b.peerAt(5, "10.9.0.2/32")
	s := b.engine.sockets[0]
	if s.emptied(5*time.Millisecond, never) {
		t.Error("found empty by a worker that does not run")
	}
	var runs []udp.Run
	for range 64 {
		runs = append(runs, udp.Run{Remote: addrPort("127.0.0.1:1194"), Data: far.seal(record.Keepalive[:])})
	}
	if r := udp.NewSender(64).Send(b.far, runs); r.Sent != 64 {
		t.Fatalf("sent %+v", r)
	}
	b.engine.Start()
	if !s.emptied(patience, never) {
		t.Fatal("never found empty")
	}
	if n := s.opener.Counters.Keepalive.Load(); n != 64 {
		t.Errorf("found empty with %d of 64 records read", n)
	}
}

// Other threads read the counters while the workers run; they add up afterwards.
func TestStatsAddUp(t *testing.T) {
	b := newBed(t, false)
	p, far := b.peerAt(5, "10.9.0.2/32")
	q := addPeer(t, b.table, peer.Config{ID: 6, Prefixes: prefixes("10.9.0.6/32")})
	farQ := addKey(t, q, 0, aead.AES128GCM)
	b.engine.Start()
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for last := uint64(0); !stop.Load(); {
			s := b.engine.Stats()
			if s.Delivered < last {
				t.Errorf("delivered fell from %d to %d", last, s.Delivered)
			}
			last = s.Delivered
			time.Sleep(100 * time.Microsecond)
		}
	}()
	defer func() {
		stop.Store(true)
		<-done
	}()
	sender := udp.NewSender(64)
	for round := range uint64(10) {
		var runs []udp.Run
		for i := range uint32(60) {
			b := far.seal(inner4().udp(uint16(i), text(200, i)))
			switch i % 6 {
			case 0:
				b = far.seal(record.Keepalive[:])
			case 1:
				b[40] ^= 1
			case 2:
				b = farQ.seal(inner4().udp(0, text(10, 1)))
			case 3:
				b = controlPacket(40)
			}
			runs = append(runs, udp.Run{Remote: addrPort("127.0.0.1:1194"), Data: b})
		}
		if r := sender.Send(b.far, runs); r.Sent != 60 {
			t.Fatalf("sent %+v", r)
		}
		eventually(t, "all have met their end", func() bool {
			s := b.engine.Stats()
			return s.InFlight == 0 && s.Socket+s.Control == 60*(round+1)
		})
	}
	s := b.engine.Stats()
	if s.Socket != 500 || s.Ring != 0 || s.Keepalive != 100 || s.Delivered != 200 || s.Control != 100 || s.CtlDrop != 100 ||
		s.InDrops[reason.Auth] != 100 || s.InDrops[reason.SpoofedSource] != 100 {
		t.Errorf("%+v", s)
	}
	if p.In.Records.Load() != 200 || q.In.Records.Load() != 0 || q.LinkIn.Records.Load() != 100 {
		t.Errorf("peers: %d and %d packets", p.In.Records.Load(), q.In.Records.Load())
	}
	kinds := map[string]int{}
	for _, w := range s.Workers {
		kinds[w.Kind]++
		if w.Kind == "socket" && w.Records != 500 {
			t.Errorf("worker took %d records", w.Records)
		}
	}
	if kinds["socket"] != 1 || kinds["out"] != 1 || len(kinds) != 2 {
		t.Errorf("workers %v", kinds)
	}
}
