// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/peer"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/udp"
)

// Control takes datagrams that are not DATA_V2 records: the control channel's.
type Control interface {
	// Datagram offers a datagram with the addresses it was received with. It
	// copies what it keeps, must not block, and reports whether it took it.
	Datagram(remote, local netip.AddrPort, b []byte) bool
}

// StreamControl takes what is no DATA_V2 record on TCP connections. Calls for one
// connection come one after the other; those for different ones may overlap.
type StreamControl interface {
	// Packet offers a packet, without its length. It copies what it keeps, must
	// not block, and reports whether it took it.
	Packet(s *Stream, b []byte) bool
	// Closed says that a connection of which at least one packet was offered has
	// ended; it is the last call for it. why is as in tcp.Receiver.
	Closed(s *Stream, why error)
}

const (
	// controlMessages is how many control datagrams go with one system call.
	controlMessages = 64
	// controlWait bounds how long the control channel waits for room in a socket's
	// buffer: what does not go is sent again by its own timers.
	controlWait = 5 * time.Millisecond
)

// controlSender sends the control channel's datagrams, beside the outward workers.
type controlSender struct {
	sent, failed atomic.Uint64

	mu     sync.Mutex
	sender *udp.Sender
	runs   []udp.Run
}

func newControlSender() *controlSender {
	s := &controlSender{sender: udp.NewSender(controlMessages), runs: make([]udp.Run, 0, controlMessages)}
	s.sender.SetWait(controlWait)
	return s
}

// SendControl sends datagrams to remote, in order, from the listener and address
// that local names; when local is invalid, or of no listener, it chooses as for a
// peer whose local address is not known. The datagrams are borrowed. It waits at
// most 5 ms for each 64 datagrams when the socket's buffer is full, and reports
// how many were sent. Safe for concurrent use until Close.
func (e *Engine) SendControl(local, remote netip.AddrPort, datagrams [][]byte) (sent int) {
	conn := connFor(e.cfg.Conns, &peer.Endpoint{Remote: remote, Local: local})
	s := e.control
	if conn == nil {
		s.failed.Add(uint64(len(datagrams)))
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for rest := datagrams; len(rest) > 0; {
		n := min(len(rest), controlMessages)
		s.runs = s.runs[:0]
		for _, b := range rest[:n] {
			s.runs = append(s.runs, udp.Run{Remote: remote, Local: local.Addr(), Data: b})
		}
		sent += s.sender.Send(conn, s.runs).Sent
		rest = rest[n:]
	}
	clear(s.runs[:cap(s.runs)]) // they refer to the caller's bytes
	s.sent.Add(uint64(sent))
	s.failed.Add(uint64(len(datagrams) - sent))
	return sent
}
