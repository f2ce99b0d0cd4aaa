// SPDX-License-Identifier: Apache-2.0

package vnet

import (
	"bytes"
	"testing"
)

func TestHeader(t *testing.T) {
	h := Header{Flags: NeedsCsum, GSOType: GSOTCPv4 | GSOECN, HdrLen: 0x0102, GSOSize: 0x0304, CsumStart: 0x0506, CsumOffset: 0x0708}
	b := bytes.Repeat([]byte{0xa5}, HeaderLen+1)
	h.Put(b)
	want := []byte{1, 0x81, 2, 1, 4, 3, 6, 5, 8, 7}
	if !bytes.Equal(b, append(want, 0xa5)) {
		t.Errorf("% x, want % x", b, want)
	}
	if got, ok := Parse(b); !ok || got != h {
		t.Errorf("ok %v, %+v", ok, got)
	}
	for n := range HeaderLen {
		if got, ok := Parse(b[:n]); ok || got != (Header{}) {
			t.Errorf("%d bytes: ok %v, %+v", n, ok, got)
		}
	}
}

func FuzzHeader(f *testing.F) {
	f.Add([]byte{1, 1, 66, 0, 0x64, 5, 34, 0, 16, 0})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, ok := Parse(b)
		if ok != (len(b) >= 10) {
			t.Fatalf("%d bytes: ok %v", len(b), ok)
		}
		if !ok {
			return
		}
		var again [HeaderLen]byte
		h.Put(again[:])
		if !bytes.Equal(again[:], b[:HeaderLen]) {
			t.Fatalf("% x became % x", b[:HeaderLen], again)
		}
	})
}
