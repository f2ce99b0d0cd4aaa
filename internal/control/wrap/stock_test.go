// SPDX-License-Identifier: Apache-2.0

package wrap

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wire"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/statickey"
)

func fixture(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// lines are the fields of a file's lines but for comments.
func lines(t testing.TB, name string) (all [][]string) {
	t.Helper()
	for line := range strings.Lines(string(fixture(t, name))) {
		if !strings.HasPrefix(line, "#") {
			all = append(all, strings.Fields(line))
		}
	}
	if len(all) == 0 {
		t.Fatalf("%s is empty", name)
	}
	return all
}

func stockKey(t testing.TB) *[256]byte {
	t.Helper()
	key, err := statickey.Parse(fixture(t, "static.key"))
	if err != nil {
		t.Fatal(err)
	}
	return &key
}

// TestStockResets opens the first packets of OpenVPN 2.5, 2.6 and 2.7 clients, and
// makes the same packets: with every digest, direction and kind of key.
func TestStockResets(t *testing.T) {
	server, err := ParseServerKey(fixture(t, "v2-server.key"))
	if err != nil {
		t.Fatal(err)
	}
	tested := map[string]bool{}
	for _, f := range lines(t, "resets.txt") {
		kind, release, arg := f[0], f[1], f[2]
		t.Run(strings.Join(f[:3], " "), func(t *testing.T) {
			var open, seal *Wrap
			var wkc []byte
			first := Stamp{ID: 1}
			switch kind {
			case "plain":
				open, seal = Plain(), nil
			case "tls-auth":
				name, direction, _ := strings.Cut(arg, ",")
				digest, err := ParseDigest(name)
				if err != nil {
					t.Fatal(err)
				}
				tested[digest.String()] = true
				theirs := map[string]Direction{"none": Bidirectional, "0": Normal, "1": Inverse}[direction]
				ours := map[string]Direction{"none": Bidirectional, "0": Inverse, "1": Normal}[direction]
				open, seal = TLSAuth(stockKey(t), digest, ours), TLSAuth(stockKey(t), digest, theirs)
			case "tls-crypt":
				open, seal = TLSCrypt(stockKey(t), Server), TLSCrypt(stockKey(t), Client)
			case "tls-crypt-v2":
				var key [256]byte
				if key, wkc, err = ParseClientKey(fixture(t, arg)); err != nil {
					t.Fatal(err)
				}
				c, err := server.Unwrap(wkc)
				if err != nil || c.Key != key {
					t.Fatalf("the wrapped key in %s: %v", arg, err)
				}
				open, seal = TLSCrypt(&c.Key, Server), TLSCrypt(&key, Client)
				if release != "2.5" {
					first.ID = 0x0f000001
				}
			}
			for n, s := range f[3:] {
				datagram := unhex(t, s)
				packet := datagram
				if wkc != nil {
					var behind []byte
					if packet, behind, err = SplitWKC(datagram); err != nil || !bytes.Equal(behind, wkc) {
						t.Fatalf("wrapped key %x, %v; want %x", behind, err, wkc)
					}
				}
				h, raw, stamp, err := open.OpenStateless(nil, packet)
				if err != nil {
					t.Fatal(err)
				}
				body, err := wire.ParseBody(h.Opcode, raw)
				if err != nil || body.NAcks != 0 || body.ID != 0 || len(body.Payload) != 0 {
					t.Errorf("body %+v, %v; want that of a reset", body, err)
				}
				if kind != "plain" && stamp.ID != first.ID+uint32(n) {
					t.Errorf("packet id %#x, want %#x", stamp.ID, first.ID+uint32(n))
				}
				seal.SetNextID(stamp.ID)
				if again := seal.Seal(nil, h, raw, time.Unix(int64(stamp.Time), 0)); !bytes.Equal(again, packet) {
					t.Errorf("sealed\n%x, want\n%x", again, packet)
				}
			}
		})
	}
	for _, d := range digests {
		if !tested[d.name] {
			t.Errorf("no packet with %s", d.name)
		}
	}
}

// TestCaptured reads control packets of sessions whose key is not known: headers
// are in clear, and another key does not open them.
func TestCaptured(t *testing.T) {
	wraps := map[string]*Wrap{"tls-crypt server": TLSCrypt(counting(), Server), "tls-crypt client": TLSCrypt(counting(), Client)}
	for _, d := range digests {
		wraps["tls-auth "+d.name] = TLSAuth(counting(), d, Normal)
	}
	seen := map[uint8]bool{}
	for _, f := range lines(t, "captured.txt") {
		b := unhex(t, f[1])
		h, ok := wire.ParseHeader(b)
		if !ok || h.Session.IsZero() {
			t.Fatalf("header of %x: %+v, %v", b, h, ok)
		}
		seen[h.Opcode] = true
		for name, w := range wraps {
			want := ErrAuth
			if len(b) < wire.HeaderLen+w.Overhead() {
				want = ErrShort
			}
			if _, body, err := w.Open(nil, b, moment); err != want || body != nil {
				t.Errorf("%s opened %x: %v, want %v", name, b, err, want)
			}
		}
	}
	for _, opcode := range []uint8{wire.ControlHardResetClientV2, wire.ControlHardResetServerV2, wire.ControlV1, wire.AckV1, wire.ControlSoftResetV1} {
		if !seen[opcode] {
			t.Errorf("no packet with opcode %d", opcode)
		}
	}
}

// TestStockKeyFiles reads what `openvpn --genkey` wrote.
func TestStockKeyFiles(t *testing.T) {
	server, err := ParseServerKey(fixture(t, "v2-server.key"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"v2-client.key": "", "v2-client-user.key": "alice@example.net"} {
		key, wkc, err := ParseClientKey(fixture(t, name))
		if err != nil {
			t.Fatal(err)
		}
		c, err := server.Unwrap(wkc)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		made, ok := c.Made()
		switch {
		case c.Key != key:
			t.Errorf("%s: the wrapped key is another", name)
		case want == "" && (c.Type != MetadataTimestamp || !ok || made.Year() != 2026):
			t.Errorf("%s: metadata %d %x, made %v", name, c.Type, c.Metadata, made)
		case want != "" && (ok || c.Type != MetadataUser || string(c.Metadata) != want):
			t.Errorf("%s: metadata %d %q", name, c.Type, c.Metadata)
		}
		if !bytes.Equal(FormatClientKey(&key, wkc), fixture(t, name)) {
			t.Errorf("%s: written differently", name)
		}
		again, err := server.Wrap(&key, append([]byte{c.Type}, c.Metadata...))
		if err != nil || !bytes.Equal(again, wkc) {
			t.Errorf("%s: wrapped %s, %v; want %s", name, hex.EncodeToString(again), err, hex.EncodeToString(wkc))
		}
	}
}
