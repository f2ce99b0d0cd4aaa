// SPDX-License-Identifier: Apache-2.0

package aead

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"
)

// A prefetch changes nothing and does not fault, wherever a slice begins and
// ends, the last byte before memory that must not be touched included.
func TestPrefetchTouchesNothing(t *testing.T) {
	page := unix.Getpagesize()
	mem, err := unix.Mmap(-1, 0, 2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mem)
	if err := unix.Mprotect(mem[page:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	last := mem[:page:page]
	for i := range last {
		last[i] = byte(i)
	}
	before := bytes.Clone(last)
	for size := range 300 {
		for _, p := range [][]byte{last[page-size:], last[:size], last[13 : 13+size]} {
			Prefetch(p)
			PrefetchWrite(p)
		}
	}
	Prefetch(nil)
	PrefetchWrite(nil)
	if !bytes.Equal(last, before) {
		t.Error("memory changed")
	}
}
