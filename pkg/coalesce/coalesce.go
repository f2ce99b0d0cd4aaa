// SPDX-License-Identifier: Apache-2.0

// Package coalesce groups the records of one burst into batches, so that work
// which depends only on the outer flow and the header word (peer and key
// look-up, locks, counters) is done once per batch. It groups ciphertext by
// key; grouping plaintext by inner flow is pkg/tun/vnet's job. It holds no file
// descriptors and allocates nothing after New.
package coalesce

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"net/netip"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/packet"
)

// MaxBatch is the most records one batch holds. A stock sender's aggregate
// ends at 64 segments (UDP_MAX_SEGMENTS of kernels before 6.9), so longer
// batches would only mix aggregates.
const MaxBatch = 64

// Record is one DATA_V2 datagram of a burst: its outer flow and its whole UDP
// payload, at least 4 bytes. The bytes belong to the source that received
// them; 16 bytes of capacity behind the payload are needed by aead.Open.
type Record struct {
	Flow packet.Flow
	Data []byte
}

// Batch is a group of records with one outer flow (addresses, ports, traffic
// class, hop limit, DF) and one header word.
type Batch struct {
	Word  uint32   // opcode, key id and peer id, as in record.Word
	Index []uint16 // positions in the burst, in order of arrival; never empty
}

// Grouper groups bursts. It belongs to one worker and must not be used
// concurrently.
type Grouper struct {
	max     int
	seed    [2]uint64
	slots   []slot
	mask    uint64
	epoch   uint32
	open    []openBatch // per batch of this burst
	member  []uint16    // per record: its batch
	order   []uint16
	batches []Batch
}

// slot is one entry of the table of outer flows; it is valid when its epoch
// is the burst's.
type slot struct {
	epoch uint32
	batch uint16 // the youngest batch of this flow
}

type openBatch struct {
	first   uint16 // burst position of the first record
	count   uint16
	closed  bool
	nominal int // length of the first record in bytes
	word    uint32
	start   int
}

// New returns a Grouper for bursts of up to maxBurst records (1..32768), which
// ends a batch at maxBatch records (1..MaxBatch).
func New(maxBatch, maxBurst int) *Grouper {
	if maxBatch < 1 || maxBatch > MaxBatch || maxBurst < 1 || maxBurst > 1<<15 {
		panic("coalesce: batch or burst size out of range")
	}
	size := 1 << bits.Len(uint(2*maxBurst-1)) // at most half full
	return &Grouper{
		max:     maxBatch,
		seed:    [2]uint64{rand.Uint64() | 1, rand.Uint64() | 1},
		slots:   make([]slot, size),
		mask:    uint64(size - 1),
		open:    make([]openBatch, 0, maxBurst),
		member:  make([]uint16, maxBurst),
		order:   make([]uint16, maxBurst),
		batches: make([]Batch, 0, maxBurst),
	}
}

// Group divides a burst into batches. Batches of one outer flow come in order
// of arrival: a record that cannot join the flow's youngest batch closes it and
// starts the next, so nothing overtakes. The first record of a batch sets its
// nominal length; a longer record starts the next batch, a shorter one joins
// and ends its batch. The result is borrowed until the next call. A burst
// longer than New's maxBurst panics.
func (g *Grouper) Group(burst []Record) []Batch {
	g.epoch++
	if g.epoch == 0 { // wrapped: forget slots of 2^32 bursts ago
		clear(g.slots)
		g.epoch = 1
	}
	g.open = g.open[:0]
	last := -1 // batch of the previous record, the youngest of its flow
	for i := range burst {
		r := &burst[i]
		word := binary.BigEndian.Uint32(r.Data)
		// Most records join the batch of the one before them.
		if last >= 0 && g.join(burst, last, r, word) {
			g.member[i] = uint16(last)
			continue
		}
		s := g.find(burst, r)
		if s.epoch == g.epoch && int(s.batch) != last && g.join(burst, int(s.batch), r, word) {
			last = int(s.batch)
			g.member[i] = s.batch
			continue
		}
		last = len(g.open)
		*s = slot{epoch: g.epoch, batch: uint16(last)}
		g.open = append(g.open, openBatch{first: uint16(i), count: 1, closed: g.max == 1, nominal: len(r.Data), word: word})
		g.member[i] = uint16(last)
	}
	return g.collect(len(burst))
}

// join adds a record to batch b if the batch rule allows. A record of b's outer
// flow that may not join starts the flow's next batch, so b is never tried again.
func (g *Grouper) join(burst []Record, b int, r *Record, word uint32) bool {
	o := &g.open[b]
	if o.closed || word != o.word || len(r.Data) > o.nominal || r.Flow != burst[o.first].Flow {
		return false
	}
	o.count++
	o.closed = len(r.Data) < o.nominal || int(o.count) >= g.max
	return true
}

// collect turns membership into index lists by a counting sort.
func (g *Grouper) collect(n int) []Batch {
	start := 0
	for b := range g.open {
		g.open[b].start = start
		start += int(g.open[b].count)
	}
	for i := range n {
		o := &g.open[g.member[i]]
		g.order[o.start] = uint16(i)
		o.start++
	}
	g.batches = g.batches[:0]
	for b := range g.open {
		o := &g.open[b]
		g.batches = append(g.batches, Batch{Word: o.word, Index: g.order[o.start-int(o.count) : o.start]})
	}
	return g.batches
}

func (g *Grouper) sameOuter(burst []Record, b int, r *Record) bool {
	f := &burst[g.open[b].first].Flow
	return f.Src == r.Flow.Src && f.Dst == r.Flow.Dst
}

// find returns the slot of r's outer flow, or the empty one where it belongs.
func (g *Grouper) find(burst []Record, r *Record) *slot {
	h := g.hash(r.Flow.Src, r.Flow.Dst)
	for {
		s := &g.slots[h&g.mask]
		if s.epoch != g.epoch || g.sameOuter(burst, int(s.batch), r) {
			return s
		}
		h++
	}
}

// hash mixes addresses and ports with a random seed: a sender chooses both
// and must not be able to choose collisions.
func (g *Grouper) hash(src, dst netip.AddrPort) uint64 {
	a, b := src.Addr().As16(), dst.Addr().As16()
	h := mix(binary.LittleEndian.Uint64(a[:])^g.seed[0], binary.LittleEndian.Uint64(a[8:])^g.seed[1])
	h = mix(h^binary.LittleEndian.Uint64(b[:]), g.seed[0]^binary.LittleEndian.Uint64(b[8:]))
	return mix(h^uint64(src.Port())<<16^uint64(dst.Port()), g.seed[1])
}

func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}
