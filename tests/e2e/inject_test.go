// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/internal/netdev"
	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/aead"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/packet"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/record"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/statickey"
)

// session seals and opens records as the other end of a gateway's key does.
type session struct {
	peer    uint32
	keyID   uint8
	next    uint32 // packet id of the next record
	sealer  *aead.Key
	opener  *aead.Key
	scratch *aead.Scratch
}

// newSession takes a role with the key of a file.
func newSession(t *testing.T, keyFile, cipher string, role statickey.Role, peer uint32, keyID uint8) *session {
	t.Helper()
	block := keyBlock(t, keyFile)
	c, err := aead.ParseCipher(cipher)
	if err != nil {
		t.Fatal(err)
	}
	send, receive, err := statickey.Halves(&block, role, c)
	if err != nil {
		t.Fatal(err)
	}
	s := &session{peer: peer, keyID: keyID, next: 1, scratch: aead.NewScratch()}
	if s.sealer, err = aead.NewKey(c, send.Key, send.IV); err != nil {
		t.Fatal(err)
	}
	if s.opener, err = aead.NewKey(c, receive.Key, receive.IV); err != nil {
		t.Fatal(err)
	}
	return s
}

// seal returns the record of a plaintext under a packet id.
func (s *session) seal(id uint32, plain []byte) []byte {
	return s.sealAs(record.Word(record.DataV2, s.keyID, s.peer), id, plain)
}

func (s *session) sealAs(word, id uint32, plain []byte) []byte {
	n := record.Overhead + len(plain)
	item := aead.SealItem{Dst: make([]byte, n, n+record.TagLen), Word: word, PacketID: id, Buf: bytes.Clone(plain), Len: len(plain)}
	s.sealer.Seal(s.scratch, []aead.SealItem{item}, 0)
	return item.Dst
}

// record seals under the next packet id.
func (s *session) record(plain []byte) []byte {
	s.next++
	return s.seal(s.next-1, plain)
}

// open returns the plaintext of a record from the gateway.
func (s *session) open(b []byte) ([]byte, bool) {
	copied := append(make([]byte, 0, len(b)+aead.Slack), b...)
	var ok [1]bool
	s.opener.Open(s.scratch, [][]byte{copied}, ok[:], 0)
	if !ok[0] {
		return nil, false
	}
	return copied[record.Overhead:], true
}

// udpPacket is an IP packet, outer or inner, with right checksums.
func udpPacket(src, dst netip.AddrPort, payload []byte) []byte {
	b := udpHeader(src, dst, payload)
	return ipPacket(src.Addr(), dst.Addr(), packet.ProtoUDP, append(b, payload...))
}

func udpHeader(src, dst netip.AddrPort, payload []byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, src.Port())
	b = binary.BigEndian.AppendUint16(b, dst.Port())
	b = binary.BigEndian.AppendUint16(b, uint16(8+len(payload)))
	sum := packet.PseudoSum(src.Addr().AsSlice(), dst.Addr().AsSlice(), packet.ProtoUDP, 8+len(payload))
	sum = packet.Checksum(payload, packet.Checksum(b, sum))
	check := ^packet.Fold(sum)
	if check == 0 {
		check = 0xffff
	}
	return binary.BigEndian.AppendUint16(b, check)
}

// ipPacket puts an IPv4 header without options, or an IPv6 header, in front of body.
func ipPacket(src, dst netip.Addr, proto byte, body []byte) []byte {
	if src.Is6() {
		b := []byte{0x60, 0, 0, 0}
		b = binary.BigEndian.AppendUint16(b, uint16(len(body)))
		b = append(b, proto, 64)
		b = append(append(b, src.AsSlice()...), dst.AsSlice()...)
		return append(b, body...)
	}
	b := []byte{0x45, 0}
	b = binary.BigEndian.AppendUint16(b, uint16(20+len(body)))
	b = append(b, 0, 1, 0, 0, 64, proto, 0, 0)
	b = append(append(b, src.AsSlice()...), dst.AsSlice()...)
	checksum4(b)
	return append(b, body...)
}

// checksum4 makes the checksum of an IPv4 header right.
func checksum4(b []byte) {
	header := b[:int(b[0]&15)*4]
	header[10], header[11] = 0, 0
	binary.BigEndian.PutUint16(header[10:], ^packet.Fold(packet.Checksum(header, 0)))
}

// wire is an AF_PACKET socket on a device: frames leave exactly as they are given.
type wire struct {
	t        *testing.T
	fd       int
	from, to net.HardwareAddr
}

// newWire opens one on eth0 of a namespace, towards eth0 of another. protocol
// 0 receives nothing.
func newWire(t *testing.T, from, to *testlab.Namespace, protocol uint16) *wire {
	t.Helper()
	w := &wire{t: t, from: from.Link("eth0").MAC, to: to.Link("eth0").MAC}
	from.Do(func() {
		link, err := netdev.LinkByName("eth0")
		if err != nil {
			t.Fatal(err)
		}
		network := protocol<<8 | protocol>>8
		if w.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(network)); err != nil {
			t.Fatal(err)
		}
		if err := unix.Bind(w.fd, &unix.SockaddrLinklayer{Protocol: network, Ifindex: link.Index}); err != nil {
			t.Fatal(err)
		}
	})
	t.Cleanup(func() { unix.Close(w.fd) })
	return w
}

// ethernet puts an Ethernet header, and tags of 4 bytes each, in front of an IP packet.
func (w *wire) ethernet(ip []byte, tags ...uint32) []byte {
	b := append(append([]byte{}, w.to...), w.from...)
	for _, tag := range tags {
		b = binary.BigEndian.AppendUint32(b, tag)
	}
	kind := uint16(0x0800)
	if len(ip) > 0 && ip[0]>>4 == 6 {
		kind = 0x86dd
	}
	return append(binary.BigEndian.AppendUint16(b, kind), ip...)
}

// send sends one frame.
func (w *wire) send(frame []byte) {
	w.t.Helper()
	for {
		_, err := unix.Write(w.fd, frame)
		if err == nil {
			return
		}
		if err != unix.ENOBUFS && err != unix.EINTR {
			w.t.Fatalf("send frame of %d bytes: %v", len(frame), err)
		}
		time.Sleep(time.Millisecond)
	}
}

// listenUDP opens a UDP socket in a namespace with a large receive buffer.
func listenUDP(t *testing.T, ns *testlab.Namespace, at netip.AddrPort) (c *net.UDPConn) {
	t.Helper()
	ns.Do(func() {
		var err error
		if c, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(at)); err != nil {
			t.Fatal(err)
		}
	})
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var optErr error
	if err := raw.Control(func(fd uintptr) {
		optErr = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20)
	}); err != nil || optErr != nil {
		t.Fatal(err, optErr)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// sendTo sends one datagram.
func sendTo(t *testing.T, c *net.UDPConn, to netip.AddrPort, b []byte) {
	t.Helper()
	if _, err := c.WriteToUDPAddrPort(b, to); err != nil {
		t.Fatal(err)
	}
}
