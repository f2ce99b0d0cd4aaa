// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/ovpn-xdp/ovpn-xdp/internal/netdev"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/xsk"
)

// tagRoom is what a record needs behind it in its chunk: its 16-byte tag stands
// in front of the ciphertext and is moved behind it to be opened in place.
const tagRoom = 16

// vlanTag is one 802.1Q tag, which an MTU does not count.
const (
	ethernetHeader = 14
	vlanTag        = 4
)

// chunkSize is the UMEM chunk for the device: 2,048 bytes where a full frame
// with one VLAN tag fits beside the kernel's headroom and the room for a tag,
// else 4,096. ena grants zero-copy only with 4,096.
func chunkSize(l netdev.Link) int {
	if l.Driver != "ena" && l.MTU+ethernetHeader+vlanTag <= maxFrame(2048) {
		return 2048
	}
	return 4096
}

// maxFrame is the longest frame that can be opened in a chunk of that size.
func maxFrame(chunk int) int { return chunk - xsk.Headroom - tagRoom }

// pickQueues says which receive queues to bind and which of the device's stay
// without a socket.
func pickQueues(l netdev.Link, asked []int) (bind, missing []int, err error) {
	for q := range l.RxQueues {
		if asked == nil || slices.Contains(asked, q) {
			bind = append(bind, q)
		} else {
			missing = append(missing, q)
		}
	}
	for _, q := range asked {
		if q < 0 || q >= l.RxQueues {
			return nil, nil, fmt.Errorf("%s has receive queues %s, not %d; change --queues", l.Name, queueList(upTo(l.RxQueues)), q)
		}
	}
	if len(bind) == 0 {
		return nil, nil, fmt.Errorf("no receive queue of %s to bind", l.Name)
	}
	return bind, missing, nil
}

func upTo(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// queueList writes ascending queues as 0-3,6.
func queueList(queues []int) string {
	var parts []string
	for i := 0; i < len(queues); {
		j := i
		for j+1 < len(queues) && queues[j+1] == queues[j]+1 {
			j++
		}
		part := strconv.Itoa(queues[i])
		if j > i {
			part += "-" + strconv.Itoa(queues[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ",")
}

// errCopyGranted is for drivers that take the zero-copy flag and ignore it.
var errCopyGranted = errors.New("driver granted copy mode only")

// openSockets binds one socket per queue, all of the same mode, or none.
func openSockets(ifindex int, queues []int, ring, chunk int, zeroCopy bool) ([]*xsk.Socket, error) {
	sockets := make([]*xsk.Socket, 0, len(queues))
	for _, q := range queues {
		s, err := xsk.Open(xsk.Config{
			Ifindex: ifindex, Queue: q, ChunkSize: chunk, RingSize: ring,
			ZeroCopy: zeroCopy, Copy: !zeroCopy,
		})
		if err == nil {
			sockets = append(sockets, s)
			if zeroCopy && !s.ZeroCopy() {
				err = fmt.Errorf("queue %d: %w", q, errCopyGranted)
			}
		}
		if err != nil {
			return nil, errors.Join(explain(err), closeSockets(sockets))
		}
	}
	return sockets, nil
}

func closeSockets(sockets []*xsk.Socket) error {
	var errs []error
	for _, s := range sockets {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// fillXSKMap gives each socket its slot. The kernel empties the slot when the
// socket closes.
func fillXSKMap(m *ebpf.Map, sockets []*xsk.Socket) error {
	for _, s := range sockets {
		if err := m.Put(uint32(s.Queue()), uint32(s.FD())); err != nil {
			return fmt.Errorf("enter socket of queue %d: %w", s.Queue(), err)
		}
	}
	return nil
}
