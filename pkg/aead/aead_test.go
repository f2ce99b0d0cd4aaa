// SPDX-License-Identifier: Apache-2.0

package aead

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/crypto/chacha20poly1305"
)

// reference is the same cipher used the plain way: tag behind, fresh buffers.
func reference(t testing.TB, c Cipher, key []byte) cipher.AEAD {
	t.Helper()
	if c == ChaCha20Poly1305 {
		a, err := chacha20poly1305.New(key)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	a, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// referenceRecord makes a record with the reference.
func referenceRecord(a cipher.AEAD, iv [8]byte, word, id uint32, plain []byte) []byte {
	head := binary.BigEndian.AppendUint32(nil, word)
	head = binary.BigEndian.AppendUint32(head, id)
	nonce := append(binary.BigEndian.AppendUint32(nil, id), iv[:]...)
	sealed := a.Seal(nil, nonce, plain, head)
	n := len(plain)
	return append(append(head, sealed[n:]...), sealed[:n]...)
}

// material is a cipher's key and IV for tests, and Key made of them.
func material(t testing.TB, c Cipher) (*Key, []byte, [8]byte) {
	t.Helper()
	key := make([]byte, c.KeyLen())
	for i := range key {
		key[i] = byte(i*7 + int(c))
	}
	iv := [8]byte{1, 2, 3, 4, 5, 6, 7, byte(c)}
	k, err := NewKey(c, key, iv)
	if err != nil {
		t.Fatal(err)
	}
	return k, key, iv
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// withSlack copies a record into a buffer with the bytes that Open borrows.
func withSlack(record []byte) []byte {
	return append(make([]byte, 0, len(record)+Slack), record...)
}

// OpenVPN's keepalive payload.
const ping = "2a187bf3641eb4cb07ed2d0a981fc748"

// Records that OpenVPN makes of its keepalive with a key block of the bytes 0,
// 1, ... 255: cipher keys at 0 (client to server) and 128 (server to client),
// implicit IVs at 64 and 192.
func TestKnownRecords(t *testing.T) {
	var block [256]byte
	for i := range block {
		block[i] = byte(i)
	}
	for _, test := range []struct {
		name   string
		cipher Cipher
		half   int
		record string
	}{
		{"AES-256-GCM, client to server", AES256GCM, 0, "4800000500000001 ec453d1dbd9f22d610a3a7300856dd03 e1d3004e0fa812021253797dec29cf6b"},
		{"AES-256-GCM, server to client", AES256GCM, 128, "4800000500000001 4733b9b60b56cf3ada0169d9be9a4594 935c53e2eadd3824275aa3759531edf7"},
		{"AES-128-GCM, key id 3, packet id 0x1234", AES128GCM, 0, "4b00000500001234 98fceaab6bb9c3c8d853a39060f4a76f 8be6b1e6e7c7b8fc92abd1a225cc3ad3"},
		{"CHACHA20-POLY1305, client to server", ChaCha20Poly1305, 0, "4800000500000001 a4bd54f14db41cd9fa79bd54cbf1e6b8 249c493797b2d7f5945bcaf9ded73aa2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			k, err := NewKey(test.cipher, block[test.half:][:test.cipher.KeyLen()], [8]byte(block[test.half+64:]))
			if err != nil {
				t.Fatal(err)
			}
			want, plain := unhex(t, test.record), unhex(t, ping)
			dst := make([]byte, len(want), len(want)+Slack)
			k.Seal(NewScratch(), []SealItem{{
				Dst: dst, Word: binary.BigEndian.Uint32(want), PacketID: binary.BigEndian.Uint32(want[4:]),
				Buf: plain, Len: len(plain),
			}}, 0)
			if !bytes.Equal(dst, want) {
				t.Errorf("sealed %x, want %x", dst, want)
			}
			ok := make([]bool, 1)
			if n := k.Open(NewScratch(), [][]byte{dst}, ok, 0); n != 1 || !ok[0] || !bytes.Equal(dst[24:], plain) {
				t.Errorf("opened %d to %x, want %x", n, dst[24:], plain)
			}
			if !bytes.Equal(dst[:24], want[:24]) {
				t.Errorf("header now %x, want %x", dst[:24], want[:24])
			}
		})
	}
}

// Test case 8 of the GCM specification: 24-byte key, nonce and plaintext block
// of zeros. It has no associated data, which a record always has, so only the
// ciphertext can be compared; the tag is TestAgainstReference's.
func TestAES192Keystream(t *testing.T) {
	k, err := NewKey(AES192GCM, make([]byte, 24), [8]byte{})
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]byte, 40, 40+Slack)
	k.Seal(NewScratch(), []SealItem{{Dst: dst, Buf: make([]byte, 16), Len: 16}}, 0)
	if want := unhex(t, "98e7247c07f0fe411c267e4384b0f600"); !bytes.Equal(dst[24:], want) {
		t.Errorf("ciphertext %x, want %x", dst[24:], want)
	}
}

// lengths crosses the block and loop sizes of all implementations.
func lengths() []int {
	l := []int{}
	for n := 1; n <= 130; n++ {
		l = append(l, n)
	}
	return append(l, 191, 192, 193, 255, 256, 257, 319, 320, 321, 383, 384, 385, 511, 512, 513, 576, 1023, 1420, 1500, 3000, 8900, 65_000)
}

// Every length, every cipher, in batches laid end to end as in one segmented
// send: equal to the reference byte for byte, both ways, for every distance.
func TestAgainstReference(t *testing.T) {
	for _, c := range Ciphers() {
		t.Run(c.String(), func(t *testing.T) {
			k, key, iv := material(t, c)
			ref, scratch := reference(t, c, key), NewScratch()
			random := rand.NewChaCha8([32]byte{byte(c)})
			for distance := -1; distance <= 4; distance++ {
				var want []byte
				var plains [][]byte
				var items []SealItem
				for i, n := range lengths() {
					plain := make([]byte, n)
					random.Read(plain)
					plains = append(plains, plain)
					want = append(want, referenceRecord(ref, iv, 0x49123456, uint32(i+1), plain)...)
				}
				area := make([]byte, len(want)+Slack)
				fence := bytes.Repeat([]byte{0xa5}, Slack)
				copy(area[len(want):], fence)
				off := 0
				for i, plain := range plains {
					header := min(i%60, len(plain))
					// What is in front of the payload is dead; the header comes from elsewhere.
					buf := append(make([]byte, 3+header), plain[header:]...)
					n := 24 + len(plain)
					items = append(items, SealItem{Dst: area[off : off+n], Word: 0x49123456, PacketID: uint32(i + 1),
						Header: plain[:header], Buf: buf, Off: 3 + header, Len: len(plain) - header})
					off += n
				}
				k.Seal(scratch, items, distance)
				if !bytes.Equal(area[:len(want)], want) {
					t.Fatalf("distance %d: sealed records differ from the reference", distance)
				}
				if !bytes.Equal(area[len(want):], fence) {
					t.Fatalf("distance %d: bytes behind the run changed", distance)
				}

				records := make([][]byte, len(items))
				for i := range items {
					records[i] = items[i].Dst
				}
				ok := make([]bool, len(records))
				if n := k.Open(scratch, records, ok, distance); n != len(records) {
					t.Fatalf("distance %d: %d of %d opened", distance, n, len(records))
				}
				for i, record := range records {
					if !ok[i] || !bytes.Equal(record[24:], plains[i]) {
						t.Fatalf("distance %d: record of %d bytes opened wrong", distance, len(record))
					}
				}
				if !bytes.Equal(area[len(want):], fence) {
					t.Fatalf("distance %d: bytes behind the last record changed by open", distance)
				}
			}
		})
	}
}

// A header that stands in front of its payload already, and segments of one
// buffer whose headers overwrite what the segment before has sealed.
func TestSealSegmentsOfOneBuffer(t *testing.T) {
	k, key, iv := material(t, AES128GCM)
	ref := reference(t, AES128GCM, key)
	const header, mss, segments, last = 40, 100, 5, 33
	packet := make([]byte, header+(segments-1)*mss+last)
	for i := range packet {
		packet[i] = byte(i * 13)
	}
	original := bytes.Clone(packet)
	var want []byte
	var items []SealItem
	area := make([]byte, segments*(24+header+mss)+Slack)
	off := 0
	for i := range segments {
		n := mss
		if i == segments-1 {
			n = last
		}
		h := bytes.Repeat([]byte{byte(0xf0 + i)}, header)
		if i == 0 {
			h = packet[:header]
		}
		at := header + i*mss
		want = append(want, referenceRecord(ref, iv, 0x48000007, uint32(100+i), append(bytes.Clone(h), original[at:at+n]...))...)
		items = append(items, SealItem{Dst: area[off : off+24+header+n], Word: 0x48000007, PacketID: uint32(100 + i),
			Header: h, Buf: packet, Off: at, Len: n})
		off += 24 + header + n
	}
	k.Seal(NewScratch(), items, 2)
	if !bytes.Equal(area[:off], want) {
		t.Error("sealed segments differ from the reference")
	}
}

func TestNewKeyRefuses(t *testing.T) {
	for _, c := range Ciphers() {
		for _, n := range []int{0, c.KeyLen() - 1, c.KeyLen() + 1, 64} {
			if _, err := NewKey(c, make([]byte, n), [8]byte{}); err == nil {
				t.Errorf("%s took a key of %d bytes", c, n)
			}
		}
	}
	for _, c := range []Cipher{0, 5, 255} {
		if _, err := NewKey(c, nil, [8]byte{}); err == nil {
			t.Errorf("%s made a key", c)
		}
	}
}

func TestParseCipher(t *testing.T) {
	for _, c := range Ciphers() {
		for _, name := range []string{c.String(), strings.ToLower(c.String())} {
			if got, err := ParseCipher(name); err != nil || got != c {
				t.Errorf("%s: %v, %v", name, got, err)
			}
		}
		k, _, _ := material(t, c)
		if k.Cipher() != c {
			t.Errorf("key of %s says %s", c, k.Cipher())
		}
	}
	for _, name := range []string{"", "AES-128-CBC", "AES-128-GCM ", "Cipher(0)"} {
		if c, err := ParseCipher(name); err == nil {
			t.Errorf("%q is %s", name, c)
		}
	}
}
