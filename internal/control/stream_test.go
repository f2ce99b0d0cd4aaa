// SPDX-License-Identifier: Apache-2.0

package control

import (
	"crypto/rand"
	"errors"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/session"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/peer"
)

// stream is a client's TCP connection, without one.
type stream struct {
	client *dialler // nil: nobody reads
	at     netip.AddrPort
	peer   atomic.Pointer[peer.Peer]
	full   atomic.Bool // the client reads nothing
	closed atomic.Bool
}

func (s *stream) Remote() netip.AddrPort { return s.at }
func (s *stream) Local() netip.AddrPort  { return local }
func (s *stream) Data() peer.Stream      { return s }
func (s *stream) SendFrames([]byte) int  { return 0 }
func (s *stream) SetPeer(p *peer.Peer)   { s.peer.Store(p) }
func (s *stream) Close()                 { s.closed.Store(true) }

func (s *stream) SendControl(packet []byte) bool {
	if s.full.Load() {
		return false
	}
	if s.client != nil {
		select {
		case s.client.in <- slices.Clone(packet):
		default:
		}
	}
	return true
}

// connect starts a client over TCP.
func (b *bed) connect(at netip.AddrPort, p profile) *dialler {
	p.stream = &stream{at: at}
	return b.dial(at, p)
}

func TestStream(t *testing.T) {
	b := newBed(t)
	c := b.connect(address(1), named("alice"))
	p := b.peer(c.up())
	if p == nil || p.Endpoint() != nil || c.stream.peer.Load() != p {
		t.Fatalf("peer %+v, the stream's %+v", p, c.stream.peer.Load())
	}
	if r := b.svc.Report(); len(r.Clients) != 1 || !r.Clients[0].TCP {
		t.Errorf("report %+v", r.Clients)
	}
	c.session(func(s *session.Session) { s.Renegotiate(time.Now()) })
	b.eventually("renegotiated", func() bool { k := p.PrimaryKey(); return k != nil && k.ID == 1 })
	b.svc.Closed(c.stream, errors.New("connection reset"))
	b.eventually("the peer is gone with its connection", func() bool { all, _ := b.sessions(); return all == 0 && b.peers.Len() == 0 })
	if !c.stream.closed.Load() {
		t.Error("our end of the connection is still open")
	}
	// A new connection from the same port is another session.
	b.connect(address(1), named("alice")).up()
}

// TestStreamOfSlowReader is ended instead of waited for.
func TestStreamOfSlowReader(t *testing.T) {
	b := newBed(t)
	c := b.connect(address(1), named("alice"))
	c.up()
	c.stream.full.Store(true)
	c.session(func(s *session.Session) { s.Renegotiate(time.Now()) })
	b.eventually("the session has ended", func() bool { return c.stream.closed.Load() && b.peers.Len() == 0 })
}

// TestStreamOfStranger is closed at its first packet unless that is a reset.
func TestStreamOfStranger(t *testing.T) {
	b := newBed(t)
	ack := reset(1)
	ack[0] = 5 << 3
	for _, first := range [][]byte{nil, {1}, ack, make([]byte, 3000), make([]byte, 2*maxDatagram)} {
		s := &stream{at: address(1)}
		if b.svc.Packet(s, first) || !s.closed.Load() {
			t.Errorf("a connection that begins with %d bytes is open", len(first))
		}
	}
	if all, _ := b.sessions(); all != 0 {
		t.Errorf("%d sessions", all)
	}
}

// TestHalfOpenStreams of one address are bounded, and those beyond are closed.
func TestHalfOpenStreams(t *testing.T) {
	b := newBed(t)
	open := 0
	for port := range halfOpenPerPrefix + 10 {
		s := &stream{at: netip.AddrPortFrom(netip.MustParseAddr("203.0.113.1"), uint16(port)+1)}
		d := reset(0)
		_, _ = rand.Read(d[1:9])
		b.svc.Packet(s, d)
		if !s.closed.Load() {
			open++
		}
	}
	if _, half := b.sessions(); open != halfOpenPerPrefix || half != halfOpenPerPrefix {
		t.Errorf("%d connections are open, %d sessions half-open, want %d", open, half, halfOpenPerPrefix)
	}
	b.connect(address(1), named("alice")).up()
}
