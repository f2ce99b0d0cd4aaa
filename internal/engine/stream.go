// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"net/netip"
	"sync/atomic"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/coalesce"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/packet"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/peer"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/reason"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/record"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/tcp"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/tun/vnet"
)

// Stream is one client's TCP connection. Its methods may be called from any
// goroutine and don't block.
type Stream struct {
	conn     *tcp.Conn
	listener *streams
	flow     packet.Flow // outer
	peer     atomic.Pointer[peer.Peer]
	offered  bool // its worker's: the control channel knows of it
}

// Remote is the other end's address.
func (s *Stream) Remote() netip.AddrPort { return s.conn.Remote() }

// Local is our own address of the connection.
func (s *Stream) Local() netip.AddrPort { return s.conn.Local() }

// SendControl queues one packet, without its length, and reports whether there was
// room. It is copied.
func (s *Stream) SendControl(b []byte) bool { return s.conn.SendPacket(b) }

// Data returns what a peer on this connection has as its Stream.
func (s *Stream) Data() peer.Stream { return s.conn }

// SetPeer names the peer whose records the connection carries from now on; its
// Stream must be Data. Records of any other peer are dropped, and before the first
// call all are. The other end has authenticated by then, so that the
// connection may stay.
func (s *Stream) SetPeer(p *peer.Peer) {
	s.peer.Store(p)
	s.conn.Proven()
}

// Close ends the connection. Control packets queued before still go, for a few
// seconds. StreamControl.Closed follows.
func (s *Stream) Close() { s.conn.Close() }

// streams are the connections of one listener and the workers that open what they
// carry.
type streams struct {
	listener *tcp.Listener
	control  StreamControl
	workers  []*streamWorker
}

// streamWorker is what one of the listener's threads has for itself.
type streamWorker struct {
	opener  *Opener
	inner   *inner
	records [MaxBurst]coalesce.Record
}

func (e *Engine) newStreams(l *tcp.Listener) *streams {
	s := &streams{listener: l, control: e.cfg.StreamControl}
	for i := range l.Workers() {
		w := new(streamWorker)
		w.opener, w.inner = e.newInbound(i)
		s.workers = append(s.workers, w)
	}
	return s
}

// Opened makes the Stream of a new connection.
func (s *streams) Opened(c *tcp.Conn) tcp.Receiver {
	return &Stream{conn: c, listener: s, flow: packet.Flow{Src: c.Remote(), Dst: c.Local()}}
}

// Packets takes what one read brought, in order.
func (s *Stream) Packets(worker int, packets [][]byte) {
	w := s.listener.workers[worker]
	c := w.opener.Counters
	now := Monotonic()
	n, bytes := 0, 0
	for _, b := range packets {
		if record.Opcode(b[0]) != record.DataV2 {
			s.other(c, b)
			continue
		}
		if n == len(w.records) {
			w.process(s.peer.Load(), n, bytes, now)
			n, bytes = 0, 0
		}
		w.records[n] = coalesce.Record{Flow: s.flow, Data: b}
		n++
		bytes += len(b)
	}
	c.Bursts.Add(1)
	w.process(s.peer.Load(), n, bytes, now)
	w.inner.flush()
}

// other hands on a packet that is no DATA_V2 record.
func (s *Stream) other(c *InCounters, b []byte) {
	c.Control.Add(1)
	c.CtlBytes.Add(uint64(len(b)))
	if s.listener.control == nil {
		c.CtlDrop.Add(1)
		return
	}
	s.offered = true
	if !s.listener.control.Packet(s, b) {
		c.CtlDrop.Add(1)
	}
}

// Closed tells the control channel, if it knows of the connection.
func (s *Stream) Closed(why error) {
	if s.offered {
		s.listener.control.Closed(s, why)
	}
}

// process opens the records collected, which must be of p.
func (w *streamWorker) process(p *peer.Peer, n, bytes int, now int64) {
	if n == 0 {
		return
	}
	c := w.opener.Counters
	c.Taken.Add(uint64(n))
	c.Bytes.Add(uint64(bytes))
	if p == nil {
		c.drop(reason.OtherTransport, n)
		return
	}
	if w.inner.held()+n > vnet.Capacity {
		w.inner.flush()
	}
	w.opener.only = p
	w.opener.Burst(w.records[:n], now, false)
}
