// SPDX-License-Identifier: Apache-2.0

package tun_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/poll"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/tun"
)

// Numbers of the virtio-net header.
const (
	headerLen = 10
	needsCsum = 1
	gsoNone   = 0
	gsoTCP4   = 1
	gsoTCP6   = 4
	gsoUDPL4  = 5
	gsoECN    = 0x80
)

// plain is the header of a packet with a complete checksum.
var plain [headerLen]byte

// udp4 is a UDP packet without a UDP checksum, which IPv4 allows.
func udp4(src, dst string, sport, dport uint16, payload []byte) []byte {
	b := make([]byte, 28+len(payload))
	b[0], b[8], b[9] = 0x45, 64, unix.IPPROTO_UDP
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	s, d := netip.MustParseAddr(src).As4(), netip.MustParseAddr(dst).As4()
	copy(b[12:], s[:])
	copy(b[16:], d[:])
	sum := uint32(0)
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(b[10:], ^uint16(sum))
	binary.BigEndian.PutUint16(b[20:], sport)
	binary.BigEndian.PutUint16(b[22:], dport)
	binary.BigEndian.PutUint16(b[24:], uint16(8+len(payload)))
	copy(b[28:], payload)
	return b
}

// sendUDP sends from a fresh socket, and so from a fresh port.
func sendUDP(t *testing.T, ns *testlab.Namespace, to string, payload []byte) {
	t.Helper()
	ns.Do(func() {
		c, err := net.Dial("udp", net.JoinHostPort(to, "7"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write(payload); err != nil {
			t.Fatal(err)
		}
	})
}

// read waits for one read.
func read(t *testing.T, q *tun.Queue, buf []byte) []byte {
	t.Helper()
	for {
		n, err := q.Read(buf)
		if err == nil {
			return buf[:n]
		}
		if err != unix.EAGAIN {
			t.Fatal(err)
		}
		fds := []unix.PollFd{{Fd: int32(q.FD()), Events: unix.POLLIN}}
		if n, err := unix.Poll(fds, 10_000); err == nil && n == 0 {
			t.Fatal("nothing to read")
		}
	}
}

func listenUDP(t *testing.T, ns *testlab.Namespace, addr string) net.PacketConn {
	t.Helper()
	var c net.PacketConn
	ns.Do(func() {
		var err error
		if c, err = net.ListenPacket("udp", addr); err != nil {
			t.Fatal(err)
		}
	})
	t.Cleanup(func() { c.Close() })
	return c
}

func TestPacketsComeAndGo(t *testing.T) {
	ns := testlab.New(t).Namespace("x")
	d := open(t, ns, tun.Config{Name: "tun0"}, "10.9.0.1/24")
	buf := make([]byte, tun.MaxRead)
	if _, err := d.Queues()[0].Read(buf); err != unix.EAGAIN {
		t.Errorf("empty queue: %v, want EAGAIN", err)
	}
	payload := []byte("from the kernel")
	sendUDP(t, ns, "10.9.0.2", payload)
	got := read(t, d.Queues()[0], buf)
	if len(got) != headerLen+28+len(payload) || got[headerLen] != 0x45 || !bytes.Equal(got[headerLen+28:], payload) {
		t.Fatalf("read % x", got)
	}
	if got[0] != needsCsum || got[1] != gsoNone ||
		binary.LittleEndian.Uint16(got[6:]) != 20 || binary.LittleEndian.Uint16(got[8:]) != 6 {
		t.Errorf("header % x, want a UDP checksum to complete", got[:headerLen])
	}

	server := listenUDP(t, ns, "10.9.0.1:2000")
	w := d.NewWriter(0)
	packet := udp4("10.9.0.2", "10.9.0.1", 1000, 2000, []byte("to the kernel"))
	in := make([]byte, 100)
	for _, pieces := range [][][]byte{
		{plain[:], packet},
		{append(plain[:], packet...)},
		{plain[:4], nil, plain[4:], packet[:1], packet[1:29], {}, packet[29:]},
	} {
		if err := w.Write(pieces); err != nil {
			t.Fatal(err)
		}
		server.SetReadDeadline(time.Now().Add(10 * time.Second))
		n, from, err := server.ReadFrom(in)
		if err != nil || string(in[:n]) != "to the kernel" || from.String() != "10.9.0.2:1000" {
			t.Errorf("%q from %v, %v", in[:n], from, err)
		}
	}
	if err := w.Write(make([][]byte, tun.MaxPieces+1)); !errors.Is(err, tun.ErrPieces) {
		t.Errorf("too many pieces: %v", err)
	}
	bad := plain
	bad[0], bad[1] = needsCsum, 0x7f
	if err := w.Write([][]byte{bad[:], packet}); err != unix.EINVAL {
		t.Errorf("unknown GSO type: %v, want EINVAL", err)
	}
}

func TestAsManyPiecesAsAllowed(t *testing.T) {
	ns := testlab.New(t).Namespace("x")
	d := open(t, ns, tun.Config{Name: "tun0"}, "10.9.0.1/24")
	server := listenUDP(t, ns, "10.9.0.1:2000")
	payload := make([]byte, tun.MaxPieces-2)
	for i := range payload {
		payload[i] = byte(i)
	}
	packet := udp4("10.9.0.2", "10.9.0.1", 1000, 2000, payload)
	pieces := [][]byte{plain[:], packet[:28]}
	for i := range payload {
		pieces = append(pieces, packet[28+i:29+i])
	}
	if err := d.NewWriter(0).Write(pieces); err != nil {
		t.Fatal(err)
	}
	in := make([]byte, 2000)
	server.SetReadDeadline(time.Now().Add(10 * time.Second))
	if n, _, err := server.ReadFrom(in); err != nil || !bytes.Equal(in[:n], payload) {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// tunnel joins two devices: what is read from one is written to the other,
// header and all, cut into pieces.
type tunnel struct {
	longest atomic.Int64      // bytes of the longest packet
	kinds   [256]atomic.Int64 // packets by GSO type
	partial atomic.Int64      // packets whose checksum is to be completed
}

func (tt *tunnel) start(t *testing.T, a, b *tun.Device) {
	t.Helper()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var pollers []*poll.Poller
	for _, dir := range [][2]*tun.Device{{a, b}, {b, a}} {
		for i, q := range dir[0].Queues() {
			p, err := poll.New()
			if err != nil {
				t.Fatal(err)
			}
			pollers = append(pollers, p)
			w := dir[1].NewWriter(i % len(dir[1].Queues()))
			wg.Go(func() { tt.copy(t, q, w, p, stop) })
		}
	}
	t.Cleanup(func() {
		close(stop)
		for _, p := range pollers {
			p.Wake()
		}
		wg.Wait()
		for _, p := range pollers {
			p.Close()
		}
	})
}

func (tt *tunnel) copy(t *testing.T, q *tun.Queue, w *tun.Writer, p *poll.Poller, stop chan struct{}) {
	buf := make([]byte, tun.MaxRead)
	for {
		select {
		case <-stop:
			return
		default:
		}
		n, err := q.Read(buf)
		if err == unix.EAGAIN {
			p.Wait(q.FD(), unix.POLLIN, 1000)
			continue
		}
		if err != nil {
			t.Errorf("read: %v", err)
			return
		}
		if l := int64(n - headerLen); l > tt.longest.Load() {
			tt.longest.Store(l)
		}
		tt.kinds[buf[1]&^gsoECN].Add(1)
		if buf[0]&needsCsum != 0 {
			tt.partial.Add(1)
		}
		if err := w.Write([][]byte{buf[:headerLen], buf[headerLen:min(50, n)], buf[min(50, n):n]}); err != nil {
			t.Errorf("write of % x: %v", buf[:headerLen], err)
			return
		}
	}
}

// transfer sends the bytes over TCP from a to b and compares them.
func transfer(t *testing.T, a, b *testlab.Namespace, addr string) {
	t.Helper()
	var listener net.Listener
	b.Do(func() {
		var err error
		if listener, err = net.Listen("tcp", addr); err != nil {
			t.Fatal(err)
		}
	})
	defer listener.Close()
	want := make([]byte, 4<<20)
	random := rand.NewChaCha8([32]byte{1})
	random.Read(want)
	sent := make(chan error, 1)
	var client net.Conn
	a.Do(func() {
		var err error
		if client, err = net.DialTimeout("tcp", addr, 10*time.Second); err != nil {
			t.Fatal(err)
		}
	})
	go func() {
		_, err := client.Write(want)
		sent <- errors.Join(err, client.Close())
	}()
	server, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	server.SetReadDeadline(time.Now().Add(30 * time.Second))
	got, err := io.ReadAll(server)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes came, want %d, or they differ", len(got), len(want))
	}
}

func TestSuperPacketsThroughTwoDevices(t *testing.T) {
	for _, c := range []struct {
		name        string
		a, b        string
		addr        string
		kind        int
		noOffload   bool
		queues      int
		disableLate bool
	}{
		{name: "tcp4", a: "10.9.0.1/24", b: "10.9.0.2/24", addr: "10.9.0.2:5001", kind: gsoTCP4, queues: 1},
		{name: "tcp6", a: "fd00:9::1/64", b: "fd00:9::2/64", addr: "[fd00:9::2]:5001", kind: gsoTCP6, queues: 2},
		{name: "none", a: "10.9.0.1/24", b: "10.9.0.2/24", addr: "10.9.0.2:5001", noOffload: true, queues: 1},
		{name: "late", a: "10.9.0.1/24", b: "10.9.0.2/24", addr: "10.9.0.2:5001", disableLate: true, queues: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			lab := testlab.New(t)
			na, nb := lab.Namespace("a"), lab.Namespace("b")
			cfg := tun.Config{Name: "tun0", Queues: c.queues, NoOffload: c.noOffload}
			da, db := open(t, na, cfg, c.a), open(t, nb, cfg, c.b)
			if c.disableLate {
				for _, d := range []*tun.Device{da, db} {
					if err := d.DisableOffload(tun.Offload{TSO: true, USO: true}); err != nil {
						t.Fatal(err)
					}
				}
			}
			off := c.noOffload || c.disableLate
			if o := da.Offload(); o.TSO == off || off && o.USO {
				t.Errorf("offload %+v", o)
			}
			var tt tunnel
			tt.start(t, da, db)
			transfer(t, na, nb, c.addr)
			transfer(t, nb, na, netip.AddrPortFrom(netip.MustParsePrefix(c.a).Addr(), 5001).String())
			if off {
				if l, n := tt.longest.Load(), tt.partial.Load(); l > 1500 || n != 0 {
					t.Errorf("longest packet %d, %d partial checksums", l, n)
				}
				return
			}
			if l, n := tt.longest.Load(), tt.kinds[c.kind].Load(); l <= 1500 || n == 0 {
				t.Errorf("longest packet %d, %d super-packets", l, n)
			}
		})
	}
}

func TestUDPSuperPackets(t *testing.T) {
	lab := testlab.New(t)
	na, nb := lab.Namespace("a"), lab.Namespace("b")
	da := open(t, na, tun.Config{Name: "tun0"}, "10.9.0.1/24")
	db := open(t, nb, tun.Config{Name: "tun0"}, "10.9.0.2/24")
	server := listenUDP(t, nb, "10.9.0.2:2000")
	var tt tunnel
	tt.start(t, da, db)
	payload := make([]byte, 20*1000+1)
	rand.NewChaCha8([32]byte{2}).Read(payload)
	na.Do(func() {
		c, err := net.Dial("udp", "10.9.0.2:2000")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		raw, err := c.(*net.UDPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_SEGMENT, 1000) })
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write(payload); err != nil {
			t.Fatal(err)
		}
	})
	var got []byte
	in := make([]byte, 2000)
	for i := range 21 {
		server.SetReadDeadline(time.Now().Add(10 * time.Second))
		n, _, err := server.ReadFrom(in)
		if err != nil {
			t.Fatal(err)
		}
		if want := []int{1000, 1}[i/20]; n != want {
			t.Fatalf("datagram %d of %d bytes, want %d", i, n, want)
		}
		got = append(got, in[:n]...)
	}
	if !bytes.Equal(got, payload) {
		t.Error("bytes differ")
	}
	// Where the kernel offers USO the datagrams came as one, else as 21.
	if n := tt.kinds[gsoUDPL4].Load(); (n == 1) != da.Offload().USO {
		t.Errorf("%d UDP super-packets, offload %+v", n, da.Offload())
	}
}

func TestWritersOfOneQueue(t *testing.T) {
	ns := testlab.New(t).Namespace("x")
	d := open(t, ns, tun.Config{Name: "tun0"}, "10.9.0.1/24")
	server := listenUDP(t, ns, "10.9.0.1:2000")
	const writers, each = 4, 25
	var wg sync.WaitGroup
	for i := range writers {
		w := d.NewWriter(0)
		packet := udp4("10.9.0.2", "10.9.0.1", uint16(1000+i), 2000, bytes.Repeat([]byte{byte(i)}, 100))
		wg.Go(func() {
			for range each {
				if err := w.Write([][]byte{plain[:], packet[:40], packet[40:]}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	var count [writers]int
	in := make([]byte, 200)
	for range writers * each {
		server.SetReadDeadline(time.Now().Add(10 * time.Second))
		n, from, err := server.ReadFrom(in)
		if err != nil {
			t.Fatal(err)
		}
		i := from.(*net.UDPAddr).Port - 1000
		if n != 100 || !bytes.Equal(in[:n], bytes.Repeat([]byte{byte(i)}, 100)) {
			t.Fatalf("writer %d: % x", i, in[:n])
		}
		count[i]++
	}
	if count != [writers]int{each, each, each, each} {
		t.Errorf("packets by writer: %v", count)
	}
}

func TestAllocations(t *testing.T) {
	ns := testlab.New(t).Namespace("x")
	d := open(t, ns, tun.Config{Name: "tun0"}, "10.9.0.1/24")
	w, q := d.NewWriter(0), d.Queues()[0]
	// An echo request, which the kernel answers from within the write.
	packet := udp4("10.9.0.2", "10.9.0.1", 0x0800, 0, []byte("12345678"))
	packet[9] = unix.IPPROTO_ICMP
	sum := uint32(0)
	packet[10], packet[11] = 0, 0
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(packet[i:]))
	}
	binary.BigEndian.PutUint16(packet[10:], ^uint16(sum>>16+sum&0xffff))
	packet[24], packet[25] = 0, 0
	sum = 0
	for i := 20; i < len(packet); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(packet[i:]))
	}
	binary.BigEndian.PutUint16(packet[22:], ^uint16(sum>>16+sum&0xffff))
	pieces := [][]byte{plain[:], packet[:20], packet[20:]}
	buf := make([]byte, tun.MaxRead)
	if n := testing.AllocsPerRun(100, func() {
		if err := w.Write(pieces); err != nil {
			t.Fatal(err)
		}
		for {
			_, err := q.Read(buf)
			if err == nil {
				break
			}
			if err != unix.EAGAIN {
				t.Fatal(err)
			}
		}
		if _, err := q.Read(buf); err != unix.EAGAIN {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
