// SPDX-License-Identifier: Apache-2.0

package udp

import (
	"errors"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// Limits of a run.
const (
	// MaxSegments is UDP_MAX_SEGMENTS of kernels before 6.9; later ones take 128.
	MaxSegments = 64
	// MaxRunBytes is what fits an IPv4 packet behind its header and the UDP
	// header: 65535 - 20 - 8.
	MaxRunBytes = 65507
)

// ErrRun is the error of a run that breaks the limits.
var ErrRun = errors.New("run breaks the limits of one send")

// Run is a row of datagrams to one destination, sent in order.
type Run struct {
	Remote netip.AddrPort // a link-local address with its zone
	Local  netip.Addr     // address to leave from; invalid or unspecified: the kernel's choice
	// Data is the datagrams side by side, at most MaxRunBytes. It is read
	// until Send returns.
	Data []byte
	// SegmentSize is the length of each datagram but the last, which may be
	// shorter; at most MaxSegments. 0, or not below the length: Data is one datagram.
	SegmentSize int

	// Sent is set by Send: how many datagrams the kernel took.
	Sent int
	// Err is set by Send: the errno for which the rest of the run was given up.
	Err error
}

// datagrams is how many datagrams the run holds; 0: it breaks the limits.
func (r *Run) datagrams() int {
	n := len(r.Data)
	switch {
	case n > MaxRunBytes || r.SegmentSize < 0:
		return 0
	case !r.aggregate():
		return 1
	}
	if count := (n + r.SegmentSize - 1) / r.SegmentSize; count <= MaxSegments {
		return count
	}
	return 0
}

func (r *Run) aggregate() bool { return r.SegmentSize > 0 && r.SegmentSize < len(r.Data) }

// TooLong reports whether a run's Err says that its datagrams are longer than
// the way to their destination takes.
func TooLong(err error) bool { return errors.Is(err, unix.EMSGSIZE) }

// Result sums up what one Send did.
type Result struct {
	Sent   int // datagrams that the kernel took
	Failed int // datagrams given up
	Calls  int // system calls
}

// sendWait bounds how long one Send waits in all for room in the socket buffer,
// unless it is told otherwise. A full buffer of 4 MiB empties in 34 ms at 1 Gbit/s.
const sendWait = 50 * time.Millisecond

// sendWaitStep is one sleep, in milliseconds.
const sendWaitStep = 1

// Sender turns runs into system calls. It belongs to one goroutine and may send
// on any number of Conns.
type Sender struct {
	raw   messages
	plan  []planned // what each message of raw is
	zones zoneCache
	wait  time.Duration

	// The way to the kernel, replaced in tests.
	transmit func(fd int, hdrs []mmsghdr) (int, unix.Errno)
	await    func(fd int, errno unix.Errno, ms int)
}

// planned is one message: datagrams [from, from+count) of a run.
type planned struct {
	run, from, count int
	aggregate        bool
}

// NewSender makes a sender that hands so many messages to the kernel per call, at
// most 1024. At least 64 are made, so that one call takes a whole run as well when
// it goes datagram by datagram.
func NewSender(n int) *Sender {
	n = min(max(n, MaxSegments), 1024)
	return &Sender{raw: newMessages(n), plan: make([]planned, n), wait: sendWait, transmit: sendmmsg, await: awaitRoom}
}

// SetWait sets how long one Send waits in all for room in the socket buffer, in
// steps of a millisecond, instead of 50 ms.
func (s *Sender) SetWait(d time.Duration) { s.wait = d }

// cursor is how far a Send has come.
type cursor struct {
	run, from int
	plain     int // this run goes datagram by datagram; -1: none
	retried   int // this run's pending error was stepped over; -1: none
}

// Send sends the runs in order, each as one message where the kernel segments
// it, and sets Sent and Err of each. Failures:
//
//   - EIO, ENOPROTOOPT and EOPNOTSUPP on an aggregate say that segmentation
//     isn't to be had: it is switched off for the Conn, and the same bytes go
//     one by one.
//   - EMSGSIZE and EINVAL on an aggregate say that its datagrams are longer
//     than the link's MTU, which segmentation cannot fragment: this run alone goes
//     one by one.
//   - EAGAIN, ENOBUFS and ENOMEM: it waits for room, in all at most 50 ms per
//     Send (see SetWait), then gives the run up.
//   - Any other errno, and those above where they have no remedy, costs the rest of its run: the
//     address is gone, the firewall refuses, there is no route. The runs
//     behind it still go. What may be an ICMP error of an earlier packet is tried once more.
//
// It does not allocate.
func (s *Sender) Send(c *Conn, runs []Run) Result {
	var res Result
	for i := range runs {
		runs[i].Sent, runs[i].Err = 0, nil
	}
	at := cursor{plain: -1, retried: -1}
	var waited time.Duration
	for {
		n := s.fill(c, runs, at)
		if n == 0 {
			break
		}
		sent, errno := s.transmit(c.fd, s.raw.hdrs[:n])
		res.Calls++
		if errno == 0 {
			if sent <= 0 { // must not happen; never spin on it
				sent, errno = 0, unix.EIO
			}
			for _, p := range s.plan[:sent] {
				runs[p.run].Sent += p.count
				at.run, at.from = p.run, p.from+p.count
			}
		}
		if errno != 0 {
			// The first message's run starts where nothing was sent of it yet.
			at.run, at.from = s.plan[0].run, s.plan[0].from
			s.failed(c, runs, &at, errno, &waited)
		}
	}
	for i := range runs {
		res.Sent += runs[i].Sent
		if runs[i].Err != nil {
			res.Failed += max(runs[i].datagrams(), 1) - runs[i].Sent
		}
	}
	return res
}

// fill builds messages from the cursor on, as many as there is room for.
func (s *Sender) fill(c *Conn, runs []Run, at cursor) (n int) {
	gso := c.gso.Load()
	from := at.from
	for i := at.run; i < len(runs); i++ {
		r := &runs[i]
		count := r.datagrams()
		if count == 0 {
			r.Err = ErrRun
		}
		if r.Err != nil {
			from = 0
			continue
		}
		if count > 1 && from == 0 && gso && at.plain != i {
			if n == len(s.plan) {
				return n
			}
			s.put(n, r, r.Data, r.SegmentSize)
			s.plan[n] = planned{run: i, count: count, aggregate: true}
			n++
			continue
		}
		for ; from < count; from++ {
			if n == len(s.plan) {
				return n
			}
			b := r.Data
			if count > 1 {
				b = b[from*r.SegmentSize : min((from+1)*r.SegmentSize, len(b))]
			}
			s.put(n, r, b, 0)
			s.plan[n] = planned{run: i, from: from, count: 1}
			n++
		}
		from = 0
	}
	return n
}

func (s *Sender) put(i int, r *Run, b []byte, segment int) {
	remote := r.Remote.Addr()
	scope := uint32(0)
	if remote.Is6() {
		scope = s.zones.scopeOf(remote)
	}
	local := r.Local
	if local.IsUnspecified() {
		local = netip.Addr{}
	}
	s.raw.setData(i, b)
	s.raw.setDestination(i, r.Remote, scope)
	s.raw.setControl(i, local, scope, segment)
}

// failed decides what becomes of the message at the cursor, which is the first
// of the plan.
func (s *Sender) failed(c *Conn, runs []Run, at *cursor, errno unix.Errno, waited *time.Duration) {
	first := s.plan[0]
	switch errno {
	case unix.EAGAIN, unix.ENOBUFS, unix.ENOMEM:
		if *waited < s.wait {
			s.await(c.fd, errno, sendWaitStep)
			*waited += sendWaitStep * time.Millisecond
			return
		}
	case unix.EIO, unix.ENOPROTOOPT, unix.EOPNOTSUPP:
		if first.aggregate {
			c.disableGSO(errno)
			return
		}
	case unix.EMSGSIZE, unix.EINVAL:
		if first.aggregate {
			at.plain = first.run
			return
		}
	}
	if pending(errno) && at.retried != first.run {
		at.retried = first.run
		return
	}
	runs[first.run].Err = errno
	at.run, at.from = first.run+1, 0
}

// awaitRoom sleeps for at most ms milliseconds. EAGAIN is the socket's buffer,
// which poll(2) tells of. ENOBUFS and ENOMEM come from below it, where nothing
// tells, and the socket is writable all the while.
func awaitRoom(fd int, errno unix.Errno, ms int) {
	var fds [1]unix.PollFd
	n := 0
	if errno == unix.EAGAIN {
		fds[0] = unix.PollFd{Fd: int32(fd), Events: unix.POLLOUT}
		n = 1
	}
	_, _ = unix.Poll(fds[:n], ms)
}
