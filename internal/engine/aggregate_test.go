// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/record"
)

// fakeRecord has the header of a record and random bytes behind it.
func fakeRecord(r *rand.ChaCha8, word, id uint32, n int) []byte {
	b := make([]byte, n)
	_, _ = r.Read(b)
	binary.BigEndian.PutUint32(b, word)
	binary.BigEndian.PutUint32(b[4:], id)
	return b
}

func TestSegmentSize(t *testing.T) {
	r := rand.NewChaCha8([32]byte{7})
	word := record.Word(record.DataV2, 2, 7)
	for _, n := range []int{25, 26, 100, 1444, 1445} {
		for _, last := range []int{25, n/2 + 25, n} {
			if last > n {
				continue
			}
			var b []byte
			for i := range uint32(9) {
				b = append(b, fakeRecord(r, word, 1000+i, n)...)
			}
			b = append(b, fakeRecord(r, word, 1009, last)...)
			if got := segmentSize(b); got != n {
				t.Errorf("ten records of %d, the last of %d: %d", n, last, got)
			}
			// Ids out of order, and a key swapped in between.
			two := append(fakeRecord(r, word, 1000, n), fakeRecord(r, record.Word(record.DataV2, 3, 7), 990, last)...)
			if got := segmentSize(two); got != n {
				t.Errorf("two records of %d and %d: %d", n, last, got)
			}
		}
	}
	for n := range 3000 {
		if n < record.MinLen {
			continue
		}
		if got := segmentSize(fakeRecord(r, word, 5, n)); got != 0 {
			t.Errorf("one record of %d: %d", n, got)
		}
	}
	for n := range 60 {
		segmentSize(make([]byte, n)) // peer id 0 everywhere
	}
	all := make([]byte, 2000)
	all[0] = 0x48
	if got := segmentSize(all); got != 0 {
		t.Errorf("zeros: %d", got)
	}
}
