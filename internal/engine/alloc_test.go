// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/coalesce"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/reason"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/record"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/udp"
)

// allocRuns is how often each path is measured; AllocsPerRun adds one to warm up.
const allocRuns = 20

// Records to the TUN: good ones, forged ones, keepalives and a foreign source.
func TestReceiveBurstAllocatesNothing(t *testing.T) {
	b := newBed(t, false)
	_, far := b.peerAt(5, "10.9.0.2/32")
	o, in := b.inbound()
	foreign := inner4()
	foreign.src = addr("10.9.0.9")
	bursts := make([][]coalesce.Record, allocRuns+1)
	for i := range bursts {
		var data [][]byte
		for j, p := range inner4().stream(100, 1300) {
			data = append(data, far.seal(p))
			if j%10 == 0 {
				forged := far.seal(p)
				forged[99] ^= 1
				data = append(data, forged, far.seal(record.Keepalive[:]), far.seal(foreign.udp(0, text(20, 1))))
			}
		}
		bursts[i] = taken(from("192.0.2.1:1194"), data...)
	}
	next := 0
	if n := testing.AllocsPerRun(allocRuns, func() {
		o.Burst(bursts[next], int64(next+1)*second, true)
		in.flush()
		next++
	}); n != 0 {
		t.Errorf("%v allocations per burst", n)
	}
	wantDrops(t, o.Counters, drops{reason.Auth: 10 * (allocRuns + 1), reason.SpoofedSource: 10 * (allocRuns + 1)})
	if d, w := o.Counters.Delivered.Load(), o.Counters.Writes.Load(); d != 100*(allocRuns+1) || w >= d {
		t.Errorf("%d delivered in %d writes", d, w)
	}
}

// The socket's part of it: aggregates are split, control datagrams handed on.
func TestSocketBurstAllocatesNothing(t *testing.T) {
	b := newBed(t, false)
	_, far := b.peerAt(5, "10.9.0.2/32")
	s := b.engine.sockets[0]
	sender := udp.NewSender(4)
	var runs [][]udp.Run
	for range allocRuns + 1 {
		var sealed []byte
		for _, p := range inner4().stream(40, 1300) {
			sealed = append(sealed, far.seal(p)...)
		}
		size := len(sealed) / 40
		runs = append(runs, []udp.Run{{Remote: addrPort("127.0.0.1:1194"), Data: append(sealed, controlPacket(90)...), SegmentSize: size}})
	}
	if err := b.conn.SetGRO(true); err != nil {
		t.Fatal(err)
	}
	next := 0
	if n := testing.AllocsPerRun(allocRuns, func() {
		sender.Send(b.far, runs[next])
		next++
		for found := true; found; {
			found, _ = s.receive()
		}
	}); n != 0 {
		t.Errorf("%v allocations per burst", n)
	}
	c := s.opener.Counters
	if c.Delivered.Load() != 40*(allocRuns+1) || c.CtlDrop.Load() != allocRuns+1 {
		t.Errorf("%d delivered, %d control datagrams", c.Delivered.Load(), c.CtlDrop.Load())
	}
}

// Super-packets to the wire, with a keepalive between them.
func TestSendBurstAllocatesNothing(t *testing.T) {
	b := newBed(t, false)
	p, _ := b.peerAt(5, "10.9.0.2/32")
	o := b.out()
	read := out4().super(1, 1, pshAck, text(45*1380+100, 1), 1380)
	syn := single(out4().syn(1460))
	unroutable := out4()
	unroutable.dst = addr("10.250.0.1")
	lost := single(unroutable.udp(0, text(50, 1)))
	if n := testing.AllocsPerRun(allocRuns, func() {
		// Sealing destroys what was read.
		for range 3 {
			o.packet(o.buf[:copy(o.buf, read)])
		}
		o.packet(o.buf[:copy(o.buf, syn)])
		o.packet(o.buf[:copy(o.buf, lost)])
		o.ping(p)
		o.area.sendClosed(Monotonic())
		o.area.sendAll(Monotonic())
	}); n != 0 {
		t.Errorf("%v allocations per burst", n)
	}
	wantDrops(t, o.c, drops{reason.NoRoute: allocRuns + 1})
	if got, want := p.LinkOut.Records.Load(), uint64((3*46+2)*(allocRuns+1)); got != want {
		t.Errorf("%d records sent, want %d", got, want)
	}
}
