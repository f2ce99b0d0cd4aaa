// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/aead"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/coalesce"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/packet"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/peer"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/record"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/tun/vnet"
)

// The benchmarks' unit is one record: ns/op is ns per record, and sizes are those
// of the inner packets. "hot" works on a burst that was just written and fits the
// L2 cache, "ring" on 64 MiB of chunks in random order, as a UMEM is after a
// while. What a stage destroys is made anew between passes, off the clock.
const (
	benchBurst = 256
	benchChunk = 2048
	benchRing  = 64 << 20
)

// chunks returns the first size bytes of each chunk, in the order of their use.
func chunks(memory string, size int) [][]byte {
	n := benchBurst
	if memory == "ring" {
		n = benchRing / benchChunk
	}
	area := make([]byte, n*benchChunk)
	out := make([][]byte, n)
	for i, at := range rand.New(rand.NewPCG(1, 2)).Perm(n) {
		out[i] = area[at*benchChunk : at*benchChunk+size : (at+1)*benchChunk]
	}
	return out
}

// passes runs burst over all chunks, burst by burst, until b.N are done.
func passes(b *testing.B, memory string, size, headroom int, refill func([][]byte), burst func([][]byte)) {
	all := chunks(memory, size+headroom)
	b.SetBytes(int64(size))
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; {
		b.StopTimer()
		refill(all)
		b.StartTimer()
		for at := 0; at < len(all) && done < b.N; at += benchBurst {
			burst(all[at : at+benchBurst])
			done += benchBurst
		}
	}
}

// eachCase names the rows of a stage's table.
func eachCase(b *testing.B, distances []int, run func(b *testing.B, memory string, size, distance int)) {
	for _, memory := range []string{"hot", "ring"} {
		for _, size := range []int{64, 576, 1420} {
			for _, distance := range distances {
				b.Run(fmt.Sprintf("mem=%s/size=%d/prefetch=%d", memory, size, distance), func(b *testing.B) {
					run(b, memory, size, distance)
				})
			}
		}
	}
}

// distances are no prefetch and the default.
var distances = []int{0, 2}

// benchStream makes one TCP stream of packets of a size, without end.
type benchStream struct {
	seq uint32
	id  uint16
}

func (s *benchStream) next(size int) []byte {
	payload := size - packet.IPv4Len - packet.TCPLen
	pkt := inner4().tcp(s.id, s.seq, 0x10, text(payload, s.seq))
	s.seq += uint32(payload)
	s.id++
	return pkt
}

// sealedRing seals a stream into chunks, with new packet ids each time.
func sealedRing(far *remote, size int) func([][]byte) {
	var plain [][]byte
	var s benchStream
	return func(all [][]byte) {
		for len(plain) < len(all) {
			plain = append(plain, s.next(size))
		}
		for i, c := range all {
			far.sealInto(c, far.word(), far.next, plain[i])
			far.next++
		}
	}
}

// benchInbound is an Opener and an inner that never writes.
func benchInbound(b *testing.B, sink Sink, distance int) (*Opener, *remote) {
	table := peer.NewTable(false, nil)
	p := addPeer(b, table, peer.Config{ID: 5, Remote: addrPort("192.0.2.1:1194"), Prefixes: prefixes("10.9.0.2/32")})
	return NewOpener(table, sink, coalesce.MaxBatch, distance), addKey(b, p, 0, aead.AES128GCM)
}

type nowhere struct{ n int }

func (s *nowhere) Opened(_ *peer.Peer, plain [][]byte) { s.n += len(plain) }

// BenchmarkOpen is coalesce, open and commit.
func BenchmarkOpen(b *testing.B) {
	eachCase(b, distances, func(b *testing.B, memory string, size, distance int) {
		var sink nowhere
		o, far := benchInbound(b, &sink, distance)
		flow := from("192.0.2.1:1194")
		var records [benchBurst]coalesce.Record
		given := 0
		passes(b, memory, size, record.Overhead, sealedRing(far, size), func(burst [][]byte) {
			for i, data := range burst {
				records[i] = coalesce.Record{Flow: flow, Data: data}
			}
			o.Burst(records[:], second, false)
			given += benchBurst
		})
		if sink.n != given {
			b.Fatalf("%d of %d records opened", sink.n, given)
		}
	})
}

// write asks for all units as flush does, and writes nothing.
func (s *inner) write() (units int) {
	for i := range s.gro.Units() {
		s.pieces, _ = s.gro.Unit(i, s.pieces[:0])
	}
	units = s.gro.Units()
	s.gro.Reset()
	return units
}

func benchInner() *inner {
	return &inner{c: new(InCounters), gro: vnet.NewGRO(vnet.Options{TSO: true, USO: true}), mss: 1380,
		pieces: make([][]byte, 0, 2+vnet.MaxPackets)}
}

// BenchmarkGRO is inner GRO alone, checksums verified, over plaintext.
func BenchmarkGRO(b *testing.B) {
	eachCase(b, []int{0}, func(b *testing.B, memory string, size, _ int) {
		in := benchInner()
		var s benchStream
		units := 0
		passes(b, memory, size, 0, func(all [][]byte) {
			for _, c := range all {
				copy(c, s.next(size))
			}
		}, func(burst [][]byte) {
			for _, pkt := range burst {
				in.gro.Add(pkt)
			}
			units += in.write()
		})
		b.ReportMetric(float64(b.N)/float64(units), "packets/write")
	})
}

// BenchmarkInward is everything between a lease and the TUN write.
func BenchmarkInward(b *testing.B) {
	eachCase(b, distances, func(b *testing.B, memory string, size, distance int) {
		in := benchInner()
		o, far := benchInbound(b, in, distance)
		flow := from("192.0.2.1:1194")
		var records [benchBurst]coalesce.Record
		units := 0
		passes(b, memory, size, record.Overhead, sealedRing(far, size), func(burst [][]byte) {
			for i, data := range burst {
				records[i] = coalesce.Record{Flow: flow, Data: data}
			}
			o.Burst(records[:], second, false)
			units += in.write()
		})
		if o.Counters.Fated() != 0 {
			b.Fatal("records were dropped")
		}
		b.ReportMetric(float64(b.N)/float64(units), "packets/write")
	})
}

// BenchmarkOutward is everything between the TUN read and the send: route, ids,
// segmentation, sealing. Here "ring" is 64 MiB of super-packets.
func BenchmarkOutward(b *testing.B) {
	bed := newBed(b, false)
	bed.peerAt(5, "10.9.0.2/32")
	o := bed.out()
	eachCase(b, []int{0}, func(b *testing.B, memory string, size, _ int) {
		payload := size - packet.IPv4Len - packet.TCPLen
		segments := min(maxSegments, 65535/size)
		master := out4().super(1, 1, 0x10, text(segments*payload, 1), payload)
		n := 8
		if memory == "ring" {
			n = benchRing / len(master)
		}
		reads := make([][]byte, n)
		for i := range reads {
			reads[i] = make([]byte, len(master))
		}
		b.SetBytes(int64(size))
		b.ReportAllocs()
		b.ResetTimer()
		for done := 0; done < b.N; {
			b.StopTimer()
			for _, r := range reads {
				copy(r, master)
			}
			b.StartTimer()
			for i := 0; i < n && done < b.N; i++ {
				o.packet(reads[i])
				done += segments
				if o.area.used > areaBytes/2 { // where it would be sent
					o.area.runs, o.area.info, o.area.used = o.area.runs[:0], o.area.info[:0], 0
				}
			}
		}
	})
	o.area.runs, o.area.info, o.area.used = o.area.runs[:0], o.area.info[:0], 0
}
