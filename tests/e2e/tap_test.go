// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/internal/netdev"
	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/packet"
)

// tap sees the frames that leave a device. What a program on the device
// redirects on arrival does not pass here.
type tap struct{ fd int }

func newTap(t *testing.T, ns *testlab.Namespace, device string) *tap {
	t.Helper()
	tap := &tap{}
	const all = unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8
	ns.Do(func() {
		link, err := netdev.LinkByName(device)
		if err != nil {
			t.Fatal(err)
		}
		if tap.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			t.Fatal(err)
		}
		if err := unix.Bind(tap.fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: link.Index}); err != nil {
			t.Fatal(err)
		}
	})
	timeout := unix.NsecToTimeval(int64(100 * time.Millisecond))
	if err := unix.SetsockoptTimeval(tap.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(tap.fd) })
	return tap
}

// frames collects frames, outgoing or all, until done says so of one or the
// time is over.
func (tap *tap) frames(outgoingOnly bool, done func(frame []byte) bool) {
	buf := make([]byte, 1<<16)
	for deadline := time.Now().Add(limit / 6); time.Now().Before(deadline); {
		n, from, err := unix.Recvfrom(tap.fd, buf, 0)
		if err != nil {
			continue
		}
		link, ok := from.(*unix.SockaddrLinklayer)
		if !ok || outgoingOnly && link.Pkttype != unix.PACKET_OUTGOING {
			continue
		}
		if done(buf[:n]) {
			return
		}
	}
}

// left returns the payloads of the next n UDP datagrams that leave an Ethernet device.
func (tap *tap) left(t *testing.T, n int) (payloads [][]byte) {
	t.Helper()
	tap.frames(true, func(frame []byte) bool {
		if _, payload, ok := packet.ParseFrame(frame); ok {
			payloads = append(payloads, append([]byte{}, payload...))
		}
		return len(payloads) >= n
	})
	if len(payloads) < n {
		t.Fatalf("saw %d datagrams, want %d", len(payloads), n)
	}
	return payloads
}
