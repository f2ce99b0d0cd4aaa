// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/internal/netdev"
	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/xsk"
)

// network is a sender and a gateway's host with a wire between them.
type network struct {
	t      *testing.T
	sender *testlab.Namespace
	host   *testlab.Namespace
	pinDir string
}

func newNetwork(t *testing.T, v testlab.Veth) *network {
	t.Helper()
	lab := testlab.New(t)
	n := &network{t: t, sender: lab.Namespace("s"), host: lab.Namespace("g"), pinDir: bpffs(t)}
	v.A = testlab.End{Namespace: n.sender, Name: "eth0", Addresses: []netip.Prefix{
		netip.MustParsePrefix("192.0.2.1/24"), netip.MustParsePrefix("2001:db8::1/64")}}
	v.B = testlab.End{Namespace: n.host, Name: "eth0", Addresses: []netip.Prefix{
		netip.MustParsePrefix("192.0.2.2/24"), netip.MustParsePrefix("2001:db8::2/64")}}
	lab.Veth(v)
	return n
}

// bpffs mounts one for the test alone.
func bpffs(t *testing.T) string {
	t.Helper()
	testlab.RequireRoot(t)
	dir := t.TempDir()
	if err := unix.Mount("bpf", dir, "bpf", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func (n *network) options(mode Mode) Options {
	return Options{Gateway: "gw", NIC: "eth0", Mode: mode, RingSize: 1024, PinDir: n.pinDir}
}

func (n *network) tryAttach(o Options) (a *Attachment, err error) {
	n.t.Helper()
	n.host.Do(func() { a, err = Attach(context.Background(), o) })
	return a, err
}

// attach attaches and fills in one listener and peer per family.
func (n *network) attach(o Options) *Attachment {
	n.t.Helper()
	a, err := n.tryAttach(o)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { n.detach(a) })
	for _, l := range []netip.AddrPort{local4, local6} {
		if err := a.SetListener(l); err != nil {
			n.t.Fatal(err)
		}
	}
	if err := a.SetPeers([]Peer{
		{ID: testPeer4, Remote: remote4, KeyIDs: 1 << testKey},
		{ID: testPeer6, Remote: remote6, KeyIDs: 1 << testKey},
	}); err != nil {
		n.t.Fatal(err)
	}
	if err := a.Accept(true); err != nil {
		n.t.Fatal(err)
	}
	return a
}

func (n *network) detach(a *Attachment) {
	n.t.Helper()
	n.host.Do(func() {
		if err := a.Close(); err != nil {
			n.t.Error(err)
		}
	})
}

// wire is a sender's socket and the gateway's UDP socket of one family.
type wire struct {
	t      *testing.T
	send   *net.UDPConn
	listen *net.UDPConn
}

func (n *network) wire(remote, local netip.AddrPort) *wire {
	n.t.Helper()
	w := &wire{t: n.t}
	var err error
	n.sender.Do(func() {
		w.send, err = net.DialUDP("udp", net.UDPAddrFromAddrPort(remote), net.UDPAddrFromAddrPort(local))
	})
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { w.send.Close() })
	n.host.Do(func() { w.listen, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(local)) })
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { w.listen.Close() })
	// Forced past rmem_max: what passes must wait for a test that reads late.
	raw, err := w.listen.SyscallConn()
	if err != nil {
		n.t.Fatal(err)
	}
	var forced error
	if err := raw.Control(func(fd uintptr) {
		forced = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 32<<20)
	}); err != nil || forced != nil {
		n.t.Fatal(err, forced)
	}
	return w
}

func (w *wire) write(payloads ...[]byte) {
	w.t.Helper()
	for _, p := range payloads {
		if _, err := w.send.Write(p); err != nil {
			w.t.Fatal(err)
		}
	}
}

// numbered is a record that carries its number where the packet id belongs.
func numbered(peer uint32, id uint32, size int) []byte {
	b := record(peer, testKey, size)
	binary.BigEndian.PutUint32(b[4:], id)
	return b
}

// fromSockets leases until want frames came or 5 s passed without one, and
// returns the UDP payloads.
func fromSockets(t *testing.T, sockets []*xsk.Socket, want int) [][]byte {
	t.Helper()
	var out [][]byte
	frames := make([]xsk.Frame, 64)
	for end := time.Now().Add(5 * time.Second); len(out) < want && time.Now().Before(end); {
		got := 0
		for _, s := range sockets {
			n := s.Lease(frames)
			for _, f := range frames[:n] {
				out = append(out, payloadOf(f.Data))
			}
			if err := s.GiveBack(frames[:n]); err != nil {
				t.Fatal(err)
			}
			got += n
		}
		if got == 0 {
			time.Sleep(time.Millisecond)
		} else {
			end = time.Now().Add(5 * time.Second)
		}
	}
	if len(out) != want {
		t.Errorf("%d records from AF_XDP, want %d", len(out), want)
	}
	return out
}

// payloadOf copies the UDP payload out of an untagged or tagged frame.
func payloadOf(frame []byte) []byte {
	at := 14
	proto := binary.BigEndian.Uint16(frame[12:])
	if proto == 0x8100 {
		proto, at = binary.BigEndian.Uint16(frame[16:]), 18
	}
	if proto == 0x0800 {
		at += 20
	} else {
		at += 40
	}
	length := int(binary.BigEndian.Uint16(frame[at+4:]))
	return slices.Clone(frame[at+8 : at+length])
}

// fromListener reads until want datagrams came or 5 s passed without one.
func (w *wire) fromListener(want int) [][]byte {
	w.t.Helper()
	var out [][]byte
	buf := make([]byte, 65536)
	for len(out) < want {
		if err := w.listen.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
			w.t.Fatal(err)
		}
		n, err := w.listen.Read(buf)
		if err != nil {
			w.t.Errorf("%d datagrams at the UDP socket, want %d: %v", len(out), want, err)
			break
		}
		out = append(out, slices.Clone(buf[:n]))
	}
	return out
}

// nothingMore fails if the UDP socket holds another datagram.
func (w *wire) nothingMore() {
	w.t.Helper()
	if err := w.listen.SetReadDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
		w.t.Fatal(err)
	}
	buf := make([]byte, 65536)
	if n, err := w.listen.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
		w.t.Errorf("UDP socket got %d bytes more (%v): %x", n, err, buf[:min(n, 16)])
	}
}

// mustBeClean fails unless the device and the bpffs are as before an attach.
func (n *network) mustBeClean() {
	n.t.Helper()
	l := n.host.Link("eth0")
	if l.XDP.Attached {
		n.t.Errorf("eth0 still has XDP program %d", l.XDP.ProgID)
	}
	n.host.Do(func() {
		holders, err := tcHolders(l.Index)
		if err != nil || len(holders) != 0 {
			n.t.Errorf("tc programs left: %v, %v", holders, err)
		}
		links, err := netdev.Links()
		if err != nil {
			n.t.Fatal(err)
		}
		for _, l := range links {
			if strings.HasPrefix(l.Name, "ovx-") {
				n.t.Errorf("link %s is left", l.Name)
			}
		}
	})
	n.mustBeUnpinned()
}

// mustBeUnpinned fails if there is more in the bpffs than a fresh one has:
// the kernel's own maps.debug and progs.debug.
func (n *network) mustBeUnpinned() {
	n.t.Helper()
	left, err := os.ReadDir(n.pinDir)
	if err != nil {
		n.t.Error(err)
	}
	for _, e := range left {
		if !strings.HasSuffix(e.Name(), ".debug") {
			n.t.Errorf("%s is left in the bpffs", e.Name())
		}
	}
}

// passProgram is somebody else's XDP program.
func passProgram(t *testing.T, name string) *ebpf.Program {
	t.Helper()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: name, Type: ebpf.XDP, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, xdpPass), asm.Return()},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func packets(t *testing.T, a *Attachment) map[string]uint64 {
	t.Helper()
	verdicts, err := a.Verdicts()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]uint64{}
	for _, v := range verdicts {
		if v.Packets != 0 {
			out[v.Reason.String()] = v.Packets
		}
	}
	return out
}

// traffic counts a peer's frames.
type traffic struct{ packets, bytes uint64 }

// peerTraffic sums up a peer's entry of peer_stats; false if there is none.
func peerTraffic(t *testing.T, a *Attachment, id uint32) (sum traffic, ok bool) {
	t.Helper()
	values, err := perCPU[ingressPeerTraffic]()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.main.Maps[ingressMapPeerStats].Lookup(id, &values); err != nil {
		if !errors.Is(err, ebpf.ErrKeyNotExist) {
			t.Fatal(err)
		}
		return traffic{}, false
	}
	for i := range values {
		sum.packets += values[i].Packets
		sum.bytes += values[i].Bytes
	}
	return sum, true
}
