// SPDX-License-Identifier: Apache-2.0

package wrap

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wire"
)

// pairs are both ends of every mode; fresh ones at each call.
func pairs() map[string][2]*Wrap {
	all := map[string][2]*Wrap{
		"tls-crypt":      {TLSCrypt(counting(), Client), TLSCrypt(counting(), Server)},
		"dynamic":        {Dynamic(counting(), nil, Client), Dynamic(counting(), nil, Server)},
		"dynamic on key": {Dynamic(counting(), other(), Client), Dynamic(counting(), other(), Server)},
	}
	for _, d := range digests {
		all["tls-auth "+d.name] = [2]*Wrap{TLSAuth(counting(), d, Inverse), TLSAuth(counting(), d, Normal)}
	}
	all["tls-auth without direction"] = [2]*Wrap{TLSAuth(counting(), digests[0], Bidirectional), TLSAuth(counting(), digests[0], Bidirectional)}
	return all
}

func other() *[256]byte {
	k := counting()
	for i := range k {
		k[i] = byte(i * i >> 3)
	}
	return k
}

var control = wire.Header{Opcode: wire.ControlV1, KeyID: 3, Session: clientID}

// TestOpen seals and opens in both directions, and changes each byte.
func TestOpen(t *testing.T) {
	for name, p := range pairs() {
		t.Run(name, func(t *testing.T) {
			for _, p := range [][2]*Wrap{p, {p[1], p[0]}} {
				for n := range 50 {
					body := bytes.Repeat([]byte{byte(n)}, n)
					b := p[0].Seal([]byte("before"), control, body, moment)[len("before"):]
					if len(b) != wire.HeaderLen+p[0].Overhead()+n {
						t.Fatalf("%d bytes for a body of %d, overhead %d", len(b), n, p[0].Overhead())
					}
					for i := range b {
						b[i] ^= 0x10
						if _, _, err := p[1].Open(nil, b, moment); err == nil {
							t.Fatalf("body of %d: opened with byte %d changed", n, i)
						}
						b[i] ^= 0x10
						if _, _, err := p[1].Open(nil, b[:i], moment); err == nil {
							t.Fatalf("body of %d: opened with %d bytes", n, i)
						}
					}
					h, got, err := p[1].Open(make([]byte, 0, 20), b, moment)
					if err != nil || h != control || !bytes.Equal(got, body) {
						t.Fatalf("body of %d: opened %+v %x %v", n, h, got, err)
					}
					if _, _, err := p[1].Open(nil, b, moment); !errors.Is(err, ErrReplay) {
						t.Fatalf("second time: %v, want ErrReplay", err)
					}
				}
			}
		})
	}
}

// TestReflected: what one sends is not taken for the other's.
func TestReflected(t *testing.T) {
	for name, p := range pairs() {
		if name == "tls-auth without direction" {
			continue // has one key
		}
		b := p[0].Seal(nil, control, []byte("body"), moment)
		if _, _, err := p[0].Open(nil, b, moment); !errors.Is(err, ErrAuth) {
			t.Errorf("%s: opened its own packet: %v", name, err)
		}
	}
}

func TestPlain(t *testing.T) {
	var none *Wrap
	for _, w := range []*Wrap{none, Plain()} {
		w.SetNextID(5)
		b := w.Seal(nil, control, []byte("body"), moment)
		if want := append(control.Append(nil), "body"...); !bytes.Equal(b, want) || w.Overhead() != 0 {
			t.Errorf("sealed %x, want %x; overhead %d", b, want, w.Overhead())
		}
		for range 2 { // there are no replays
			if h, body, err := w.Open(nil, b, moment); err != nil || h != control || string(body) != "body" {
				t.Errorf("opened %+v %q %v", h, body, err)
			}
		}
		if _, _, err := w.Open(nil, b[:8], moment); !errors.Is(err, ErrShort) {
			t.Errorf("8 bytes: %v, want ErrShort", err)
		}
	}
}

// TestDynamic: the key is the XOR of both.
func TestDynamic(t *testing.T) {
	key := counting()
	for i, b := range other() {
		key[i] ^= b
	}
	b := Dynamic(counting(), other(), Server).Seal(nil, control, []byte("body"), moment)
	if _, _, err := TLSCrypt(key, Client).Open(nil, b, moment); err != nil {
		t.Errorf("with the XORed key: %v", err)
	}
	if _, _, err := Dynamic(counting(), nil, Client).Open(nil, b, moment); !errors.Is(err, ErrAuth) {
		t.Errorf("with the exported key alone: %v, want ErrAuth", err)
	}
}

// TestPacketIDs: they count up under one time, which changes only when they have
// run out.
func TestPacketIDs(t *testing.T) {
	w, open := TLSCrypt(counting(), Server), TLSCrypt(counting(), Client)
	var got []Stamp
	seal := func(now time.Time) {
		_, _, s, err := open.OpenStateless(nil, w.Seal(nil, control, nil, now))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, s)
	}
	w.SetNextID(2)
	seal(moment)
	seal(moment.Add(time.Hour))
	w.SealStateless(nil, control, nil, Stamp{ID: 1, Time: 7}) // leaves them alone
	seal(moment.Add(-time.Hour))
	w.SetNextID(math.MaxUint32)
	seal(moment)
	seal(moment) // within the same second
	w.SetNextID(math.MaxUint32)
	seal(moment)
	seal(moment.Add(time.Minute))
	at := uint32(moment.Unix())
	want := []Stamp{{2, at}, {3, at}, {4, at}, {math.MaxUint32, at}, {1, at + 1}, {math.MaxUint32, at + 1}, {1, at + 60}}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("packet %d: %+v, want %+v", i, got[i], want[i])
		}
	}
}

// TestCounterMode compares with the standard library, also where the counter
// carries.
func TestCounterMode(t *testing.T) {
	key := block(counting()[:])
	var c counterMode
	for _, tag := range [][]byte{make([]byte, 16), bytes.Repeat([]byte{0xff}, 32), append(make([]byte, 15), 0xfe), append(bytes.Repeat([]byte{1}, 8), bytes.Repeat([]byte{0xff}, 8)...)} {
		for n := range 100 {
			got, want := bytes.Repeat([]byte{0x5a}, n), bytes.Repeat([]byte{0x5a}, n)
			c.xor(key, tag, got)
			cipher.NewCTR(key, tag[:aes.BlockSize]).XORKeyStream(want, want)
			if !bytes.Equal(got, want) {
				t.Fatalf("tag %x, %d bytes: %x, want %x", tag, n, got, want)
			}
		}
	}
}

func TestParseDigest(t *testing.T) {
	for name, want := range map[string]string{"sha1": "SHA1", "SHA": "SHA1", "sha2-256": "SHA256", "RSA-SHA512": "SHA512", "blake2B512": "BLAKE2b512", "ripemd": "RIPEMD160"} {
		if d, err := ParseDigest(name); err != nil || d.String() != want {
			t.Errorf("%s: %v, %v; want %s", name, d, err, want)
		}
	}
	for _, name := range []string{"", "none", "SM3", "SHAKE128", "SHA0"} {
		if _, err := ParseDigest(name); err == nil || !strings.Contains(err.Error(), "SHA256") {
			t.Errorf("%s: %v, want an error that names those there are", name, err)
		}
	}
	for _, d := range digests {
		if d.Size() > maxSum {
			t.Errorf("%s has %d bytes, a static key has %d", d, d.Size(), maxSum)
		}
	}
	for alias, name := range aliases {
		if d, err := ParseDigest(alias); err != nil || !strings.EqualFold(d.name, name) {
			t.Errorf("alias %s: %v, %v", alias, d, err)
		}
	}
}

// raced: under the race detector a sync.Pool forgets at random.
var raced bool

// TestAllocations: packets cost no memory, so that a flood costs the garbage
// collector nothing.
func TestAllocations(t *testing.T) {
	server, _, err := GenerateServerKey(bytes.NewReader(other()[:]))
	if err != nil {
		t.Fatal(err)
	}
	_, wkc, err := ParseClientKey(fixture(t, "v2-client.key")) // of another server
	if err != nil {
		t.Fatal(err)
	}
	body, scratch, dst := make([]byte, 1000), make([]byte, 0, 2048), make([]byte, 0, 2048)
	for name, p := range map[string][2]*Wrap{
		"tls-crypt":       {TLSCrypt(counting(), Client), TLSCrypt(counting(), Server)},
		"tls-auth SHA1":   {TLSAuth(counting(), digests[0], Inverse), TLSAuth(counting(), digests[0], Normal)},
		"tls-auth SHA512": {TLSAuth(counting(), must(ParseDigest("SHA512")), Inverse), TLSAuth(counting(), must(ParseDigest("SHA512")), Normal)},
	} {
		if n := testing.AllocsPerRun(100, func() { dst = p[0].Seal(dst[:0], control, body, moment) }); n != 0 {
			t.Errorf("%s: Seal allocates %v times", name, n)
		}
		if n := testing.AllocsPerRun(100, func() { _, _, _ = p[1].Open(scratch, dst, moment) }); n != 0 {
			t.Errorf("%s: Open allocates %v times", name, n)
		}
		forged := bytes.Clone(dst)
		forged[len(forged)-1]++
		if n := testing.AllocsPerRun(100, func() { _, _, err = p[1].Open(scratch, forged, moment) }); n != 0 || err != ErrAuth {
			t.Errorf("%s: a forged packet allocates %v times, %v", name, n, err)
		}
	}
	if raced {
		return
	}
	if n := testing.AllocsPerRun(100, func() { _, err = server.Unwrap(wkc) }); n != 0 || err != ErrAuth {
		t.Errorf("a forged client key allocates %v times, %v", n, err)
	}
}

func must(d Digest, err error) Digest {
	if err != nil {
		panic(err)
	}
	return d
}
