// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"encoding/hex"
	"testing"
)

// Records whose bytes are known to be right: AES-256-GCM key 0, AES-128-GCM key 3.
const (
	knownKey0 = "4800000500000001ec453d1dbd9f22d610a3a7300856dd03e1d3004e0fa812021253797dec29cf6b"
	knownKey3 = "4b0000050000123498fceaab6bb9c3c8d853a39060f4a76f8be6b1e6e7c7b8fc92abd1a225cc3ad3"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestParseKnown(t *testing.T) {
	for _, c := range []struct {
		hex      string
		word, id uint32
		key      uint8
	}{
		{knownKey0, 0x48000005, 1, 0},
		{knownKey3, 0x4b000005, 0x1234, 3},
	} {
		b := unhex(t, c.hex)
		word, id, ok := Parse(b)
		if !ok || word != c.word || id != c.id || KeyID(word) != c.key || PeerID(word) != 5 {
			t.Errorf("%s: ok %v, word %#x, id %#x", c.hex, ok, word, id)
		}
		if got := Word(DataV2, c.key, 5); got != c.word {
			t.Errorf("Word: %#x, want %#x", got, c.word)
		}
		if len(b)-Overhead != len(Keepalive) {
			t.Errorf("overhead %d leaves %d bytes", Overhead, len(b)-Overhead)
		}
		for n := range len(b) {
			if _, _, ok := Parse(b[:n]); ok != (n >= 25) {
				t.Errorf("cut to %d bytes: ok %v", n, ok)
			}
		}
	}
}

func TestParseOpcodes(t *testing.T) {
	b := unhex(t, knownKey0)
	for first := range 256 {
		b[0] = byte(first)
		word, _, ok := Parse(b)
		if want := first >= 0x48 && first <= 0x4f; ok != want {
			t.Errorf("first byte %#x: ok %v", first, ok)
		}
		if ok && KeyID(word) != uint8(first&7) {
			t.Errorf("first byte %#x: key id %d", first, KeyID(word))
		}
	}
}

func TestWord(t *testing.T) {
	for opcode := range uint8(32) {
		for key := range uint8(8) {
			for _, peer := range []uint32{0, 1, 0x123456, PeerIDUndef} {
				w := Word(opcode, key, peer)
				if Opcode(byte(w>>24)) != opcode || KeyID(w) != key || PeerID(w) != peer {
					t.Fatalf("opcode %d key %d peer %#x: %#x", opcode, key, peer, w)
				}
			}
		}
	}
	if w := Word(0xff, 0xff, 0xffffffff); w != 0xffffffff {
		t.Errorf("all ones: %#x", w)
	}
	if w := Word(DataV2, 8, 1<<24|7); w != 0x48000007 {
		t.Errorf("too wide fields spill over: %#x", w)
	}
}

func TestMessages(t *testing.T) {
	ping := unhex(t, "2a187bf3641eb4cb07ed2d0a981fc748")
	exit := unhex(t, "287f346bd4ef7a812d56b8d3afc5459c06")
	if !bytes.Equal(ping, Keepalive[:]) || !IsKeepalive(ping) || IsOCCExit(ping) {
		t.Error("keepalive not recognised")
	}
	if !IsOCCExit(exit) || IsKeepalive(exit) || IsKeepalive(exit[:16]) {
		t.Error("exit message not recognised")
	}
	for _, plain := range [][]byte{nil, ping[:15], append(bytes.Clone(ping), 0), exit[:16], append(bytes.Clone(exit), 0)} {
		if IsKeepalive(plain) || IsOCCExit(plain) {
			t.Errorf("% x taken for a message", plain)
		}
	}
	for i := range ping {
		ping[i] ^= 1
		if IsKeepalive(ping) {
			t.Errorf("byte %d changed, still a keepalive", i)
		}
		ping[i] ^= 1
	}
	for i := range exit {
		exit[i] ^= 1
		if IsOCCExit(exit) {
			t.Errorf("byte %d changed, still an exit message", i)
		}
		exit[i] ^= 1
	}
}

func FuzzParse(f *testing.F) {
	f.Add(unhex(f, knownKey0))
	f.Add(unhex(f, knownKey3))
	f.Add(unhex(f, knownKey0)[:24])
	f.Add([]byte{0x38})
	f.Fuzz(func(t *testing.T, b []byte) {
		word, id, ok := Parse(b)
		if want := len(b) >= 25 && b[0]>>3 == 9; ok != want {
			t.Fatalf("ok %v for % x", ok, b)
		}
		if !ok {
			if word != 0 || id != 0 {
				t.Fatal("values without ok")
			}
			return
		}
		if Word(DataV2, KeyID(word), PeerID(word)) != word {
			t.Fatalf("word %#x does not survive", word)
		}
		for i, want := range b[:8] {
			if got := byte((uint64(word)<<32 | uint64(id)) >> (56 - 8*i)); got != want {
				t.Fatalf("byte %d: %#x, want %#x", i, got, want)
			}
		}
	})
}

func TestAllocatesNothing(t *testing.T) {
	b := unhex(t, knownKey0)
	seen := 0
	if n := testing.AllocsPerRun(100, func() {
		if word, _, ok := Parse(b); ok && PeerID(word) == 5 && !IsKeepalive(b[24:]) && !IsOCCExit(b[24:]) {
			seen++
		}
	}); n != 0 || seen == 0 {
		t.Errorf("%v allocations, seen %d", n, seen)
	}
}
