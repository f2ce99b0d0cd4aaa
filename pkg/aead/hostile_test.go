// SPDX-License-Identifier: Apache-2.0

package aead

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
)

// A forged record, whichever byte of it was touched, costs only itself: its
// neighbours in one contiguous buffer open, and no byte outside it changes.
func TestForgedAmongGood(t *testing.T) {
	for _, c := range Ciphers() {
		t.Run(c.String(), func(t *testing.T) {
			k, key, iv := material(t, c)
			ref, scratch := reference(t, c, key), NewScratch()
			plain := []byte("forty bytes of an inner packet, no more.")
			size := 24 + len(plain)
			var run []byte
			for i := range 3 {
				run = append(run, referenceRecord(ref, iv, 0x48000001, uint32(i+1), plain)...)
			}
			fence := bytes.Repeat([]byte{0x5a}, Slack)
			run = append(run, fence...)
			for victim := range 3 {
				for at := range size {
					for _, bit := range []byte{0x01, 0x80} {
						buf := bytes.Clone(run)
						buf[victim*size+at] ^= bit
						records := [][]byte{buf[:size], buf[size : 2*size], buf[2*size : 3*size]}
						head := bytes.Clone(records[victim][:24])
						ok := []bool{true, true, true}
						if n := k.Open(scratch, records, ok, 2); n != 2 {
							t.Fatalf("record %d byte %d: %d opened, want 2", victim, at, n)
						}
						for i, record := range records {
							if ok[i] != (i != victim) {
								t.Fatalf("record %d byte %d: ok is %v", victim, at, ok)
							}
							if i == victim {
								if !bytes.Equal(record[:24], head) {
									t.Fatalf("record %d byte %d: header of the forged record changed", victim, at)
								}
								if leaks(record[24:], plain) {
									t.Fatalf("record %d byte %d: plaintext of a forged record", victim, at)
								}
								continue
							}
							if !bytes.Equal(record[:24], run[i*size:i*size+24]) || !bytes.Equal(record[24:], plain) {
								t.Fatalf("record %d byte %d: neighbour %d is damaged", victim, at, i)
							}
						}
						if !bytes.Equal(buf[3*size:], fence) {
							t.Fatalf("record %d byte %d: bytes behind the run changed", victim, at)
						}
					}
				}
			}
		})
	}
}

// leaks says whether four bytes of plain stand where they would after
// decryption. Chance is below 2^-26 for the lengths here.
func leaks(got, plain []byte) bool {
	for i := 0; i+4 <= len(plain) && i+4 <= len(got); i++ {
		if bytes.Equal(got[i:i+4], plain[i:i+4]) {
			return true
		}
	}
	return false
}

// Every truncation of a good record is bad, as is every extension.
func TestTruncatedAndExtended(t *testing.T) {
	for _, c := range Ciphers() {
		k, key, iv := material(t, c)
		plain := bytes.Repeat([]byte("ab"), 30)
		record := referenceRecord(reference(t, c, key), iv, 0x48000001, 9, plain)
		ok := make([]bool, 1)
		for n := range len(record) {
			cut := withSlack(record[:n])
			if opened := k.Open(NewScratch(), [][]byte{cut}, ok, 1); opened != 0 || ok[0] {
				t.Errorf("%s: first %d bytes of a record opened", c, n)
			}
			if n < minRecord && !bytes.Equal(cut, record[:n]) {
				t.Errorf("%s: a record of %d bytes was changed", c, n)
			}
		}
		for _, n := range []int{1, 16, 24} {
			if k.Open(NewScratch(), [][]byte{withSlack(append(bytes.Clone(record), make([]byte, n)...))}, ok, 0) != 0 {
				t.Errorf("%s: opened with %d bytes more", c, n)
			}
		}
		if k.Open(NewScratch(), [][]byte{withSlack(record)}, ok, 0) != 1 {
			t.Errorf("%s: whole record did not open", c)
		}
	}
}

// An authentic record without a plaintext is refused like any short one.
func TestEmptyPlaintext(t *testing.T) {
	k, key, iv := material(t, AES256GCM)
	record := withSlack(referenceRecord(reference(t, AES256GCM, key), iv, 0x48000001, 1, nil))
	if ok := make([]bool, 1); k.Open(NewScratch(), [][]byte{record}, ok, 0) != 0 || ok[0] {
		t.Error("a record of 24 bytes opened")
	}
}

func TestOtherKeyOpensNothing(t *testing.T) {
	k, key, iv := material(t, AES128GCM)
	ref := reference(t, AES128GCM, key)
	other := iv
	other[7]++
	wrongIV, err := NewKey(AES128GCM, key, other)
	if err != nil {
		t.Fatal(err)
	}
	wrongKey, err := NewKey(AES128GCM, bytes.Repeat([]byte{9}, 16), iv)
	if err != nil {
		t.Fatal(err)
	}
	// One scratch for all keys, in turn: no state of a key stays in it.
	scratch, ok := NewScratch(), make([]bool, 1)
	for _, test := range []struct {
		key  *Key
		want int
	}{{wrongIV, 0}, {k, 1}, {wrongKey, 0}, {k, 1}} {
		record := withSlack(referenceRecord(ref, iv, 0x48000001, 77, []byte("payload")))
		if got := test.key.Open(scratch, [][]byte{record}, ok, 0); got != test.want {
			t.Errorf("%d opened, want %d", got, test.want)
		}
	}
}

func TestCallersFaultsPanic(t *testing.T) {
	k, key, iv := material(t, AES128GCM)
	record := referenceRecord(reference(t, AES128GCM, key), iv, 0x48000001, 1, []byte("payload"))
	item := func(dst, off, length int, header []byte) func() {
		return func() {
			k.Seal(NewScratch(), []SealItem{{Dst: make([]byte, dst, dst+Slack), Header: header, Buf: make([]byte, 64), Off: off, Len: length}}, 0)
		}
	}
	for name, f := range map[string]func(){
		"no room behind the record":    func() { k.Open(NewScratch(), [][]byte{slices.Clip(record)}, make([]bool, 1), 0) },
		"too few results":              func() { k.Open(NewScratch(), [][]byte{withSlack(record)}, nil, 0) },
		"destination too small":        item(33, 0, 10, nil),
		"destination too large":        item(35, 0, 10, nil),
		"header before the buffer":     item(24+30, 10, 10, make([]byte, 20)),
		"payload behind the buffer":    item(24+30, 40, 30, nil),
		"no room behind the last item": func() { k.Seal(NewScratch(), []SealItem{{Dst: make([]byte, 34), Buf: make([]byte, 10), Len: 10}}, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		})
	}
}

func TestBatchAllocatesNothing(t *testing.T) {
	for _, c := range Ciphers() {
		k, key, iv := material(t, c)
		scratch := NewScratch()
		plain := make([]byte, 1420)
		const n = 8
		good := referenceRecord(reference(t, c, key), iv, 0x48000001, 1, plain)
		items, records, ok := make([]SealItem, n), make([][]byte, n), make([]bool, n)
		for i := range n {
			records[i] = withSlack(good)
			dst := make([]byte, len(good), len(good)+Slack)
			items[i] = SealItem{Dst: dst, Word: 0x48000001, PacketID: uint32(i), Header: plain[:40], Buf: plain, Off: 40, Len: len(plain) - 40}
		}
		opened, forged := 0, 0
		allocs := testing.AllocsPerRun(50, func() {
			k.Seal(scratch, items, 2)
			for i := range records {
				copy(records[i], good)
			}
			records[3][30] ^= 1
			got := k.Open(scratch, records, ok, 2)
			opened += got
			forged += n - got
		})
		if allocs != 0 {
			t.Errorf("%s: %v allocations per batch", c, allocs)
		}
		if opened != 51*(n-1) || forged != 51 {
			t.Errorf("%s: %d opened and %d refused", c, opened, forged)
		}
	}
}

// A key is shared by workers with a scratch each.
func TestConcurrentUse(t *testing.T) {
	for _, c := range Ciphers() {
		k, key, iv := material(t, c)
		ref := reference(t, c, key)
		t.Run(c.String(), func(t *testing.T) {
			for worker := range 4 {
				t.Run(fmt.Sprint(worker), func(t *testing.T) {
					t.Parallel()
					scratch, ok := NewScratch(), make([]bool, 1)
					for id := range uint32(200) {
						plain := bytes.Repeat([]byte{byte(worker)}, 1+int(id))
						record := withSlack(referenceRecord(ref, iv, 0x48000001, id<<2|uint32(worker), plain))
						want := bytes.Clone(record)
						if k.Open(scratch, [][]byte{record}, ok, 0) != 1 || !bytes.Equal(record[24:], plain) {
							t.Fatalf("record %d did not open", id)
						}
						k.Seal(scratch, []SealItem{{Dst: record, Word: 0x48000001, PacketID: id<<2 | uint32(worker), Buf: plain, Len: len(plain)}}, 0)
						if !bytes.Equal(record, want) {
							t.Fatalf("record %d sealed differently", id)
						}
					}
				})
			}
		})
	}
}

// Whatever arrives: no panic, no byte outside the record changed, and nothing
// opens that the plain use of the same cipher would not open to the same bytes.
func FuzzOpen(f *testing.F) {
	for _, c := range Ciphers() {
		_, key, iv := material(f, c)
		record := referenceRecord(reference(f, c, key), iv, 0x48000001, 3, []byte("seed of the corpus"))
		f.Add(uint8(c), record, uint8(0))
		f.Add(uint8(c), record[:24], uint8(1))
		f.Add(uint8(c), append(record, record...), uint8(2))
	}
	f.Fuzz(func(t *testing.T, number uint8, data []byte, distance uint8) {
		c := Ciphers()[int(number)%len(Ciphers())]
		k, key, iv := material(t, c)
		ref := reference(t, c, key)
		// The input between two good records, in one buffer.
		good := referenceRecord(ref, iv, 0x48000001, 5, []byte("neighbour"))
		n, g := len(data), len(good)
		buf := append(append(append(bytes.Clone(good), data...), good...), make([]byte, Slack)...)
		records := [][]byte{buf[:g], buf[g : g+n], buf[g+n : g+n+g]}
		ok := make([]bool, 3)
		opened := k.Open(NewScratch(), records, ok, int(distance%5))
		if !ok[0] || !ok[2] || string(records[0][24:]) != "neighbour" || string(records[2][24:]) != "neighbour" {
			t.Fatal("a neighbour did not open")
		}
		if !bytes.Equal(buf[2*g+n:], make([]byte, Slack)) {
			t.Fatal("bytes behind the last record changed")
		}
		var plain []byte
		authentic := false
		if n >= minRecord {
			nonce := append(bytes.Clone(data[4:8]), iv[:]...)
			var err error
			plain, err = ref.Open(nil, nonce, append(bytes.Clone(data[24:]), data[8:24]...), data[:8])
			authentic = err == nil
		}
		if ok[1] != authentic || opened != 2+map[bool]int{true: 1}[authentic] {
			t.Fatalf("opened %d, ok %v, reference says %v", opened, ok, authentic)
		}
		if authentic && !bytes.Equal(records[1][24:], plain) {
			t.Fatal("plaintext differs from the reference")
		}
		if !bytes.Equal(records[1][:min(n, 24)], data[:min(n, 24)]) {
			t.Fatal("header changed")
		}
	})
}
