// SPDX-License-Identifier: Apache-2.0

package aead

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"
)

// All benchmarks report ns/record, over batches of 64 records, the most that a
// batch holds. "hot" goes over one batch again and again; "seq" and "random"
// go over a 64 MiB ring of 2048-byte chunks (larger ones for larger records),
// as frames lie in a UMEM, in order and in an order no prefetcher guesses.
const (
	ringBytes = 64 << 20
	batch     = 64
)

func stride(plain int) int {
	if plain+headLen+Slack > 2048 {
		return 9216
	}
	return 2048
}

// ringMemory is mapped once and shared by all benchmarks.
var ringMemory []byte

func benchRing(b *testing.B) []byte {
	if ringMemory == nil {
		var err error
		if ringMemory, err = unix.Mmap(-1, 0, ringBytes, unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE); err != nil {
			b.Fatal(err)
		}
	}
	return ringMemory
}

// layout is the chunks in the order of the benchmark.
func layout(b *testing.B, order string, plain int) [][]byte {
	mem, step := benchRing(b), stride(plain)
	n := ringBytes / step / batch * batch
	if order == "hot" {
		n = batch
	}
	chunks := make([][]byte, n)
	for i := range chunks {
		chunks[i] = mem[i*step : (i+1)*step]
	}
	if order == "random" {
		rand.New(rand.NewPCG(1, 2)).Shuffle(n, func(i, j int) { chunks[i], chunks[j] = chunks[j], chunks[i] })
	}
	return chunks
}

// matrix runs f for every cipher and size hot, for every cipher with 1420 bytes
// cold at each distance, and for the other sizes cold with and without prefetch.
func matrix(b *testing.B, f func(b *testing.B, c Cipher, size int, order string, distance int)) {
	run := func(c Cipher, size int, order string, distance int) {
		b.Run(fmt.Sprintf("cipher=%s/size=%d/order=%s/distance=%d", c, size, order, distance), func(b *testing.B) {
			f(b, c, size, order, distance)
		})
	}
	sizes := []int{64, 576, 1420, 8900}
	for _, c := range Ciphers() {
		for _, size := range sizes {
			run(c, size, "hot", 0)
		}
		for _, order := range []string{"seq", "random"} {
			for distance := range 5 {
				run(c, 1420, order, distance)
			}
		}
	}
	for _, size := range []int{64, 576, 8900} {
		for _, order := range []string{"seq", "random"} {
			run(AES128GCM, size, order, 0)
			run(AES128GCM, size, order, 2)
		}
	}
}

func report(b *testing.B, size int) {
	b.SetBytes(int64(size))
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N), "ns/record")
	b.ReportMetric(0, "ns/op")
}

func BenchmarkOpen(b *testing.B) {
	matrix(b, func(b *testing.B, c Cipher, size int, order string, distance int) {
		k, _, _ := material(b, c)
		scratch, ok := NewScratch(), make([]bool, batch)
		chunks := layout(b, order, size)
		records, items := make([][]byte, len(chunks)), make([]SealItem, len(chunks))
		plain := make([]byte, size)
		for i, chunk := range chunks {
			records[i] = chunk[:headLen+size]
			items[i] = SealItem{Dst: records[i], Word: 0x48000001, PacketID: uint32(i + 1), Buf: plain, Len: size}
		}
		b.ResetTimer()
		for done := 0; done < b.N; {
			// Opening destroys the ciphertext, so it is made anew, untimed.
			b.StopTimer()
			k.Seal(scratch, items, 0)
			b.StartTimer()
			for at := 0; at < len(records) && done < b.N; at += batch {
				n := min(batch, b.N-done)
				if k.Open(scratch, records[at:at+n], ok, distance) != n {
					b.Fatal("a record did not open")
				}
				done += n
			}
		}
		report(b, size)
	})
}

func BenchmarkSeal(b *testing.B) {
	matrix(b, func(b *testing.B, c Cipher, size int, order string, distance int) {
		k, _, _ := material(b, c)
		scratch := NewScratch()
		chunks := layout(b, order, size)
		// The send area is one batch large, packed, and stays warm.
		area := make([]byte, batch*(headLen+size)+Slack)
		items := make([]SealItem, len(chunks))
		for i, chunk := range chunks {
			at := i % batch * (headLen + size)
			items[i] = SealItem{Dst: area[at : at+headLen+size], Word: 0x48000001, PacketID: uint32(i + 1), Buf: chunk, Len: size}
		}
		b.ResetTimer()
		for done := 0; done < b.N; {
			for at := 0; at < len(items) && done < b.N; at += batch {
				n := min(batch, b.N-done)
				k.Seal(scratch, items[at:at+n], distance)
				done += n
			}
		}
		report(b, size)
	})
}

// What an AES batch costs after a ChaCha20-Poly1305 batch, which leaves vector
// registers dirty at some lengths, against one after an AES batch.
func BenchmarkOpenAfterOtherCipher(b *testing.B) {
	const size = 1420
	for _, before := range []Cipher{AES256GCM, ChaCha20Poly1305} {
		for _, length := range []int{100, 180, 300, 500, 576, 1420} {
			b.Run(fmt.Sprintf("before=%s/length=%d", before, length), func(b *testing.B) {
				other, _, _ := material(b, before)
				k, _, _ := material(b, AES128GCM)
				scratch, ok := NewScratch(), make([]bool, 1)
				plain := make([]byte, size)
				records := [][]byte{make([]byte, headLen+size, headLen+size+Slack)}
				items := []SealItem{{Dst: records[0], Word: 0x48000001, Buf: plain, Len: size}}
				junk := []SealItem{{Dst: make([]byte, headLen+length, headLen+length+Slack), Buf: plain, Len: length}}
				var spent int64
				for i := range b.N {
					items[0].PacketID = uint32(i)
					k.Seal(scratch, items, 0)
					other.Seal(scratch, junk, 0)
					start := nanoseconds()
					if k.Open(scratch, records, ok, 0) != 1 {
						b.Fatal("record did not open")
					}
					spent += nanoseconds() - start
				}
				b.ReportMetric(float64(spent)/float64(b.N), "ns/record")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

func nanoseconds() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return ts.Nano()
}

// How fast lines are asked for, and how fast they come.
func BenchmarkPrefetch(b *testing.B) {
	for _, f := range []struct {
		name string
		call func([]byte)
	}{{"read", Prefetch}, {"write", PrefetchWrite}} {
		for _, order := range []string{"hot", "random"} {
			b.Run(fmt.Sprintf("for=%s/order=%s", f.name, order), func(b *testing.B) {
				chunks := layout(b, order, 1420)
				var sum uint32
				for i := range b.N {
					f.call(chunks[i%len(chunks)][:1444])
				}
				sum += binary.BigEndian.Uint32(chunks[0])
				_ = sum
			})
		}
	}
}
