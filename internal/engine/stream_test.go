// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/aead"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/peer"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/reason"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/record"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/tcp"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/tun"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/udp"
)

// streamChannel is a StreamControl that keeps what it is offered.
type streamChannel struct {
	refuse bool

	mu      sync.Mutex
	streams []*Stream
	packets [][]byte
	closed  []error
}

func (c *streamChannel) Packet(s *Stream, b []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.streams, s) {
		c.streams = append(c.streams, s)
	}
	c.packets = append(c.packets, bytes.Clone(b))
	return !c.refuse
}

func (c *streamChannel) Closed(_ *Stream, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = append(c.closed, why)
}

func (c *streamChannel) whys() []error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// stream waits for the control channel to know of so many streams, and returns
// the youngest.
func (c *streamChannel) stream(t testing.TB, n int) (s *Stream) {
	t.Helper()
	eventually(t, "the control channel hears of the connection", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.streams) == n {
			s = c.streams[n-1]
		}
		return s != nil
	})
	return s
}

// tcpBed is a bed with a TCP listener too.
type tcpBed struct {
	*bed
	listener *tcp.Listener
	control  *streamChannel
	count    int
}

func newTCPBed(t testing.TB, cfg tcp.Config, options ...bedOption) *tcpBed {
	t.Helper()
	b := &tcpBed{control: new(streamChannel)}
	cfg.Addr = addrPort("127.0.0.1:0")
	b.bed = newBed(t, false, append(options, func(c *Config, _ *udp.Config, _ *tun.Config) { c.StreamControl = b.control })...)
	b.ns.Do(func() {
		var err error
		if b.listener, err = tcp.Listen(cfg); err != nil {
			t.Fatal(err)
		}
	})
	// Before the engine's end, which comes first.
	t.Cleanup(func() {
		b.engine.Close()
		if err := b.listener.Close(); err != nil {
			t.Error(err)
		}
	})
	b.engine.cfg.Listeners = []*tcp.Listener{b.listener}
	b.engine.streams = append(b.engine.streams, b.engine.newStreams(b.listener))
	return b
}

// client is one TCP client: its connection, its peer and its other end.
type client struct {
	b    *tcpBed
	conn *net.TCPConn
	s    *Stream
	peer *peer.Peer
	far  *remote
}

func framed(packets ...[]byte) (b []byte) {
	for _, p := range packets {
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(p))), p...)
	}
	return b
}

// connect makes a client that has shown itself to the control channel.
func (b *tcpBed) connect() *client {
	b.t.Helper()
	c := &client{b: b}
	b.ns.Do(func() {
		conn, err := net.DialTimeout("tcp", b.listener.Addr().String(), patience)
		if err != nil {
			b.t.Fatal(err)
		}
		c.conn = conn.(*net.TCPConn)
	})
	b.t.Cleanup(func() { c.conn.Close() })
	if err := c.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		b.t.Fatal(err)
	}
	c.write(controlPacket(40))
	b.count++
	c.s = b.control.stream(b.t, b.count)
	return c
}

// join is connect with a peer.
func (b *tcpBed) join(id uint32, routes ...string) *client {
	b.t.Helper()
	c := b.connect()
	c.peer = addPeer(b.t, b.table, peer.Config{ID: id, Stream: c.s.Data(), Prefixes: prefixes(routes...)})
	c.far = addKey(b.t, c.peer, 0, aead.AES128GCM)
	c.s.SetPeer(c.peer)
	return c
}

func (c *client) write(packets ...[]byte) {
	c.b.t.Helper()
	if _, err := c.conn.Write(framed(packets...)); err != nil {
		c.b.t.Fatal(err)
	}
}

func (c *client) next() []byte {
	c.b.t.Helper()
	var length [2]byte
	if _, err := io.ReadFull(c.conn, length[:]); err != nil {
		c.b.t.Fatal(err)
	}
	p := make([]byte, binary.BigEndian.Uint16(length[:]))
	if _, err := io.ReadFull(c.conn, p); err != nil {
		c.b.t.Fatal(err)
	}
	return p
}

// wantPlain reads records and compares them as bed.wantPlain does.
func (c *client) wantPlain(first uint32, want [][]byte) {
	c.b.t.Helper()
	for i := range want {
		id, plain := c.far.open(c.b.t, c.next())
		if id != first+uint32(i) || !bytes.Equal(plain, want[i]) {
			c.b.t.Fatalf("record %d has id %d, want %d, or opens to something else", i, id, first+uint32(i))
		}
	}
}

// counted is the counters of all the listener's workers together.
func (b *tcpBed) counted() *InCounters {
	sum := new(InCounters)
	for _, w := range b.engine.streams[0].workers {
		sum.merge(w.opener.Counters)
		sum.Control.Add(w.opener.Counters.Control.Load())
		sum.CtlDrop.Add(w.opener.Counters.CtlDrop.Load())
	}
	return sum
}

// settled waits until so many records have been taken, and all have met an end.
func (b *tcpBed) settled(taken uint64) {
	b.t.Helper()
	eventually(b.t, "all records have met their end", func() bool {
		s := b.engine.Stats()
		return s.Stream == taken && s.InFlight == 0
	})
}

func TestStreamInward(t *testing.T) {
	b := newTCPBed(t, tcp.Config{Workers: 2})
	tap := b.newTap()
	b.engine.Start()
	c := b.join(5, "10.9.0.2/32")
	pkts := inner4().stream(700, 1300) // more than a burst
	var stream []byte
	for i, p := range pkts {
		stream = append(stream, framed(c.far.seal(p))...)
		if i%100 == 0 {
			stream = append(stream, framed(controlPacket(50+i), c.far.seal(record.Keepalive[:]))...)
		}
	}
	for len(stream) > 0 {
		n := min(len(stream), 9999)
		if _, err := c.conn.Write(stream[:n]); err != nil {
			t.Fatal(err)
		}
		stream = stream[n:]
	}
	tap.want(pkts...)
	b.settled(707)
	s := b.engine.Stats()
	if s.Delivered != 700 || s.Keepalive != 7 || s.Control != 8 || s.CtlDrop != 0 || s.Socket != 0 || s.Writes >= 700 {
		t.Errorf("%+v", s)
	}
	kinds := map[string]int{}
	for _, w := range s.Workers {
		kinds[w.Kind]++
	}
	if kinds["stream"] != 2 || kinds["socket"] != 1 || kinds["out"] != 1 {
		t.Errorf("workers %v", kinds)
	}
	if len(b.control.packets) != 8 || !bytes.Equal(b.control.packets[3], controlPacket(250)) {
		t.Errorf("%d control packets", len(b.control.packets))
	}
	if c.peer.Endpoint() != nil || c.peer.LastReceived.Load() == 0 || c.peer.LinkIn.Records.Load() != 707 {
		t.Errorf("endpoint %v, %d records", c.peer.Endpoint(), c.peer.LinkIn.Records.Load())
	}
}

// A connection carries the records of its own peer, and nothing else does.
func TestStreamCarriesItsPeerOnly(t *testing.T) {
	b := newTCPBed(t, tcp.Config{Workers: 1})
	tap := b.newTap()
	_, farUDP := b.peerAt(9, "10.9.0.9/32")
	udpPeer := inner4()
	udpPeer.src = addr("10.9.0.9")
	b.engine.Start()

	stranger := b.connect() // without a peer
	stranger.write(farUDP.seal(udpPeer.udp(0, text(9, 1))), controlPacket(20))
	b.settled(1)
	c, other := b.join(5, "10.9.0.2/32"), b.join(6, "10.9.0.3/32")
	good := inner4().udp(1, text(100, 1))
	undef := inner4().udp(2, text(100, 2))
	c.write(
		other.far.seal(good),
		farUDP.seal(udpPeer.udp(0, text(9, 2))),
		c.far.sealAs(record.Word(record.DataV2, 0, 77), 900, good), // nobody's
		c.far.seal(good),
		c.far.sealAs(record.Word(record.DataV2, 0, record.PeerIDUndef), 901, undef), // as a client that was told no id
		[]byte{record.DataV2 << 3, 0, 0, 5},                                         // too short
	)
	tap.want(good, undef)
	b.settled(7)
	wantDrops(t, b.counted(), drops{reason.OtherTransport: 3, reason.UnknownPeer: 1, reason.BadRecord: 1})

	// By UDP its records are refused, though they are authentic, and it does not float.
	udp.NewSender(1).Send(b.far, []udp.Run{{Remote: addrPort("127.0.0.1:1194"), Data: c.far.seal(good)}})
	in := b.engine.sockets[0].opener.Counters
	eventually(t, "the datagram is read", func() bool { return in.Fated() == 1 })
	wantDrops(t, in, drops{reason.OtherTransport: 1})
	if c.peer.Endpoint() != nil {
		t.Error("the peer floated")
	}
	// And a peer that has gone is nobody.
	if err := b.table.Remove(5, peer.ReasonUser); err != nil {
		t.Fatal(err)
	}
	c.write(c.far.seal(good))
	b.settled(8)
	if b.counted().count(reason.UnknownPeer) != 2 {
		t.Errorf("%d of unknown peers", b.counted().count(reason.UnknownPeer))
	}
}

func TestStreamOutward(t *testing.T) {
	b := newTCPBed(t, tcp.Config{})
	b.engine.streams[0].listener.Start(b.engine.streams[0])
	c := b.join(5, "10.9.0.2/32", "fd00:9::2/128")
	_, farUDP := b.peerAt(6, "10.9.0.3/32")
	o := b.out()
	data := text(40*1000+50, 1)
	o.packet(out4().super(1, 1, pshAck, data, 1000))
	o.packet(out4().super(1, 1, pshAck, data, 1000))
	o.packet(single(out4().udp(3, text(1300, 5)))) // a longer one joins the run
	o.ping(c.peer)
	o.packet(single(out6().udp(0, text(300, 6))))
	toUDP := out4()
	toUDP.dst = addr("10.9.0.3")
	o.packet(single(toUDP.udp(4, text(10, 1))))
	o.packet(single(out4().udp(5, text(10, 2))))
	if got := runs(o.area); !slices.Equal(got, []int{62, 23, 1, -1}) { // one more is above 65,507 bytes
		t.Errorf("runs of %v records", got)
	}
	b.flush()
	want := append(out4().segments(1, 1, pshAck, data, 1000), out4().segments(1, 1, pshAck, data, 1000)...)
	want = append(want, out4().udp(3, text(1300, 5)), record.Keepalive[:], out6().udp(0, text(300, 6)), out4().udp(5, text(10, 2)))
	c.wantPlain(1, want)
	b.wantPlain(farUDP, 1, [][]byte{toUDP.udp(4, text(10, 1))})
	bytes := 0
	for _, p := range want {
		bytes += len(p) + record.Overhead
	}
	if n, got := c.peer.LinkOut.Records.Load(), c.peer.LinkOut.Bytes.Load(); n != uint64(len(want)) || got != uint64(bytes) {
		t.Errorf("%d records of %d bytes sent, want %d of %d", n, got, len(want), bytes)
	}
	if c.peer.LastSent.Load() == 0 || o.c.Sends.Load() != 4 {
		t.Errorf("%d sends", o.c.Sends.Load())
	}
	wantDrops(t, o.c, nil)
	// Control packets go between the records.
	if !c.s.SendControl(controlPacket(99)) || len(c.next()) != 99 {
		t.Error("no control packet")
	}
}

// Who does not read loses records, which are counted, and costs nobody else any.
func TestStreamSlowReader(t *testing.T) {
	b := newTCPBed(t, tcp.Config{SndBuf: 65536, Queue: 100_000, Reserve: 20_000})
	b.engine.streams[0].listener.Start(b.engine.streams[0])
	slow, quick := b.join(5, "10.9.0.2/32"), b.join(6, "10.9.0.3/32")
	o := b.out()
	toQuick := out4()
	toQuick.dst = addr("10.9.0.3")
	var want [][]byte
	sent := 0
	for range 200 {
		o.packet(out4().super(1, 1, pshAck, text(40*1300, 1), 1300))
		sent += 40
		o.packet(single(toQuick.udp(uint16(sent), text(500, uint32(sent)))))
		want = append(want, toQuick.udp(uint16(sent), text(500, uint32(sent))))
		b.flush()
	}
	quick.wantPlain(1, want)
	taken := int(slow.peer.LinkOut.Records.Load())
	wantDrops(t, o.c, drops{reason.StreamFull: uint64(sent - taken)})
	if taken == 0 || taken == sent {
		t.Errorf("%d of %d records taken", taken, sent)
	}
	segments := out4().segments(1, 1, pshAck, text(40*1300, 1), 1300)
	last := uint32(0)
	for range taken {
		id, plain := slow.far.open(t, slow.next())
		if id <= last || !bytes.Equal(plain, segments[(id-1)%40]) {
			t.Fatalf("record %d behind %d", id, last)
		}
		last = id
	}
	// Closed connections take nothing.
	slow.s.Close()
	slow.conn.Close()
	eventually(t, "the end is told", func() bool { return len(b.control.whys()) == 1 })
	o.packet(single(out4().udp(0, text(9, 9))))
	b.flush()
	wantDrops(t, o.c, drops{reason.StreamFull: uint64(sent-taken) + 1})
}

func TestStreamEnds(t *testing.T) {
	b := newTCPBed(t, tcp.Config{Handshake: time.Nanosecond})
	b.engine.Start()
	c := b.connect() // never becomes a peer
	b.ns.Do(func() { // one that says nothing is not the control channel's business
		silent, err := net.DialTimeout("tcp", b.listener.Addr().String(), patience)
		if err != nil {
			t.Fatal(err)
		}
		silent.Close()
	})
	if c.s.Remote().String() != c.conn.LocalAddr().String() || c.s.Local() != b.listener.Addr() {
		t.Errorf("addresses %s and %s", c.s.Remote(), c.s.Local())
	}
	eventually(t, "the end is told", func() bool { return len(b.control.whys()) == 1 })
	if why := b.control.whys()[0]; !errors.Is(why, tcp.ErrHandshake) {
		t.Errorf("ended because of %v", why)
	}
	if c.s.SendControl(controlPacket(9)) {
		t.Error("a closed connection takes packets")
	}
	eventually(t, "all have ended", func() bool { s := b.listener.Stats(); return s.Open == 0 && s.Accepted == 2 })
	if n := len(b.control.whys()); n != 1 {
		t.Errorf("%d ends told", n)
	}
}

// Without somebody who takes them, or with one who refuses, control packets are
// counted as dropped.
func TestStreamControlDrops(t *testing.T) {
	b := newTCPBed(t, tcp.Config{})
	b.control.refuse = true
	b.engine.Start()
	b.connect()
	eventually(t, "it is counted", func() bool { return b.counted().CtlDrop.Load() == 1 })
	b = newTCPBed(t, tcp.Config{})
	b.engine.streams[0].control = nil
	b.engine.Start()
	b.ns.Do(func() {
		conn, err := net.DialTimeout("tcp", b.listener.Addr().String(), patience)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Write(framed(controlPacket(30))); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it is counted", func() bool { c := b.counted(); return c.CtlDrop.Load() == 1 && c.Control.Load() == 1 })
	})
}

// A client on TCP and one on UDP reach each other inside.
func TestStreamClientToClient(t *testing.T) {
	b := newTCPBed(t, tcp.Config{}, withPolicy(C2CInside))
	b.engine.Start()
	c := b.join(5, "10.9.0.2/32")
	_, farUDP := b.peerAt(6, "10.9.0.3/32")
	there, back := between("10.9.0.2", "10.9.0.3"), between("10.9.0.3", "10.9.0.2")
	for i := range uint32(20) {
		pkt := there.udp(uint16(i), text(700, i))
		c.write(c.far.seal(pkt))
		b.wantPlain(farUDP, i+1, [][]byte{pkt})
		pkt = back.udp(uint16(i), text(900, i))
		udp.NewSender(1).Send(b.far, []udp.Run{{Remote: addrPort("127.0.0.1:1194"), Data: farUDP.seal(pkt)}})
		c.wantPlain(i+1, [][]byte{pkt})
	}
	eventually(t, "all is counted", func() bool {
		s := b.engine.Stats()
		return s.C2C == 40 && s.C2COut == 40 && s.Stream == 20 && s.Socket == 20 && s.InFlight == 0
	})
}

func TestStreamAllocatesNothing(t *testing.T) {
	b := newTCPBed(t, tcp.Config{Workers: 2})
	b.engine.streams[0].listener.Start(b.engine.streams[0])
	c := b.join(5, "10.9.0.2/32") // served by the first worker, so that the second one is the test's
	bursts := make([][][]byte, allocRuns+1)
	for i := range bursts {
		for _, p := range inner4().stream(100, 1300) {
			bursts[i] = append(bursts[i], c.far.seal(p))
		}
	}
	read := out4().super(1, 1, pshAck, text(40*1000, 1), 1000)
	o, next := b.out(), 0
	drained := make([]byte, 40*(2+24+1040))
	if n := testing.AllocsPerRun(allocRuns, func() {
		c.s.Packets(1, bursts[next])
		next++
		o.packet(o.buf[:copy(o.buf, read)])
		o.area.sendAll(second)
		if _, err := io.ReadFull(c.conn, drained); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations per burst", n)
	}
	if s := b.engine.Stats(); s.Delivered != 100*(allocRuns+1) || c.peer.LinkOut.Records.Load() != 40*(allocRuns+1) {
		t.Errorf("%d delivered, %d sent", s.Delivered, c.peer.LinkOut.Records.Load())
	}
}
