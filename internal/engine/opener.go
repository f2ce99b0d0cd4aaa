// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"github.com/ovpn-xdp/ovpn-xdp/pkg/aead"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/coalesce"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/peer"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/reason"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/record"
)

// MaxBurst is the most records one burst holds. Eight aggregates of 64
// segments; at 1,444 bytes a burst then touches 740 KB, which stays in a core's
// L2 cache.
const MaxBurst = 512

// Sink takes the plaintext of accepted records.
type Sink interface {
	// Opened is called once per batch with the plaintext of its accepted
	// records, keepalives included, in order of arrival. The bytes lie in the
	// source's memory and stay valid until the source's burst is over; the slice
	// itself is reused.
	Opened(p *peer.Peer, plain [][]byte)
}

// Opener coalesces bursts, opens the records in place and commits them. It
// belongs to one worker. Every record given to Burst is either passed to the
// sink or counted as exactly one drop.
type Opener struct {
	Counters *InCounters

	peers    *peer.Table
	sink     Sink
	group    *coalesce.Grouper
	scratch  *aead.Scratch
	prefetch int

	// only is the one peer whose records a TCP connection may carry, set for each
	// burst; nil: the source carries datagrams, of peers that have no connection.
	only *peer.Peer

	records [coalesce.MaxBatch][]byte
	ids     [coalesce.MaxBatch]uint32
	ok      [coalesce.MaxBatch]bool
	suspect []byte // copy of one record, for the same-role check
}

// NewOpener returns an Opener over a table of peers. batch (1..64) ends a
// batch, prefetch is how many records ahead are brought into the cache.
func NewOpener(peers *peer.Table, sink Sink, batch, prefetch int) *Opener {
	return &Opener{
		Counters: new(InCounters),
		peers:    peers,
		sink:     sink,
		group:    coalesce.New(batch, MaxBurst),
		scratch:  aead.NewScratch(),
		prefetch: prefetch,
		suspect:  make([]byte, 0, 1<<16),
	}
}

// Burst opens up to MaxBurst records, in place. Their Data needs 16 bytes of
// capacity behind it. now is monotonic nanoseconds; mayFloat says that the
// records passed the host's stack and firewall, so that an endpoint may move.
// The slice is reordered.
func (o *Opener) Burst(burst []coalesce.Record, now int64, mayFloat bool) {
	n := 0
	for i := range burst {
		if len(burst[i].Data) >= record.MinLen {
			if n != i {
				burst[n] = burst[i]
			}
			n++
		}
	}
	o.Counters.drop(reason.BadRecord, len(burst)-n)
	burst = burst[:n]
	if n == 0 {
		return
	}
	batches := o.group.Group(burst)
	o.Counters.Batches.Add(uint64(len(batches)))
	for i := range batches {
		o.batch(burst, &batches[i], now, mayFloat)
	}
}

// batch opens and commits one batch.
func (o *Opener) batch(burst []coalesce.Record, b *coalesce.Batch, now int64, mayFloat bool) {
	n := len(b.Index)
	flow := &burst[b.Index[0]].Flow
	var p *peer.Peer
	switch id := record.PeerID(b.Word); {
	case id != record.PeerIDUndef:
		p = o.peers.Lookup(id)
	case o.only != nil:
		p = o.only
	default:
		p = o.peers.LookupRemote(flow.Src)
	}
	if p == nil {
		o.Counters.drop(reason.UnknownPeer, n)
		return
	}
	if p != o.only && (o.only != nil || p.Stream() != nil) {
		o.Counters.drop(reason.OtherTransport, n)
		return
	}
	records, ids, ok := o.records[:n], o.ids[:n], o.ok[:n]
	bytes := 0
	for i, at := range b.Index {
		records[i] = burst[at].Data
		_, ids[i], _ = record.Parse(records[i])
		bytes += len(records[i])
	}
	p.LinkIn.Add(n, bytes)
	key := p.KeyByID(record.KeyID(b.Word))
	if key == nil {
		o.Counters.drop(reason.NoKey, n)
		return
	}
	suspected := o.keepSuspect(key, records[0], now)
	opened := key.Opener().Open(o.scratch, records, ok, o.prefetch)
	if opened < n {
		o.Counters.drop(reason.Auth, n-opened)
		o.failed(p, key, n-opened, suspected && !ok[0])
	}
	if opened == 0 {
		return
	}
	p.Used(key, key.Opened(opened, uint64(bytes)/16), peer.WhyUsage)
	accepted, highest := key.Commit(ids, ok, now)
	o.Counters.drop(reason.Replay, opened-accepted)
	if accepted == 0 {
		return
	}
	p.Received(now)
	if highest {
		p.Moved(flow.Src, flow.Dst, mayFloat, now)
	}
	plain := records[:0]
	for i, r := range records {
		if ok[i] {
			plain = append(plain, r[record.Overhead:])
		}
	}
	o.sink.Opened(p, plain)
}

// keepSuspect copies the first record of a batch before it is opened when the
// key has only had failures and a same-role check is due: opening in place
// destroys it. A key that has received is right on both ends, and our own record
// sent back by somebody must not kill it.
func (o *Opener) keepSuspect(key *peer.Key, first []byte, now int64) bool {
	if key.Failures() == 0 || key.HasReceived() || len(first) > 1<<16-record.TagLen || !key.Suspect(now) {
		return false
	}
	o.suspect = append(o.suspect[:0], first...)
	return true
}

// failed counts records that did not authenticate and looks whether the two
// ends were given the same role: then our own sending key opens them.
func (o *Opener) failed(p *peer.Peer, key *peer.Key, n int, suspected bool) {
	p.Used(key, key.Failed(n), peer.WhyFailures)
	if !suspected {
		return
	}
	copied := [1][]byte{o.suspect}
	var ok [1]bool
	if key.Sealer().Open(o.scratch, copied[:], ok[:], 0) == 1 {
		p.KillKey(key, peer.WhySameRole)
	}
}
