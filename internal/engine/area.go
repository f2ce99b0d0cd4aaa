// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"github.com/ovpn-xdp/ovpn-xdp/pkg/peer"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/reason"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/record"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/tcp"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/udp"
)

const (
	// maxSegments ends a run: newer kernels take 128 segments, but receivers'
	// aggregates and batches end at 64.
	maxSegments = 64
	// maxRunBytes is the largest UDP payload of an IPv4 packet.
	maxRunBytes = 65535 - 20 - 8
	// areaRuns and areaBytes bound what is sealed before it is sent. Runs that
	// can no longer grow are sent once they make up eagerBytes, so that the
	// receiver works while the next super-packet is sealed.
	areaRuns   = 32
	areaBytes  = 4 * 65536
	eagerBytes = 32768
)

// area is where one outward worker seals: records of one destination and
// length lie side by side as a run, sent with one message. On TCP a run's
// records may differ in length. Only the youngest run can grow; it may be left
// open across super-packets.
type area struct {
	c      *OutCounters
	sender *udp.Sender
	limit  int // records per run
	most   int // runs

	buf  []byte
	used int
	runs []udp.Run
	info []runInfo
}

// runInfo is what the worker remembers of a run.
type runInfo struct {
	peer    *peer.Peer
	way     way
	records int
	open    bool
}

// way is how records reach a peer: a listener and an endpoint, or the peer's own
// TCP connection, where each record stands behind its length.
type way struct {
	end    *peer.Endpoint
	conn   *udp.Conn
	stream peer.Stream
}

func newArea(c *OutCounters, sender *udp.Sender, limit, most int) *area {
	return &area{c: c, sender: sender, limit: min(limit, maxSegments), most: most,
		buf:  make([]byte, areaBytes+record.TagLen),
		runs: make([]udp.Run, 0, areaRuns),
		info: make([]runInfo, 0, areaRuns),
	}
}

// next returns room for a record of n bytes to p, with 16 bytes of capacity
// behind it; nil when the area is full and has to be sent first.
func (a *area) next(p *peer.Peer, w way, n int) []byte {
	prefix := 0
	if w.stream != nil {
		prefix = tcp.PrefixLen
	}
	size := prefix + n
	if a.used+size > areaBytes {
		return nil
	}
	last := len(a.runs) - 1
	if last >= 0 && a.info[last].open {
		r, i := &a.runs[last], &a.info[last]
		same := i.peer == p && i.way.end == w.end && i.way.conn == w.conn // a peer's stream never changes
		if same && (w.stream != nil || size <= r.SegmentSize) && len(r.Data)+size <= maxRunBytes {
			dst := a.take(prefix, n)
			r.Data = r.Data[:len(r.Data)+size]
			i.records++
			i.open = (w.stream != nil || size == r.SegmentSize) && i.records < a.limit && len(r.Data)+size <= maxRunBytes
			return dst
		}
		i.open = false
	}
	if len(a.runs) == a.most {
		return nil
	}
	start := a.used
	dst := a.take(prefix, n)
	run := udp.Run{SegmentSize: size, Data: a.buf[start:a.used:areaBytes]}
	if w.end != nil {
		run.Remote, run.Local = w.end.Remote, w.end.Local.Addr()
	}
	a.runs = append(a.runs, run)
	a.info = append(a.info, runInfo{peer: p, way: w, records: 1, open: a.limit > 1})
	return dst
}

// take takes room for a record of n bytes, behind its length if that is wanted.
func (a *area) take(prefix, n int) []byte {
	start := a.used + prefix
	if prefix > 0 {
		tcp.PutPrefix(a.buf[a.used:], n)
	}
	a.used = start + n
	return a.buf[start : a.used : a.used+record.TagLen]
}

// eager reports whether enough closed runs wait to be worth a send.
func (a *area) eager() bool {
	closed := a.used
	if last := len(a.runs) - 1; last >= 0 && a.info[last].open {
		closed -= len(a.runs[last].Data)
	}
	return closed >= eagerBytes
}

// sendClosed sends all runs but an open last one, which moves to the front.
func (a *area) sendClosed(now int64) {
	last := len(a.runs) - 1
	if last < 0 {
		return
	}
	if !a.info[last].open {
		a.sendAll(now)
		return
	}
	if last == 0 {
		return
	}
	a.send(last, now)
	run, info := a.runs[last], a.info[last]
	a.used = copy(a.buf, run.Data)
	run.Data = a.buf[:a.used:areaBytes]
	a.runs, a.info = append(a.runs[:0], run), append(a.info[:0], info)
}

// sendAll sends every run.
func (a *area) sendAll(now int64) {
	a.send(len(a.runs), now)
	a.runs, a.info, a.used = a.runs[:0], a.info[:0], 0
}

// send sends the first n runs, those of one socket with one call, and counts
// what became of each. Runs leave in order.
func (a *area) send(n int, now int64) {
	for first := 0; first < n; {
		end := first + 1
		if stream := a.info[first].way.stream; stream != nil {
			a.stream(stream, &a.runs[first], &a.info[first], now)
			first = end
			continue
		}
		for end < n && a.info[end].way.conn == a.info[first].way.conn {
			end++
		}
		a.sender.Send(a.info[first].way.conn, a.runs[first:end])
		for i := first; i < end; i++ {
			a.account(&a.runs[i], &a.info[i], now)
		}
		first = end
	}
}

func (a *area) account(r *udp.Run, i *runInfo, now int64) {
	a.c.Sends.Add(1)
	sent := min(r.Sent, i.records)
	if sent > 0 {
		i.peer.LinkOut.Add(sent, min(sent*r.SegmentSize, len(r.Data)))
		i.peer.LastSent.Store(now)
	}
	switch {
	case sent == i.records:
	case udp.TooLong(r.Err):
		a.c.drop(reason.MessageSize, i.records-sent)
	default:
		a.c.drop(reason.SendError, i.records-sent)
	}
}

// stream hands a run to a peer's TCP connection and counts what became of it.
func (a *area) stream(to peer.Stream, r *udp.Run, i *runInfo, now int64) {
	a.c.Sends.Add(1)
	sent := min(to.SendFrames(r.Data), i.records)
	if sent > 0 {
		bytes := 0
		for b, n := r.Data, 0; n < sent; n++ {
			size := tcp.PrefixLen + tcp.Prefix(b)
			bytes += size - tcp.PrefixLen
			b = b[size:]
		}
		i.peer.LinkOut.Add(sent, bytes)
		i.peer.LastSent.Store(now)
	}
	a.c.drop(reason.StreamFull, i.records-sent)
}
