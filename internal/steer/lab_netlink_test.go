// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"encoding/binary"
	"time"

	"golang.org/x/sys/unix"
)

// attachByNetlink puts a program into eth0's XDP slot the old way, by IFLA_XDP;
// -1 takes it off.
func (n *network) attachByNetlink(progFD int) {
	n.t.Helper()
	const iflaXDP, iflaXDPFD = 43, 1
	index := n.host.Link("eth0").Index
	n.host.Do(func() {
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
		if err != nil {
			n.t.Fatal(err)
		}
		defer unix.Close(fd)
		var b []byte
		b = binary.NativeEndian.AppendUint32(b, 16+16+12)
		b = binary.NativeEndian.AppendUint16(b, unix.RTM_SETLINK)
		b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST|unix.NLM_F_ACK)
		b = append(b, make([]byte, 8)...)
		b = append(b, unix.AF_UNSPEC, 0, 0, 0)
		b = binary.NativeEndian.AppendUint32(b, uint32(index))
		b = append(b, make([]byte, 8)...)
		b = binary.NativeEndian.AppendUint16(b, 12)
		b = binary.NativeEndian.AppendUint16(b, iflaXDP|unix.NLA_F_NESTED)
		b = binary.NativeEndian.AppendUint16(b, 8)
		b = binary.NativeEndian.AppendUint16(b, iflaXDPFD)
		b = binary.NativeEndian.AppendUint32(b, uint32(int32(progFD)))
		if err := unix.Sendto(fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
			n.t.Fatal(err)
		}
		reply := make([]byte, 4096)
		got, _, err := unix.Recvfrom(fd, reply, 0)
		if err != nil || got < 20 {
			n.t.Fatal(got, err)
		}
		if code := int32(binary.NativeEndian.Uint32(reply[16:])); code != 0 {
			n.t.Fatalf("set XDP program by netlink: %v", unix.Errno(-code))
		}
	})
}

// sendRaw puts a frame on a device of the sender.
func (n *network) sendRaw(device string, frame []byte) {
	n.t.Helper()
	index := n.sender.Link(device).Index
	n.sender.Do(func() {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			n.t.Fatal(err)
		}
		defer unix.Close(fd)
		proto := uint16(frame[12])<<8 | uint16(frame[13])
		if err := unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: index, Protocol: networkOrder(proto)}); err != nil {
			n.t.Fatal(err)
		}
	})
}

// eventually waits up to 5 s for a condition.
func (n *network) eventually(what string, ok func() bool) {
	n.t.Helper()
	for end := time.Now().Add(5 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			n.t.Errorf("%s: nothing after 5 s", what)
			return
		}
	}
}
