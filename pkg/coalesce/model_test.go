// SPDX-License-Identifier: Apache-2.0

package coalesce

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/packet"
)

// modelBatch is one batch of the reference.
type modelBatch struct {
	word  uint32
	index []int
	ended bool
}

// model groups a burst straight from the rule, looking through all batches for
// every record.
func model(burst []Record, maxBatch int) []*modelBatch {
	var batches []*modelBatch
	for i, r := range burst {
		word := binary.BigEndian.Uint32(r.Data)
		var youngest *modelBatch
		for _, b := range batches {
			first := burst[b.index[0]].Flow
			if first.Src == r.Flow.Src && first.Dst == r.Flow.Dst {
				youngest = b
			}
		}
		if youngest != nil && !youngest.ended && youngest.word == word {
			first := burst[youngest.index[0]]
			if first.Flow == r.Flow && len(r.Data) <= len(first.Data) {
				youngest.index = append(youngest.index, i)
				youngest.ended = len(r.Data) < len(first.Data) || len(youngest.index) == maxBatch
				continue
			}
		}
		batches = append(batches, &modelBatch{word: word, index: []int{i}, ended: maxBatch == 1})
	}
	return batches
}

// compare groups a burst and asks for the model's answer, and for what must
// hold whatever the rule.
func compare(t *testing.T, g *Grouper, burst []Record) {
	t.Helper()
	got, want := g.Group(burst), model(burst, g.max)
	if len(got) != len(want) {
		t.Fatalf("%d batches, want %d", len(got), len(want))
	}
	seen := make([]int, len(burst))
	last := map[[2]netip.AddrPort]int{} // youngest record of an outer flow so far
	first := -1
	for i, b := range got {
		if b.Word != want[i].word || !slices.EqualFunc(b.Index, want[i].index, func(a uint16, b int) bool { return int(a) == b }) {
			t.Fatalf("batch %d: word %08x, records %v; want %08x, %v", i, b.Word, b.Index, want[i].word, want[i].index)
		}
		if int(b.Index[0]) <= first {
			t.Fatalf("batch %d, which begins with record %d, comes behind one that begins with %d", i, b.Index[0], first)
		}
		first = int(b.Index[0])
		head := burst[first]
		for n, at := range b.Index {
			r := burst[at]
			seen[at]++
			flow := [2]netip.AddrPort{r.Flow.Src, r.Flow.Dst}
			if before, ok := last[flow]; ok && before >= int(at) {
				t.Fatalf("record %d overtook record %d of its flow", before, at)
			}
			last[flow] = int(at)
			if r.Flow != head.Flow || binary.BigEndian.Uint32(r.Data) != b.Word {
				t.Fatalf("batch %d: record %d differs from its first", i, at)
			}
			if n < len(b.Index)-1 && len(r.Data) != len(head.Data) || len(r.Data) > len(head.Data) {
				t.Fatalf("batch %d: record %d of %d has %d bytes, the first %d", i, n, len(b.Index), len(r.Data), len(head.Data))
			}
		}
		if len(b.Index) > g.max {
			t.Fatalf("batch %d has %d records", i, len(b.Index))
		}
	}
	for at, n := range seen {
		if n != 1 {
			t.Fatalf("record %d is in %d batches", at, n)
		}
	}
}

// flow returns outer flow n of 65,536; every fourth is IPv6.
func flow(n int) packet.Flow {
	f := packet.Flow{
		Src: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(n >> 8)}), uint16(1024+n&0xff)),
		Dst: netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 51, 100, 1}), 1194),
		TTL: 63,
		DF:  n&1 == 0,
	}
	if n&3 == 3 {
		a := netip.MustParseAddr("2001:db8::1").As16()
		a[15] = byte(n >> 8)
		f.Src = netip.AddrPortFrom(netip.AddrFrom16(a), f.Src.Port())
		f.Dst = netip.AddrPortFrom(netip.MustParseAddr("2001:db8:1::1"), 1194)
		f.DF = false
	}
	return f
}

// rec makes a record of a flow with a header word and a length of 4 bytes or more.
func rec(f packet.Flow, word uint32, length int) Record {
	b := make([]byte, length)
	binary.BigEndian.PutUint32(b, word)
	return Record{Flow: f, Data: b}
}
