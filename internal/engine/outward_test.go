// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/internal/netdev"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/aead"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/packet"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/peer"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/reason"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/record"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/tun"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/tun/vnet"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/udp"
)

// out4 and out6 go from this host to the peer's network.
func out4() tuple { return tuple{addr("10.9.0.1"), addr("10.9.0.2"), 5001, 40000} }
func out6() tuple { return tuple{addr("fd00:9::1"), addr("fd00:9::2"), 5001, 40000} }

const pshAck = packet.TCPPsh | 0x10

func TestSuperPacketIsSegmentedAndSealed(t *testing.T) {
	for _, f := range []tuple{out4(), out6()} {
		b := newBed(t, false)
		p, far := b.peerAt(5, "10.9.0.2/32", "fd00:9::2/128")
		data := text(30*1380+99, 7)
		b.out().packet(f.super(100, 5000, pshAck|packet.TCPFin, data, 1380))
		wantRuns(t, b.out().area, 31) // ended by the shorter record
		b.flush()
		want := f.segments(100, 5000, pshAck|packet.TCPFin, data, 1380)
		b.wantPlain(far, 1, want)
		total := 0
		for _, w := range want {
			total += len(w)
		}
		c := b.out().c
		if c.Packets.Load() != 31 || c.Bytes.Load() != uint64(total) || c.Sends.Load() != 1 {
			t.Errorf("%d packets, %d bytes in %d sends", c.Packets.Load(), c.Bytes.Load(), c.Sends.Load())
		}
		if n, bytes := p.Out.Records.Load(), p.Out.Bytes.Load(); n != 31 || bytes != uint64(total) {
			t.Errorf("peer: %d packets, %d bytes", n, bytes)
		}
		if n, bytes := p.LinkOut.Records.Load(), p.LinkOut.Bytes.Load(); n != 31 || bytes != uint64(total+31*record.Overhead) {
			t.Errorf("link: %d records, %d bytes", n, bytes)
		}
		if p.LastSent.Load() == 0 {
			t.Error("when it was sent is not known")
		}
		wantDrops(t, c, nil)
	}
}

// More than 64 segments in one super-packet.
func TestSuperPacketOfManySegments(t *testing.T) {
	b := newBed(t, false)
	_, far := b.peerAt(5, "10.9.0.2/32")
	data := text(200*100, 1)
	b.out().packet(out4().super(1, 1, pshAck, data, 100))
	wantRuns(t, b.out().area, 64, 64, 64, -8)
	b.flush()
	b.wantPlain(far, 1, out4().segments(1, 1, pshAck, data, 100))
}

// An answer to a packet that has no route is what a router says.
func TestNoRouteIsAnswered(t *testing.T) {
	b := newBed(t, false)
	tap := b.newTap()
	f, g := out4(), out6()
	f.dst, g.dst = addr("10.250.0.1"), addr("fd00:250::1")
	b.out().packet(single(f.udp(0, text(50, 1))))
	got := tap.next()[0]
	if ip, _ := packet.ParseIP(got); ip.Protocol != packet.ProtoICMP || got[20] != 3 || got[21] != 0 {
		t.Errorf("answer %x is no network unreachable", got)
	}
	if src, _ := packet.Source(got); src != addr("10.9.0.1") {
		t.Errorf("answer from %s", src)
	}
	b.out().packet(single(g.udp(0, text(50, 1))))
	got = tap.next()[0]
	if ip, _ := packet.ParseIP(got); ip.Protocol != packet.ProtoICMPv6 || got[40] != 1 || got[41] != 0 {
		t.Errorf("answer %x is no 'no route to destination'", got)
	}
	if src, _ := packet.Source(got); src != addr("fd00:9::1") {
		t.Errorf("answer from %s", src)
	}
	wantDrops(t, b.out().c, drops{reason.NoRoute: 2})
	b.flush()
	b.nothingMore()
}

// Addresses may change while the workers run.
func TestAnswersComeFromTheNewestAddress(t *testing.T) {
	b := newBed(t, false)
	tap := b.newTap()
	f := out4()
	f.dst = addr("10.250.0.1")
	b.engine.SetAddresses([]netip.Addr{addr("fd00:9::7"), addr("10.9.0.77"), addr("10.9.0.78")})
	b.out().packet(single(f.udp(0, text(50, 1))))
	if src, _ := packet.Source(tap.next()[0]); src != addr("10.9.0.77") {
		t.Errorf("answer from %s", src)
	}
}

func TestAnswersAreLimited(t *testing.T) {
	b := newBed(t, false)
	tap := b.newTap()
	f := out4()
	f.dst = addr("10.250.0.1")
	pkt := f.udp(0, text(50, 1))
	a := &b.out().answer
	for range 3 * answerRate {
		a.unreachable(b.out().reply, pkt, f.dst, 5*second)
	}
	a.unreachable(b.out().reply, pkt, f.dst, 6*second)
	a.unreachable(b.out().reply, pkt[:3], f.dst, 6*second) // nothing to quote: costs nothing
	if a.left != answerRate-1 {
		t.Errorf("%d answers left in the second second", a.left)
	}
	mark := inner4().udp(9, text(9, 9))
	if err := b.out().reply.Write([][]byte{make([]byte, vnet.HeaderLen), mark}); err != nil {
		t.Fatal(err)
	}
	answers := 0
	for !bytes.Equal(tap.next()[0], mark) {
		answers++
	}
	if answers != answerRate+1 {
		t.Errorf("%d answers, want %d", answers, answerRate+1)
	}
}

// Without an address of the family there is no answer.
func TestNoAddressNoAnswer(t *testing.T) {
	b := newBed(t, false, func(c *Config, _ *udp.Config, _ *tun.Config) { c.Answer = c.Answer[1:] })
	f := out4()
	f.dst = addr("10.250.0.1")
	b.out().packet(single(f.udp(0, text(50, 1))))
	wantDrops(t, b.out().c, drops{reason.NoRoute: 1})
	if b.out().answer.left != 0 {
		t.Error("an answer was prepared")
	}
}

func TestWhatCannotBeSealed(t *testing.T) {
	b := newBed(t, false)
	noKey := addPeer(t, b.table, peer.Config{ID: 6, Remote: b.far.Addr(), Prefixes: prefixes("10.9.0.6/32")})
	addKey2(t, noKey, 1) // sending never falls back to the secondary key
	noEnd := addPeer(t, b.table, peer.Config{ID: 7, Prefixes: prefixes("10.9.0.7/32")})
	addKey(t, noEnd, 0, aead.AES128GCM)
	v6 := addPeer(t, b.table, peer.Config{ID: 8, Remote: addrPort("[2001:db8::1]:1194"), Prefixes: prefixes("10.9.0.8/32")})
	addKey(t, v6, 0, aead.AES128GCM)
	b.peerAt(5, "10.9.0.2/32")
	to := func(dst string) tuple {
		f := out4()
		f.dst = addr(dst)
		return f
	}
	o := b.out()
	o.packet(to("10.9.0.6").super(1, 1, pshAck, text(1000, 1), 100))
	o.packet(single(to("10.9.0.6").udp(0, text(10, 1))))
	o.packet(to("10.9.0.7").super(1, 1, pshAck, text(300, 1), 100))
	o.packet(single(to("10.9.0.8").udp(0, text(10, 1)))) // no listener of that family
	o.packet(make([]byte, vnet.HeaderLen-1))
	o.packet(single([]byte{0x45, 0, 0}))
	o.packet(single(text(40, 3)))
	wrong := out4().super(1, 1, pshAck, text(1000, 1), 100)
	wrong[1] = 3 // UFO
	o.packet(wrong)
	wantDrops(t, o.c, drops{reason.NoPeerKey: 11, reason.NoEndpoint: 4, reason.BadGSO: 2, reason.BadInner: 2})
	b.flush()
	b.nothingMore()
	if o.c.Packets.Load() != 0 {
		t.Errorf("%d packets counted as sealed", o.c.Packets.Load())
	}
}

// Ids run out in the middle of a super-packet: nothing of it leaves, the key
// dies with one event, and nothing leaves afterwards.
func TestIDsRunOut(t *testing.T) {
	b := newBed(t, false)
	p := addPeer(t, b.table, peer.Config{ID: 5, Remote: b.far.Addr(), Prefixes: prefixes("10.9.0.2/32")})
	k, far := keyOf(t, 5, peer.KeyConfig{ID: 0, Cipher: aead.AES128GCM, Send: random(t, 16), Receive: random(t, 16),
		NextPacketID: 1<<32 - 5})
	if err := p.SetKey(peer.Primary, k); err != nil {
		t.Fatal(err)
	}
	o := b.out()
	o.packet(out4().super(1, 1, pshAck, text(400, 1), 100))
	o.packet(out4().super(1, 1, pshAck, text(500, 2), 100))
	o.packet(single(out4().udp(0, text(30, 3))))
	b.flush()
	b.wantPlain(far, 1<<32-5, out4().segments(1, 1, pshAck, text(400, 1), 100))
	b.nothingMore()
	wantDrops(t, o.c, drops{reason.IDExhausted: 5, reason.NoPeerKey: 1})
	events := b.events.of(peer.KeyWanted)
	if len(events) != 2 || events[0].Killed || !events[1].Killed || events[1].Reason != peer.WhyPacketID {
		t.Errorf("events %+v, want one that asks and one that tells of the end", events)
	}
}

// The kernel leaves checksums partial; a record carries a whole packet.
func TestPartialChecksumIsCompleted(t *testing.T) {
	b := newBed(t, false)
	_, far := b.peerAt(5, "10.9.0.2/32", "fd00:9::2/128")
	for i, f := range []tuple{out4(), out6()} {
		data := text(333, 4)
		read := f.super(9, 1000, pshAck, data, 1000)
		read[1] = vnet.GSONone
		b.out().packet(read)
		b.flush()
		b.wantPlain(far, uint32(i+1), [][]byte{f.tcp(9, 1000, pshAck, data)})
	}
}

func TestMSSIsClampedOutward(t *testing.T) {
	b := newBed(t, false, func(c *Config, _ *udp.Config, _ *tun.Config) { c.MSS = 1300 })
	_, far := b.peerAt(5, "10.9.0.2/32", "fd00:9::2/128")
	for i, f := range []tuple{out4(), out6()} {
		// As a local stack hands over a SYN: the checksum is partial.
		syn := f.syn(1460)
		l3 := len(syn) - 24
		pseudo := packet.PseudoSum(f.src.AsSlice(), f.dst.AsSlice(), packet.ProtoTCP, 24)
		binary.BigEndian.PutUint16(syn[l3+16:], packet.Fold(pseudo))
		read := single(syn)
		vnet.Header{Flags: vnet.NeedsCsum, CsumStart: uint16(l3), CsumOffset: 16}.Put(read)
		b.out().packet(read)
		b.flush()
		_, plain := far.open(t, b.received(1)[0].data)
		if got, want := mssOf(t, plain), uint16(1300-20*i); got != want {
			t.Errorf("MSS %d, want %d", got, want)
		}
	}
}

// Records leave from the address that the peer uses, also of a wildcard listener.
func TestLocalAddressIsPinned(t *testing.T) {
	b := newBed(t, false)
	local := addr("127.0.0.77")
	p := addPeer(t, b.table, peer.Config{ID: 5, Remote: b.far.Addr(), Local: local, Prefixes: prefixes("10.9.0.2/32")})
	far := addKey(t, p, 0, aead.AES128GCM)
	data := text(250, 1)
	b.out().packet(out4().super(1, 1, pshAck, data, 100))
	b.out().ping(p)
	b.flush()
	for _, d := range b.received(4) {
		if d.src != netip.AddrPortFrom(local, 1194) {
			t.Errorf("record came from %s", d.src)
		}
		far.open(t, d.data)
	}
}

func TestKeepalive(t *testing.T) {
	b := newBed(t, false)
	p, far := b.peerAt(5, "10.9.0.2/32")
	b.engine.Start()
	b.engine.Ping(p)
	b.wantPlain(far, 1, [][]byte{record.Keepalive[:]})
	eventually(t, "the keepalive is counted", func() bool { return p.LinkOut.Records.Load() == 1 })
	c := b.out().c
	if c.Keepalive.Load() != 1 || c.count(reason.IDExhausted) != 0 || p.Out.Records.Load() != 0 {
		t.Errorf("%d keepalives", c.Keepalive.Load())
	}
	if p.LastSent.Load() == 0 {
		t.Error("when it was sent is not known")
	}
}

// A keepalive does not wait until the TUN's queue is empty.
func TestKeepaliveComesBetweenPackets(t *testing.T) {
	b := newBed(t, false)
	p, far := b.peerAt(5, "10.9.0.2/32")
	var c net.Conn
	b.ns.Do(func() {
		var err error
		if c, err = net.Dial("udp", "10.9.0.2:9"); err != nil {
			t.Fatal(err)
		}
	})
	defer c.Close()
	for range 100 {
		if _, err := c.Write(text(500, 1)); err != nil {
			t.Fatal(err)
		}
	}
	b.engine.Ping(p)
	b.engine.Start()
	for i, d := range b.received(101) {
		id, plain := far.open(t, d.data)
		if record.IsKeepalive(plain) && id == 101 {
			t.Error("the keepalive is the last record")
		}
		if id != uint32(i+1) {
			t.Fatalf("record %d has id %d", i, id)
		}
	}
	if n := b.out().c.Keepalive.Load(); n != 1 {
		t.Errorf("%d keepalives", n)
	}
}

// A peer that is idle gets its keepalive while others keep the queue busy.
func TestKeepaliveUnderLoad(t *testing.T) {
	b := newBed(t, false)
	b.peerAt(5, "10.9.0.2/32")
	quiet := addPeer(t, b.table, peer.Config{ID: 6, Remote: addrPort("127.0.0.1:3194"), Prefixes: prefixes("10.9.0.3/32")})
	far := addKey(t, quiet, 0, aead.AES128GCM)
	apart := listenIn(t, b.ns, udp.Config{Addr: addrPort("127.0.0.1:3194")})
	var load net.Conn
	b.ns.Do(func() {
		var err error
		if load, err = net.Dial("udp", "10.9.0.2:9"); err != nil {
			t.Fatal(err)
		}
	})
	defer load.Close()
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		data := text(1300, 1)
		for !stop.Load() {
			_, _ = load.Write(data)
		}
	}()
	b.engine.Start()
	r := udp.NewReceiver(8)
	eventually(t, "traffic flows", func() bool { return b.out().c.Packets.Load() > 1000 })
	for id := uint32(1); id <= 20; id++ {
		b.engine.Ping(quiet)
		eventually(t, "keepalive of the quiet peer", func() bool {
			msgs, err := r.Recv(apart)
			if err != nil {
				return false
			}
			got, plain := far.open(t, msgs[0].Data)
			return len(msgs) == 1 && got == id && record.IsKeepalive(plain)
		})
	}
	stop.Store(true)
	<-done
}

// What the TUN holds leaves although nothing follows that would fill a run.
func TestLastRecordsDoNotWait(t *testing.T) {
	b := newBed(t, false)
	_, far := b.peerAt(5, "10.9.0.2/32")
	b.engine.Start()
	var c net.Conn
	b.ns.Do(func() {
		var err error
		if c, err = net.Dial("udp", "10.9.0.2:9"); err != nil {
			t.Fatal(err)
		}
	})
	defer c.Close()
	for i := range uint32(20) {
		data := text(700, i)
		if _, err := c.Write(data); err != nil {
			t.Fatal(err)
		}
		_, plain := far.open(t, b.received(1)[0].data)
		if !bytes.Equal(plain[28:], data) {
			t.Fatalf("packet %d differs", i)
		}
	}
}

// Two listeners of one family: the one that the peer came to answers.
func TestAnswersLeaveByTheListenerUsed(t *testing.T) {
	b := newBed(t, false)
	second := listenIn(t, b.ns, udp.Config{Addr: addrPort("127.0.0.1:1195")})
	third := listenIn(t, b.ns, udp.Config{Addr: addrPort("[::1]:1196")})
	o := b.out()
	o.conns = append(o.conns, second, third)
	for _, c := range []struct {
		end  *peer.Endpoint
		want *udp.Conn
	}{
		{nil, nil},
		{&peer.Endpoint{}, nil},
		{&peer.Endpoint{Remote: addrPort("127.0.0.1:9")}, b.conn},
		{&peer.Endpoint{Remote: addrPort("127.0.0.1:9"), Local: addrPort("127.0.0.1:1195")}, second},
		{&peer.Endpoint{Remote: addrPort("127.0.0.1:9"), Local: addrPort("127.0.0.1:1194")}, b.conn},
		{&peer.Endpoint{Remote: addrPort("127.0.0.1:9"), Local: addrPort("127.0.0.1:0")}, second},
		{&peer.Endpoint{Remote: addrPort("[::1]:9")}, third},
	} {
		if got := connFor(o.conns, c.end); got != c.want {
			t.Errorf("%+v: another listener", c.end)
		}
	}
}

// A device that is gone ends nothing but its traffic.
func TestWorkerSurvivesItsDevice(t *testing.T) {
	b := newBed(t, false)
	p, far := b.peerAt(5, "10.9.0.2/32")
	b.engine.Start()
	b.ns.Do(func() {
		if err := netdev.DeleteLink("tun0"); err != nil {
			t.Fatal(err)
		}
	})
	eventually(t, "reading fails", func() bool {
		_, err := b.dev.Queues()[0].Read(make([]byte, 100))
		return err != nil && !errors.Is(err, unix.EAGAIN)
	})
	b.engine.Ping(p)
	b.wantPlain(far, 1, [][]byte{record.Keepalive[:]})
}
