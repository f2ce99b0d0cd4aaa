// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"sync"
	"sync/atomic"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/aead"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/peer"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/reason"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/record"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/tun/vnet"
)

// ClientToClient says what becomes of an inner packet from one peer that is
// routed to another. What is for the gateway itself, for nobody's prefix or for a
// prefix of the sender's own is none of this and goes to the TUN. So do multicast
// and broadcast packets, which belong to no peer and are not replicated to any.
type ClientToClient uint8

const (
	// C2CHost hands it to the TUN as all others: the host routes it back, or
	// not, and its firewall decides.
	C2CHost ClientToClient = iota
	// C2CInside seals it for the other peer without passing the host. Its
	// hop limit stays as it is.
	C2CInside
	// C2CBlock drops it, as reason c2c_blocked, without an answer.
	C2CBlock
)

func (c ClientToClient) String() string {
	return [...]string{"host", "inside", "block"}[c]
}

// Bounds of what waits for one outward worker: at 1,400 bytes 1,500 packets, 1.3
// ms at 13 Gbit/s, and four full inward bursts of small ones.
const (
	crossBytes   = 2 << 20
	crossPackets = 4 * vnet.Capacity
)

// crossing is a packet on its way from an inward worker to an outward one. In a
// crossQueue its bytes are the queue's, before that they are the source's.
type crossing struct {
	to  *peer.Peer
	pkt []byte
}

// crossQueue carries packets from inward workers to the outward worker of
// the peers that they go to, which alone may seal for them. Packets are copied,
// since a source's memory is good for one burst only. There are two halves, one that is
// filled and one that is emptied. Memory that was never needed is never touched.
type crossQueue struct {
	waiting atomic.Bool

	mu    sync.Mutex
	bytes []byte
	items []crossing

	otherBytes []byte // the outward worker's
	otherItems []crossing
}

func newCrossQueue() *crossQueue {
	return &crossQueue{
		bytes: make([]byte, 0, crossBytes), items: make([]crossing, 0, crossPackets),
		otherBytes: make([]byte, 0, crossBytes), otherItems: make([]crossing, 0, crossPackets),
	}
}

// put copies packets into the queue, in order, until it is full. It returns how
// many it took and their bytes, and whether the worker has to be woken.
func (q *crossQueue) put(items []crossing) (taken, bytes int, wake bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	wake = len(q.items) == 0
	for _, c := range items {
		at := len(q.bytes)
		if len(q.items) == cap(q.items) || at+len(c.pkt) > cap(q.bytes) {
			break
		}
		q.bytes = append(q.bytes, c.pkt...)
		q.items = append(q.items, crossing{c.to, q.bytes[at:]})
		taken++
		bytes += len(c.pkt)
	}
	if taken > 0 {
		q.waiting.Store(true)
	}
	return taken, bytes, wake && taken > 0
}

// take returns what is in the queue. It belongs to the outward worker until its
// next take.
func (q *crossQueue) take() []crossing {
	if !q.waiting.Load() {
		return nil
	}
	clear(q.otherItems) // peers that have gone should not be kept
	q.mu.Lock()
	defer q.mu.Unlock()
	items, bytes := q.items, q.bytes
	q.items, q.bytes = q.otherItems[:0], q.otherBytes[:0]
	q.otherItems, q.otherBytes = items, bytes
	q.waiting.Store(false)
	return items
}

// cross is an inward worker's side: it collects packets for other peers until its
// burst is over.
type cross struct {
	policy  ClientToClient
	outward []*outward
	held    int
	items   [][]crossing // by outward worker
}

func (e *Engine) newCross() cross {
	c := cross{policy: e.cfg.ClientToClient, outward: e.outward}
	if c.policy == C2CInside {
		for range e.outward {
			c.items = append(c.items, make([]crossing, 0, vnet.Capacity))
		}
	}
	return c
}

// add collects a packet, whose bytes must stay until flush; at most
// vnet.Capacity of them may be held.
func (c *cross) add(to *peer.Peer, pkt []byte) {
	i := QueueOf(to, len(c.outward))
	c.items[i] = append(c.items[i], crossing{to, pkt})
	c.held++
}

// flush hands on what was collected, one lock per outward worker.
func (c *cross) flush(count *InCounters) {
	if c.held == 0 {
		return
	}
	for i, items := range c.items {
		if len(items) == 0 {
			continue
		}
		o := c.outward[i]
		taken, bytes, wake := o.cross.put(items)
		count.C2C.Add(uint64(taken))
		count.C2CBytes.Add(uint64(bytes))
		count.drop(reason.C2CQueue, len(items)-taken)
		if wake {
			o.poller.Wake()
		}
		clear(items)
		c.items[i] = items[:0]
	}
	c.held = 0
}

// crossed seals what inward workers handed over from other peers, and reports
// whether there was anything.
func (o *outward) crossed() bool {
	if o.cross == nil {
		return false
	}
	items := o.cross.take()
	o.c.C2C.Add(uint64(len(items)))
	found := len(items) > 0
	for len(items) > 0 {
		p, n := items[0].to, 1
		for n < min(len(items), len(o.items)) && items[n].to == p {
			n++
		}
		o.sealRow(p, items[:n])
		items = items[n:]
	}
	return found
}

// sealRow seals packets to one peer, no more of them than there are items.
func (o *outward) sealRow(p *peer.Peer, row []crossing) {
	bytes := 0
	for i := range row {
		bytes += len(row[i].pkt)
	}
	w, id, ok := o.begin(p, len(row), bytes)
	if !ok {
		return
	}
	for i := range row {
		pkt := row[i].pkt
		to := o.area.next(p, w, record.Overhead+len(pkt))
		if to == nil {
			o.sealPending()
			o.area.sendAll(Monotonic())
			to = o.area.next(p, w, record.Overhead+len(pkt))
		}
		o.place(aead.SealItem{Dst: to, Word: o.word, PacketID: id + uint32(i), Buf: pkt, Len: len(pkt)})
	}
	o.sealed(p, len(row), bytes)
}
