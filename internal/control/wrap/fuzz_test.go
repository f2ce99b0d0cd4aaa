// SPDX-License-Identifier: Apache-2.0

package wrap

import (
	"bytes"
	"encoding/hex"
	"testing"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wire"
)

// seeds are the datagrams of both files of recorded packets.
func seeds(f *testing.F) (all [][]byte) {
	for _, name := range []string{"resets.txt", "captured.txt"} {
		for _, fields := range lines(f, name) {
			for _, s := range fields {
				if b, err := hex.DecodeString(s); err == nil && len(b) > 8 {
					all = append(all, b)
				}
			}
		}
	}
	return all
}

// FuzzOpen opens arbitrary datagrams in every mode, and seals what was opened:
// it must come out the same.
func FuzzOpen(f *testing.F) {
	key := stockKey(f)
	modes := []func(Role) *Wrap{
		func(Role) *Wrap { return Plain() },
		func(r Role) *Wrap { return TLSCrypt(key, r) },
		func(r Role) *Wrap { return Dynamic(key, key, r) },
	}
	for _, d := range digests {
		modes = append(modes, func(r Role) *Wrap {
			return TLSAuth(key, d, map[Role]Direction{Server: Normal, Client: Inverse}[r])
		})
	}
	for _, b := range seeds(f) {
		for mode := range modes {
			f.Add(uint8(mode), b)
		}
	}
	f.Fuzz(func(t *testing.T, mode uint8, b []byte) {
		make := modes[int(mode)%len(modes)]
		before := bytes.Clone(b)
		h, body, stamp, err := make(Server).OpenStateless(nil, b)
		if !bytes.Equal(b, before) {
			t.Error("the datagram was changed")
		}
		if err != nil {
			if body != nil {
				t.Errorf("a body with %v", err)
			}
			return
		}
		if again := make(Client).SealStateless(nil, h, body, stamp); !bytes.Equal(again, b) {
			t.Errorf("opened %x, sealed %x", b, again)
		}
	})
}

func FuzzUnwrap(f *testing.F) {
	server, err := ParseServerKey(fixture(f, "v2-server.key"))
	if err != nil {
		f.Fatal(err)
	}
	for _, b := range seeds(f) {
		f.Add(b)
		if _, wkc, err := SplitWKC(b); err == nil {
			f.Add(wkc)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if packet, wkc, err := SplitWKC(b); err == nil {
			if len(packet) < wire.HeaderLen || len(wkc) < minWKC || len(wkc) > MaxWKC || !bytes.Equal(append(bytes.Clone(packet), wkc...), b) {
				t.Errorf("split %x in %x and %x", b, packet, wkc)
			}
			b = wkc
		}
		c, err := server.Unwrap(b)
		if err != nil {
			return
		}
		var metadata []byte
		if c.HasMetadata {
			metadata = append([]byte{c.Type}, c.Metadata...)
		}
		if again, err := server.Wrap(&c.Key, metadata); err != nil || !bytes.Equal(again, b) {
			t.Errorf("unwrapped %x, wrapped %x, %v", b, again, err)
		}
	})
}

func FuzzParseServerKey(f *testing.F) {
	f.Add(fixture(f, "v2-server.key"))
	f.Add(fixture(f, "v2-client.key"))
	f.Add([]byte("-----BEGIN " + serverLabel + "-----\nAAAA\n-----END " + serverLabel + "-----\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if k, err := ParseServerKey(b); (k == nil) != (err != nil) {
			t.Errorf("key %v, error %v", k, err)
		}
	})
}

func FuzzParseClientKey(f *testing.F) {
	f.Add(fixture(f, "v2-client.key"))
	f.Add(fixture(f, "v2-client-user.key"))
	f.Add(fixture(f, "v2-server.key"))
	f.Fuzz(func(t *testing.T, b []byte) {
		key, wkc, err := ParseClientKey(b)
		if err != nil {
			return
		}
		again, behind, err := ParseClientKey(FormatClientKey(&key, wkc))
		if err != nil || again != key || !bytes.Equal(behind, wkc) {
			t.Errorf("parsed %x and %x, then %x and %x, %v", key, wkc, again, behind, err)
		}
	})
}

func FuzzParseDigest(f *testing.F) {
	for _, d := range digests {
		f.Add(d.name)
	}
	f.Add("none")
	f.Fuzz(func(t *testing.T, name string) {
		if d, err := ParseDigest(name); err == nil && (d.Size() < 16 || d.Size() > maxSum) {
			t.Errorf("%q is %s with %d bytes", name, d, d.Size())
		}
	})
}
