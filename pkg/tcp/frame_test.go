// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
)

// framed is the packets as they stand in a stream.
func framed(packets ...[]byte) (b []byte) {
	for _, p := range packets {
		b = append(b, byte(len(p)>>8), byte(len(p)))
		b = append(b, p...)
	}
	return b
}

// filled is n bytes that tell their position and seed.
func filled(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)*7 + byte(i>>8) + seed
	}
	return b
}

func TestSplit(t *testing.T) {
	a, b, c := filled(1, 1), filled(300, 2), filled(65535, 3)
	for name, x := range map[string]struct {
		in    []byte
		room  int
		limit int
		want  [][]byte
		rest  int
		err   error
	}{
		"nothing":                 {nil, 9, 99, nil, 0, nil},
		"half a length":           {framed(a)[:1], 9, 99, nil, 1, nil},
		"a length":                {framed(b)[:2], 9, 300, nil, 2, nil},
		"one byte is lacking":     {framed(b)[:301], 9, 300, nil, 301, nil},
		"three":                   {framed(a, b, a), 9, 300, [][]byte{a, b, a}, 0, nil},
		"one and the next begun":  {framed(a, b)[:4], 9, 300, [][]byte{a}, 1, nil},
		"the longest there is":    {framed(c, a), 9, 65535, [][]byte{c, a}, 0, nil},
		"more than there is room": {framed(a, a, a, b), 2, 300, [][]byte{a, a}, 3 + 302, nil},
		"length 0":                {append(framed(a), 0, 0, 1, 1), 9, 300, [][]byte{a}, 4, ErrFrame},
		"above the limit":         {framed(a, b), 9, 299, [][]byte{a}, 302, ErrFrame},
		"above it, not whole":     {framed(b)[:2], 9, 299, nil, 2, ErrFrame},
	} {
		got, rest, err := Split(x.in, make([][]byte, 0, x.room), x.limit)
		if !slices.EqualFunc(got, x.want, bytes.Equal) || len(rest) != x.rest || !errors.Is(err, x.err) {
			t.Errorf("%s: %d packets, %d bytes left, %v", name, len(got), len(rest), err)
		}
		if !bytes.HasSuffix(x.in, rest) {
			t.Errorf("%s: the rest is not the end", name)
		}
	}
}

func TestWhole(t *testing.T) {
	b := framed(filled(1, 1), filled(300, 2), filled(2, 3))
	ends := []int{0, 3, 305, 309}
	for n := -1; n <= len(b)+1; n++ {
		frames, end := whole(b, n)
		want := 0
		for i, e := range ends {
			if e <= n {
				want = i
			}
		}
		if frames != want || end != ends[want] {
			t.Fatalf("within %d bytes: %d frames that end at %d, want %d", n, frames, end, want)
		}
	}
}

// However a stream is cut, the same packets come out up to the same bad length.
func FuzzSplit(f *testing.F) {
	f.Add([]byte{}, uint16(10), uint8(3), uint64(1))
	f.Add(framed(filled(1, 1), filled(40, 2), filled(9, 9)), uint16(40), uint8(1), uint64(2))
	f.Add(append(framed(filled(5, 1)), 0, 0), uint16(40), uint8(2), uint64(3))
	f.Add(framed(filled(300, 1))[:150], uint16(400), uint8(2), uint64(3))
	f.Fuzz(func(t *testing.T, b []byte, limit uint16, room uint8, seed uint64) {
		want, _, wantErr := Split(b, make([][]byte, 0, len(b)+1), int(limit))
		for _, p := range want {
			if len(p) == 0 || len(p) > int(limit) {
				t.Fatalf("packet of %d bytes", len(p))
			}
		}
		r := rand.New(rand.NewPCG(seed, 0))
		into := make([][]byte, 0, int(room)+1)
		var got [][]byte
		var have []byte
		var err error
		for rest := b; err == nil && len(rest) > 0; {
			n := 1 + r.IntN(len(rest))
			have = append(slices.Clone(have), rest[:n]...)
			rest = rest[n:]
			for {
				var packets [][]byte
				packets, have, err = Split(have, into, int(limit))
				for _, p := range packets {
					got = append(got, bytes.Clone(p))
				}
				if err != nil || len(packets) < cap(into) {
					break
				}
			}
		}
		if !slices.EqualFunc(got, want, bytes.Equal) || !errors.Is(err, wantErr) {
			t.Fatalf("in pieces %d packets and %v, at once %d and %v", len(got), err, len(want), wantErr)
		}
	})
}
