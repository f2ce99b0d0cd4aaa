// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// naiveSum is RFC 1071 as written: one word at a time.
func naiveSum(b []byte, initial uint64) uint16 {
	sum := uint32(Fold(initial))
	for i := 0; i < len(b); i += 2 {
		w := uint32(b[i]) << 8
		if i+1 < len(b) {
			w |= uint32(b[i+1])
		}
		sum += w
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}

func TestChecksumAgainstNaive(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	buf := make([]byte, 2100+64)
	for i := range buf {
		buf[i] = byte(r.Uint32())
	}
	for align := range 16 {
		for n := range 2101 {
			b := buf[align : align+n]
			initial := r.Uint64() >> (n % 64)
			if got, want := Fold(Checksum(b, initial)), naiveSum(b, initial); got != want {
				t.Fatalf("align %d length %d initial %#x: %#04x, want %#04x", align, n, initial, got, want)
			}
		}
	}
}

// TestChecksumCarries uses the bytes that carry most.
func TestChecksumCarries(t *testing.T) {
	for _, fill := range []byte{0x00, 0xff} {
		b := make([]byte, 2100)
		for i := range b {
			b[i] = fill
		}
		for n := range len(b) {
			for _, initial := range []uint64{0, 1, 0xffff, 1 << 63, ^uint64(0), ^uint64(0) - 1} {
				if got, want := Fold(Checksum(b[:n], initial)), naiveSum(b[:n], initial); got != want {
					t.Fatalf("fill %#x length %d initial %#x: %#04x, want %#04x", fill, n, initial, got, want)
				}
			}
		}
	}
}

// TestChecksumPieces checks that a sum can be carried over even-sized pieces.
func TestChecksumPieces(t *testing.T) {
	b := make([]byte, 600)
	for i := range b {
		b[i] = byte(i*7 + 3)
	}
	want := naiveSum(b, 0)
	for cut := 0; cut <= len(b); cut += 2 {
		if got := Fold(Checksum(b[cut:], Checksum(b[:cut], 0))); got != want {
			t.Fatalf("cut at %d: %#04x, want %#04x", cut, got, want)
		}
	}
}

// TestChecksumExample is the worked example of RFC 1071, section 3.
func TestChecksumExample(t *testing.T) {
	b := []byte{0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7}
	if got := Fold(Checksum(b, 0)); got != 0xddf2 {
		t.Fatalf("sum %#04x, want 0xddf2", got)
	}
}

func TestPseudoSum(t *testing.T) {
	src4, dst4 := []byte{10, 9, 0, 1}, []byte{255, 255, 255, 254}
	header4 := []byte{10, 9, 0, 1, 255, 255, 255, 254, 0, 17, 0xff, 0xff}
	if got, want := Fold(PseudoSum(src4, dst4, ProtoUDP, 0xffff)), naiveSum(header4, 0); got != want {
		t.Errorf("IPv4: %#04x, want %#04x", got, want)
	}
	src6, dst6 := make([]byte, 16), make([]byte, 16)
	for i := range src6 {
		src6[i], dst6[i] = byte(i+1), 0xff-byte(i)
	}
	header6 := append(append(append([]byte{}, src6...), dst6...), 0, 0, 0x12, 0x34, 0, 0, 0, 6)
	if got, want := Fold(PseudoSum(src6, dst6, ProtoTCP, 0x1234)), naiveSum(header6, 0); got != want {
		t.Errorf("IPv6: %#04x, want %#04x", got, want)
	}
}

func TestUpdate(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	b := make([]byte, 40)
	for range 100000 {
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		b[0] |= 1 // never all zero, so that the sum has one form only
		check := ^naiveSum(b, 0)
		at := 2 + 2*r.IntN(19)
		old := uint16(b[at])<<8 | uint16(b[at+1])
		now := uint16(r.Uint32())
		b[at], b[at+1] = byte(now>>8), byte(now)
		if got := naiveSum(b, uint64(Update(check, old, now))); got != 0xffff {
			t.Fatalf("%#04x with %#04x -> %#04x: sum %#04x", check, old, now, got)
		}
	}
}

func BenchmarkChecksum(b *testing.B) {
	for _, n := range []int{40, 576, 1380, 8900} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := make([]byte, n)
			b.SetBytes(int64(n))
			var sum uint64
			for b.Loop() {
				sum = Checksum(p, sum)
			}
			if sum != 0 {
				b.Fatal("zeros have a sum")
			}
		})
	}
}
