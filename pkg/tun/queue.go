// SPDX-License-Identifier: Apache-2.0

package tun

import "golang.org/x/sys/unix"

// MaxRead is the largest read in bytes: the virtio-net header of 10 and a
// packet of 64 KiB less one, which is what an IPv4 total length holds and the
// device's default gso_max_size keeps.
const MaxRead = 10 + 65535

// Queue is one queue of a device. Its descriptor never blocks.
type Queue struct {
	fd, index int
}

// Index is the queue's number, from 0.
func (q *Queue) Index() int { return q.index }

// FD is the queue's descriptor, to poll.
func (q *Queue) FD() int { return q.fd }

// Read takes one packet or super-packet, with its virtio-net header in front,
// into p and returns its length. A p shorter than MaxRead may cut it. With none
// there it returns EAGAIN, with the device deleted EBADFD; it does not allocate.
// Several goroutines may read one queue; each packet goes to one of them.
func (q *Queue) Read(p []byte) (int, error) {
	for {
		n, err := unix.Read(q.fd, p)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return 0, err
		}
		return n, nil
	}
}

func (q *Queue) close() error {
	fd := q.fd
	q.fd = -1
	return unix.Close(fd)
}
