// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/internal/steer"
	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/aead"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/peer"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/reason"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/tun"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/udp"
)

// gateway is a namespace with an engine behind a wire, and the sender at its
// other end.
type gateway struct {
	*testing.T
	host, away *testlab.Namespace
	engine     *Engine
	conn       *udp.Conn // the gateway's
	peerConn   *udp.Conn // the peer's
	peer       *peer.Peer
	far        *remote
	pins       string
}

func newGateway(t *testing.T) *gateway {
	t.Helper()
	lab := testlab.New(t)
	g := &gateway{T: t, away: lab.Namespace("s"), host: lab.Namespace("g"), pins: t.TempDir()}
	lab.Veth(testlab.Veth{
		A:        testlab.End{Namespace: g.away, Name: "eth0", Addresses: prefixes("192.0.2.1/24")},
		B:        testlab.End{Namespace: g.host, Name: "eth0", Addresses: prefixes("192.0.2.2/24")},
		WireLike: true,
	})
	if err := unix.Mount("bpf", g.pins, "bpf", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(g.pins, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	table := peer.NewTable(false, nil)
	g.conn = listenIn(t, g.host, udp.Config{Addr: addrPort("192.0.2.2:1194"), GRO: true})
	g.peerConn = listenIn(t, g.away, udp.Config{Addr: addrPort("192.0.2.1:1194")})
	dev := openTun(t, g.host, tun.Config{Name: "tun0"}, prefixes("10.9.0.1/24"))
	g.peer = addPeer(t, table, peer.Config{ID: 5, Remote: addrPort("192.0.2.1:1194"), Prefixes: prefixes("10.9.0.2/32")})
	g.far = addKey(t, g.peer, 3, aead.AES128GCM)
	g.engine = newEngine(t, Config{Tun: dev, Conns: []*udp.Conn{g.conn}, Peers: table, Batch: 64, Prefetch: 2,
		Log: slog.New(slog.DiscardHandler), Offload: func(string, string) {}})
	return g
}

// attach steers to AF_XDP, not accepting yet.
func (g *gateway) attach(mode steer.Mode, ring int) *steer.Attachment {
	g.Helper()
	var a *steer.Attachment
	g.host.Do(func() {
		var err error
		if a, err = steer.Attach(context.Background(), steer.Options{Gateway: "gw", NIC: "eth0", Mode: mode, RingSize: ring, PinDir: g.pins}); err != nil {
			g.Fatal(err)
		}
	})
	g.Cleanup(func() { g.detach(a) })
	if err := errors.Join(a.SetListener(g.conn.Addr()),
		a.SetPeer(steer.Peer{ID: 5, Remote: addrPort("192.0.2.1:1194"), KeyIDs: 1 << 3})); err != nil {
		g.Fatal(err)
	}
	return a
}

func (g *gateway) detach(a *steer.Attachment) {
	g.Helper()
	g.host.Do(func() {
		if err := a.Close(); err != nil {
			g.Error(err)
		}
	})
}

func (g *gateway) add(a *steer.Attachment) *Rings {
	g.Helper()
	r, err := g.engine.Add("eth0", a.Rung(), a.Sockets(), a)
	if err != nil {
		g.Fatal(err)
	}
	return r
}

// numbered is inner datagram n, with a payload that can be checked.
func numbered(n uint32) []byte {
	data := text(60+int(n%7)*190, n)
	binary.BigEndian.PutUint32(data, n)
	return inner4().udp(uint16(n), data)
}

// listenInside opens a socket behind a gateway, with room for all that a test
// leaves unread.
func listenInside(t testing.TB, ns *testlab.Namespace, at netip.AddrPort) (c *net.UDPConn) {
	t.Helper()
	ns.Do(func() {
		var err error
		if c, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(at)); err != nil {
			t.Fatal(err)
		}
	})
	t.Cleanup(func() { c.Close() })
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var forced error
	if err := raw.Control(func(fd uintptr) {
		forced = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20)
	}); err != nil || forced != nil {
		t.Fatal(err, forced)
	}
	return c
}

// counted receives numbered datagrams in order and counts them; the first one
// out of order or changed ends it with an error.
func counted(c *net.UDPConn, got *atomic.Uint32, total uint32) error {
	buf := make([]byte, 2048)
	for n := range total {
		if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
			return err
		}
		size, err := c.Read(buf)
		if err != nil {
			return fmt.Errorf("datagram %d: %w", n, err)
		}
		if want := numbered(n)[28:]; string(buf[:size]) != string(want) {
			return fmt.Errorf("datagram %d is number %d, or changed", n, binary.BigEndian.Uint32(buf))
		}
		got.Store(n + 1)
	}
	return nil
}

// Records keep coming while their source changes to and fro: none is lost,
// doubled, overtaken or taken for a replay.
func TestSwitchingLosesNothing(t *testing.T) {
	for _, mode := range []steer.Mode{steer.ModeXDP, steer.ModeTC} {
		t.Run(string(mode), func(t *testing.T) { switching(newGateway(t), mode) })
	}
}

func switching(g *gateway, mode steer.Mode) {
	const switches = 6
	inside := listenInside(g, g.host, netip.AddrPortFrom(inner4().dst, inner4().dport))
	g.engine.Start()

	// The number of records is open until all the switches are made.
	var got, sent atomic.Uint32
	var stop atomic.Bool
	failed := make(chan error, 2)
	const forever = 1 << 31
	go func() {
		err := counted(inside, &got, forever)
		if stop.Load() && got.Load() == sent.Load() {
			err = nil
		}
		failed <- err
	}()
	finished := make(chan struct{})
	defer func() { // before sockets are closed, however the test ends
		stop.Store(true)
		<-finished
	}()
	go func() {
		defer close(finished)
		sender := udp.NewSender(1)
		for n := uint32(0); !stop.Load(); n++ {
			for n-got.Load() > 128 { // within all buffers and rings
				if stop.Load() {
					return
				}
				time.Sleep(20 * time.Microsecond)
			}
			run := []udp.Run{{Remote: g.conn.Addr(), Data: g.far.seal(numbered(n))}}
			if r := sender.Send(g.peerConn, run); r.Sent != 1 {
				failed <- fmt.Errorf("send: %w", run[0].Err)
				return
			}
			sent.Store(n + 1)
		}
	}()
	flowing := func(by uint32) {
		g.Helper()
		from := got.Load()
		eventually(g, "records flow", func() bool {
			select {
			case err := <-failed:
				g.Fatal(err)
			default:
			}
			return got.Load()-from >= by
		})
	}
	a := g.attach(mode, 2048)
	if a.Rung() == string(steer.ModeTC) {
		if err := g.conn.SetGRO(false); err != nil {
			g.Fatal(err)
		}
	}
	heart := make(chan struct{})
	defer close(heart)
	go func() {
		for {
			select {
			case <-heart:
				return
			case <-time.After(100 * time.Millisecond):
				_ = a.Heartbeat() // fails once detached
			}
		}
	}()
	flowing(500)
	for range switches {
		r := g.add(a)
		before := g.engine.Stats().Ring
		flowing(500)
		if g.engine.Stats().Ring == before {
			g.Fatal("nothing came by the ring")
		}
		if r.Broken() {
			g.Error("rings are said to be broken")
		}
		if err := g.engine.Remove(r, a); err != nil {
			g.Fatal(err)
		}
		before = g.engine.Stats().Socket
		flowing(500)
		if g.engine.Stats().Socket == before {
			g.Fatal("nothing came by the socket")
		}
	}
	stop.Store(true)
	<-finished
	eventually(g, "the last records", func() bool { return got.Load() == sent.Load() })
	eventually(g, "the last counters", func() bool { return g.engine.Stats().InFlight == 0 })
	s := g.engine.Stats()
	if s.InDrops != [reason.Count]uint64{} {
		g.Errorf("drops %v", s.InDrops)
	}
	if s.Delivered != uint64(sent.Load()) || s.Ring+s.Socket != s.Delivered {
		g.Errorf("%d sent, %d delivered, %d by rings, %d by the socket", sent.Load(), s.Delivered, s.Ring, s.Socket)
	}
}

// refusing is a program that does not start, and reports an error when it stops.
type refusing struct {
	Steering
	err error
}

func (r refusing) Accept(on bool) error {
	if on {
		return r.err
	}
	return errors.Join(r.Steering.Accept(false), r.err)
}

// A steering that fails leaves no worker behind, and its error is handed on.
func TestAddFails(t *testing.T) {
	g := newGateway(t)
	g.engine.Start()
	a := g.attach(steer.ModeXDP, 256)
	refused := errors.New("refused")
	if _, err := g.engine.Add("eth0", a.Rung(), a.Sockets(), refusing{a, refused}); !errors.Is(err, refused) {
		t.Errorf("error %v", err)
	}
	if n := len(g.engine.rings); n != 0 {
		t.Errorf("%d rings left", n)
	}
	r := g.add(a)
	if err := g.engine.Remove(r, refusing{a, refused}); !errors.Is(err, refused) {
		t.Errorf("error %v", err)
	}
	for _, w := range g.engine.sockets {
		if n := w.holding.Load(); n != 0 {
			t.Errorf("listener is held by %d", n)
		}
	}
}

// Closing an engine ends the workers of rings that nobody took off.
func TestCloseEndsRings(t *testing.T) {
	g := newGateway(t)
	g.engine.Start()
	a := g.attach(steer.ModeXDP, 256)
	r := g.add(a)
	g.engine.Close()
	for _, w := range r.rings {
		select {
		case <-w.done:
		default:
			t.Error("a ring's worker is still there")
		}
	}
	g.engine = nil
}
