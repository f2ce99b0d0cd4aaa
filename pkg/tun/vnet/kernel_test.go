// SPDX-License-Identifier: Apache-2.0

package vnet

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
)

const (
	tsoOffloads = unix.TUN_F_CSUM | unix.TUN_F_TSO4 | unix.TUN_F_TSO6
	usoOffloads = unix.TUN_F_USO4 | unix.TUN_F_USO6
)

// openTUN makes a TUN device with virtio-net headers in ns and says whether it
// takes USO. Without offloads the kernel hands out single packets only.
func openTUN(t *testing.T, ns *testlab.Namespace, name string, offloads bool) (fd int, uso bool) {
	t.Helper()
	ns.Do(func() {
		var err error
		if fd, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err != nil {
			t.Fatalf("open tun: %v", err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		request, err := unix.NewIfreq(name)
		if err != nil {
			t.Fatal(err)
		}
		request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
		if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
			t.Fatalf("make tun %s: %v", name, err)
		}
	})
	if !offloads {
		return fd, false
	}
	if unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, tsoOffloads|usoOffloads) == nil {
		return fd, true
	}
	if err := unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, tsoOffloads); err != nil {
		t.Fatalf("set offloads of %s: %v", name, err)
	}
	return fd, false
}

// readTUN returns the next packet of the stream (told by its source) with its
// header.
func readTUN(t *testing.T, fd int, src netip.Addr) (Header, []byte) {
	t.Helper()
	buf := make([]byte, HeaderLen+65536)
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		n, err := unix.Read(fd, buf)
		if err == unix.EAGAIN {
			unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 100)
			continue
		}
		if err != nil {
			t.Fatalf("read tun: %v", err)
		}
		h, _ := Parse(buf[:n])
		pkt := bytes.Clone(buf[HeaderLen:n])
		if a := pkt[8:24]; pkt[0]>>4 == 6 && bytes.Equal(a, src.AsSlice()) {
			return h, pkt
		}
		if a := pkt[12:16]; pkt[0]>>4 == 4 && bytes.Equal(a, src.AsSlice()) {
			return h, pkt
		}
	}
	t.Fatal("no packet came out of the kernel")
	return Header{}, nil
}

// TestKernelForwards writes super-packets to one TUN and lets the kernel route
// them to another: once to one without offloads, so that the kernel segments them,
// and once to one with, so that they are read as super-packets and segmented here.
// Either way the packets must be those that were merged, one hop older.
func TestKernelForwards(t *testing.T) {
	testlab.RequireRoot(t)
	testlab.RequireFile(t, "/dev/net/tun")
	for _, offloads := range []bool{false, true} {
		t.Run(fmt.Sprintf("offloads=%v", offloads), func(t *testing.T) {
			ns := testlab.New(t).Namespace("router")
			ns.Forward()
			in, uso := openTUN(t, ns, "in", true)
			out, _ := openTUN(t, ns, "out", offloads)
			for _, link := range []struct{ name, v4, v6 string }{
				{"in", "10.9.0.254/24", "fd00:9::fe/64"},
				{"out", "10.8.0.254/24", "fd00:8::fe/64"},
			} {
				ns.Address(link.name, netip.MustParsePrefix(link.v4))
				ns.Address(link.name, netip.MustParsePrefix(link.v6))
				ns.Output("ip", "link", "set", link.name, "up")
			}
			for name, d := range map[string]inner{
				"TCPv4": tcp4(1380), "TCPv6": tcp6(1380), "UDPv4": udp4(1392), "UDPv6": udp6(1372), "UDPv4 odd": udp4(333),
			} {
				t.Run(name, func(t *testing.T) {
					forward(t, d, in, out, Options{TSO: true, USO: uso}, offloads)
				})
			}
		})
	}
}

func forward(t *testing.T, d inner, in, out int, o Options, offloads bool) {
	d.dst = netip.MustParseAddr("10.8.0.1")
	if d.src.Is6() {
		d.dst = netip.MustParseAddr("fd00:8::1")
	}
	size, count := len(d.payload), 40
	var packets, want [][]byte
	for i := range count {
		packets = append(packets, d.build())
		d.ttl--
		want = append(want, d.build())
		d.ttl++
		if i == count-2 {
			d = d.after(size - 77)
			if !d.udp {
				d.flags |= 0x08
			}
		} else {
			d = d.after(size)
		}
	}
	g := NewGRO(o)
	add(t, g, packets)
	merges := !d.udp || o.USO
	if merges && g.Units() != 1 {
		t.Fatalf("%d units", g.Units())
	}
	for i := range g.Units() {
		pieces, _ := g.Unit(i, nil)
		if _, err := unix.Writev(in, pieces); err != nil {
			t.Fatalf("write unit %d: %v", i, err)
		}
	}
	var got [][]byte
	reads := 0
	var s Super
	for len(got) < count {
		h, pkt := readTUN(t, out, d.src)
		reads++
		if !s.Reset(h, pkt) {
			t.Fatalf("refused what the kernel gave: %+v, % x", h, pkt[:60])
		}
		if s.HeaderLen() == 0 {
			got = append(got, pkt)
		} else {
			got = append(got, segments(t, &s, pkt)...)
		}
	}
	equalPackets(t, "forwarded", got, want)
	if whole := reads < count; whole != (offloads && merges) {
		t.Errorf("%d reads for %d packets", reads, count)
	}
}
