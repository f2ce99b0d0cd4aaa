// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/internal/netdev"
	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/aead"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/peer"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/tun"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/tun/vnet"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/udp"
)

// patience is how long tests wait for something that must come.
const patience = 20 * time.Second

// eventually waits until cond holds.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// bed is a namespace with a TUN, a listener and the far end's socket on
// loopback, and an engine over them that is not started.
type bed struct {
	t      testing.TB
	ns     *testlab.Namespace
	dev    *tun.Device
	conn   *udp.Conn // ours
	far    *udp.Conn // the peer's
	recv   *udp.Receiver
	events observer
	table  *peer.Table
	engine *Engine

	mu       sync.Mutex
	offloads []string // offloads that went off
}

type bedOption func(*Config, *udp.Config, *tun.Config)

func newBed(t testing.TB, p2p bool, options ...bedOption) *bed {
	t.Helper()
	b := &bed{t: t, ns: testlab.New(t).Namespace("g"), recv: udp.NewReceiver(64)}
	b.table = peer.NewTable(p2p, &b.events)
	cfg := Config{Peers: b.table, Batch: 64, Prefetch: 2, Log: slog.New(slog.DiscardHandler),
		Answer: []netip.Addr{addr("10.9.0.1"), addr("fd00:9::1")},
		Offload: func(what, _ string) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.offloads = append(b.offloads, what)
		}}
	listen := udp.Config{Addr: addrPort("0.0.0.0:1194")}
	device := tun.Config{Name: "tun0"}
	for _, o := range options {
		o(&cfg, &listen, &device)
	}
	b.dev = openTun(t, b.ns, device, prefixes("10.9.0.1/24", "fd00:9::1/64"))
	b.conn = listenIn(t, b.ns, listen)
	b.far = listenIn(t, b.ns, udp.Config{Addr: netip.AddrPortFrom(loopback(listen.Addr.Addr()), 2194)})
	cfg.Tun, cfg.Conns = b.dev, []*udp.Conn{b.conn}
	b.engine = newEngine(t, cfg)
	return b
}

func loopback(a netip.Addr) netip.Addr {
	if a.Is4() {
		return addr("127.0.0.1")
	}
	return netip.IPv6Loopback()
}

func newEngine(t testing.TB, cfg Config) *Engine {
	t.Helper()
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

func openTun(t testing.TB, ns *testlab.Namespace, cfg tun.Config, addresses []netip.Prefix) (dev *tun.Device) {
	t.Helper()
	testlab.RequireFile(t, "/dev/net/tun")
	ns.Do(func() {
		var err error
		if dev, err = tun.Open(cfg); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := dev.Close(); err != nil {
				t.Error(err)
			}
		})
		for _, a := range addresses {
			if err := netdev.AddAddress(dev.Name(), a); err != nil {
				t.Fatal(err)
			}
		}
		if err := netdev.SetMTU(dev.Name(), 1420); err != nil {
			t.Fatal(err)
		}
		if err := netdev.SetUp(dev.Name()); err != nil {
			t.Fatal(err)
		}
	})
	return dev
}

func listenIn(t testing.TB, ns *testlab.Namespace, cfg udp.Config) (c *udp.Conn) {
	t.Helper()
	ns.Do(func() {
		var err error
		if c, err = udp.Listen(cfg); err != nil {
			t.Fatal(err)
		}
	})
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// peerAt adds a peer that is reached at the far socket.
func (b *bed) peerAt(id uint32, routes ...string) (*peer.Peer, *remote) {
	b.t.Helper()
	p := addPeer(b.t, b.table, peer.Config{ID: id, Remote: b.far.Addr(), Prefixes: prefixes(routes...)})
	return p, addKey(b.t, p, 0, aead.AES128GCM)
}

// datagram is one datagram that the far end received.
type datagram struct {
	src  netip.AddrPort
	data []byte
}

// received takes n datagrams from the far socket.
func (b *bed) received(n int) (got []datagram) {
	b.t.Helper()
	for len(got) < n {
		msgs, err := b.recv.Recv(b.far)
		if errors.Is(err, unix.EAGAIN) {
			fds := []unix.PollFd{{Fd: int32(b.far.FD()), Events: unix.POLLIN}}
			if ready, err := unix.Poll(fds, int(patience.Milliseconds())); err == nil && ready == 0 {
				b.t.Fatalf("%d datagrams came, want %d", len(got), n)
			}
			continue
		}
		if err != nil {
			b.t.Fatal(err)
		}
		for _, m := range msgs {
			got = append(got, datagram{m.Src, bytes.Clone(m.Data)})
		}
	}
	if len(got) != n {
		b.t.Fatalf("%d datagrams came, want %d", len(got), n)
	}
	return got
}

// nothingMore fails the test if the far socket holds anything.
func (b *bed) nothingMore() {
	b.t.Helper()
	if msgs, err := b.recv.Recv(b.far); err == nil {
		b.t.Errorf("%d datagrams too many", len(msgs))
	}
}

// wantPlain takes datagrams and compares what they open to, and their packet
// ids, which count up from first.
func (b *bed) wantPlain(far *remote, first uint32, want [][]byte) {
	b.t.Helper()
	for i, d := range b.received(len(want)) {
		id, plain := far.open(b.t, d.data)
		if id != first+uint32(i) {
			b.t.Fatalf("record %d has id %d, want %d", i, id, first+uint32(i))
		}
		if !bytes.Equal(plain, want[i]) {
			b.t.Fatalf("record %d opens to\n%x, want\n%x", i, plain, want[i])
		}
	}
}

// out is the engine's only outward worker, to be called by the test.
func (b *bed) out() *outward { return b.engine.outward[0] }

// inbound makes an Opener that ends in the TUN.
func (b *bed) inbound() (*Opener, *inner) { return b.engine.newInbound(0) }

// flush sends what the outward worker holds.
func (b *bed) flush() { b.out().area.sendAll(Monotonic()) }

// tap sees what is written to the TUN.
type tap struct {
	t   testing.TB
	fd  int
	buf []byte
}

// newTap opens a packet socket on the TUN that keeps virtio-net headers, so that
// a super-packet is seen as it was written.
func (b *bed) newTap() *tap {
	b.t.Helper()
	p := &tap{t: b.t, buf: make([]byte, tun.MaxRead)}
	link := b.ns.Link(b.dev.Name())
	b.ns.Do(func() {
		all := int(binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, unix.ETH_P_ALL)))
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			b.t.Fatal(err)
		}
		b.t.Cleanup(func() { unix.Close(fd) })
		p.fd = fd
		if err := errors.Join(
			unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1),
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20),
			unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: int64(patience / time.Second)}),
			unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: uint16(all), Ifindex: link.Index}),
		); err != nil {
			b.t.Fatal(err)
		}
	})
	return p
}

// next returns the packets of the next write, segmented if it was a super-packet.
func (p *tap) next() (packets [][]byte) {
	p.t.Helper()
	for {
		n, from, err := unix.Recvfrom(p.fd, p.buf, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			p.t.Fatalf("no packet came from the TUN: %v", err)
		}
		if from.(*unix.SockaddrLinklayer).Pkttype == unix.PACKET_OUTGOING {
			continue
		}
		h, _ := vnet.Parse(p.buf[:n])
		pkt := p.buf[vnet.HeaderLen:n]
		var s vnet.Super
		if !s.Reset(h, pkt) {
			p.t.Fatalf("header %+v and packet of %d bytes contradict each other", h, len(pkt))
		}
		var header [vnet.MaxHeader]byte
		for i := range s.Segments() {
			head, off, length := s.Segment(i, header[:])
			packets = append(packets, append(bytes.Clone(head), pkt[off:off+length]...))
		}
		return packets
	}
}

// want takes writes until there are as many packets and compares them; it
// returns how many packets each write had.
func (p *tap) want(want ...[]byte) (writes []int) {
	p.t.Helper()
	for len(want) > 0 {
		got := p.next()
		if len(got) > len(want) {
			p.t.Fatalf("%d packets too many", len(got)-len(want))
		}
		for i := range got {
			if !bytes.Equal(got[i], want[i]) {
				p.t.Fatalf("packet %d of write %d is\n%x, want\n%x", i, len(writes), got[i], want[i])
			}
		}
		writes, want = append(writes, len(got)), want[len(got):]
	}
	return writes
}

// stream makes n TCP packets of one stream as a peer's host sends them.
func (f tuple) stream(n, size int) (pkts [][]byte) {
	for i := range n {
		pkts = append(pkts, f.tcp(uint16(i), uint32(i*size), 0x10, text(size, uint32(i))))
	}
	return pkts
}
