// SPDX-License-Identifier: Apache-2.0

package udp

import (
	"net/netip"

	"golang.org/x/sys/unix"
)

// Message is a datagram, or an aggregate of datagrams of one sender.
type Message struct {
	Src netip.AddrPort // a link-local address with the link's index as zone
	Dst netip.AddrPort // the local address it came to, without zone, and the port
	// Data is the payload. Its capacity is at least 16 bytes more than its
	// length, and all of it may be written, until the next Recv.
	Data []byte
	// SegmentSize is the length of each datagram in an aggregate but the last,
	// which may be shorter; 0: Data is one datagram, possibly empty.
	SegmentSize int
}

// Size of one receive buffer in bytes: no datagram and no aggregate is
// longer than 65,535 (the kernel's GRO limit includes the headers), and the
// slack leaves room behind the last one.
const (
	receiveSize  = 1 << 16
	receiveSlack = 64
)

// Receiver owns the buffers that datagrams are received into. It belongs to
// one goroutine.
type Receiver struct {
	raw       messages
	buffers   [][]byte
	out       []Message
	used      int // how many headers the last call changed
	zones     zoneCache
	truncated uint64
}

// NewReceiver makes a receiver of up to so many messages per call, at least 1
// and at most 1024, with 64 KiB of memory for each.
func NewReceiver(n int) *Receiver {
	n = min(max(n, 1), 1024)
	r := &Receiver{raw: newMessages(n), buffers: make([][]byte, n), out: make([]Message, 0, n), used: n}
	const stride = receiveSize + receiveSlack
	memory := make([]byte, n*stride)
	for i := range r.buffers {
		r.buffers[i] = memory[i*stride : (i+1)*stride : (i+1)*stride]
		r.raw.setData(i, r.buffers[i][:receiveSize])
	}
	return r
}

// recvTries bounds how many pending errors one Recv steps over. Each is
// cleared by being reported once.
const recvTries = 16

// Recv takes what the socket holds, as many messages as the receiver has
// buffers, without waiting: with nothing there the error is EAGAIN. Errors that
// ICMP messages left on the socket are stepped over. The slice and the bytes
// in it are the receiver's, lent until the next Recv. It does not allocate.
func (r *Receiver) Recv(c *Conn) ([]Message, error) {
	for i := range r.used {
		r.raw.clear(i)
	}
	r.used = 0
	var n int
	var errno unix.Errno
	for range recvTries {
		n, errno = r.raw.recvmmsg(c.fd, 0, len(r.buffers))
		if errno == 0 || !pending(errno) {
			break
		}
	}
	if errno != 0 {
		return nil, errno
	}
	r.used = n
	r.out = r.out[:0]
	for i := range n {
		if r.raw.hdrs[i].hdr.Flags&unix.MSG_TRUNC != 0 {
			r.truncated++
			continue
		}
		src, scope := r.raw.source(i)
		local, segment := r.raw.control(i)
		if !local.IsValid() {
			local = c.addr.Addr()
		}
		size := int(r.raw.hdrs[i].len)
		if segment >= size || segment < 0 {
			segment = 0
		}
		r.out = append(r.out, Message{
			Src:         netip.AddrPortFrom(r.zones.with(src.Addr(), scope), src.Port()),
			Dst:         netip.AddrPortFrom(local, c.addr.Port()),
			Data:        r.buffers[i][:size],
			SegmentSize: segment,
		})
	}
	return r.out, nil
}

// Truncated is how many messages did not fit their buffer and were dropped.
func (r *Receiver) Truncated() uint64 { return r.truncated }

// pending tells errors that an earlier packet caused and that say nothing
// about this call.
func pending(errno unix.Errno) bool {
	switch errno {
	case unix.ECONNREFUSED, unix.EHOSTUNREACH, unix.ENETUNREACH, unix.ECONNRESET,
		unix.ENOPROTOOPT, unix.EPROTO, unix.EMSGSIZE, unix.EACCES, unix.EHOSTDOWN, unix.ENONET, unix.ENETDOWN:
		return true
	}
	return false
}
