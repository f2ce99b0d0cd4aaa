// SPDX-License-Identifier: Apache-2.0

package wrap

import (
	"bytes"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wire"
)

func TestGenerate(t *testing.T) {
	server, file, err := GenerateServerKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	again, err := ParseServerKey(append([]byte("# a comment\n"), file...))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 1, 9, MaxMetadata} {
		key, wkc, err := GenerateClientKey(rand.Reader, server, make([]byte, n))
		if err != nil || len(wkc) != minWKC+n {
			t.Fatalf("%d bytes of metadata: %d bytes, %v", n, len(wkc), err)
		}
		parsed, behind, err := ParseClientKey(FormatClientKey(&key, wkc))
		if err != nil || parsed != key || !bytes.Equal(behind, wkc) {
			t.Errorf("%d bytes of metadata: parsed differently, %v", n, err)
		}
		c, err := again.Unwrap(wkc)
		if err != nil || c.Key != key || c.HasMetadata != (n > 0) || len(c.Metadata) != max(n-1, 0) {
			t.Errorf("%d bytes of metadata: unwrapped %+v, %v", n, c, err)
		}
	}
	if _, _, err := GenerateClientKey(rand.Reader, server, make([]byte, MaxMetadata+1)); err == nil {
		t.Error("one byte too many of metadata fits")
	}
	if _, _, err := GenerateServerKey(strings.NewReader("short")); err == nil {
		t.Error("a key of 5 random bytes")
	}
	if _, _, err := GenerateClientKey(strings.NewReader("short"), server, nil); err == nil {
		t.Error("a client key of 5 random bytes")
	}
}

func TestKeyFileErrors(t *testing.T) {
	block := func(label string, n int) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: label, Bytes: make([]byte, n)})
	}
	for name, v := range map[string]struct {
		server bool
		file   []byte
		want   string
	}{
		"server, empty":            {true, nil, serverLabel},
		"server, a client's":       {true, fixture(t, "v2-client.key"), serverLabel},
		"server, a static key":     {true, fixture(t, "static.key"), serverLabel},
		"server, short":            {true, block(serverLabel, 127), "127 bytes, want 128"},
		"server, long":             {true, block(serverLabel, 129), "129 bytes, want 128"},
		"server, cut":              {true, fixture(t, "v2-server.key")[:200], serverLabel},
		"client, a server's":       {false, fixture(t, "v2-server.key"), clientLabel},
		"client, without a WKc":    {false, block(clientLabel, 256), "256 bytes"},
		"client, WKc of 289 bytes": {false, block(clientLabel, 256+minWKC-1), "545 bytes"},
		"client, WKc too long":     {false, block(clientLabel, 256+MaxWKC+1), "1281 bytes"},
	} {
		var err error
		if v.server {
			_, err = ParseServerKey(v.file)
		} else {
			_, _, err = ParseClientKey(v.file)
		}
		if err == nil || !strings.Contains(err.Error(), v.want) {
			t.Errorf("%s: %v, want %q in it", name, err, v.want)
		}
	}
}

func TestUnwrapErrors(t *testing.T) {
	server, err := ParseServerKey(fixture(t, "v2-server.key"))
	if err != nil {
		t.Fatal(err)
	}
	_, wkc, err := ParseClientKey(fixture(t, "v2-client.key"))
	if err != nil {
		t.Fatal(err)
	}
	for n := range wkc {
		if _, err := server.Unwrap(wkc[:n]); !errors.Is(err, ErrWKC) {
			t.Errorf("%d bytes: %v, want ErrWKC", n, err)
		}
	}
	if _, err := server.Unwrap(append([]byte{0}, wkc...)); !errors.Is(err, ErrWKC) {
		t.Errorf("a byte in front: %v, want ErrWKC", err)
	}
	if _, err := newServerKey((*[serverKeyLen]byte)(counting()[:])).Unwrap(wkc); !errors.Is(err, ErrAuth) {
		t.Errorf("another server's: %v, want ErrAuth", err)
	}
}

func TestSplitWKC(t *testing.T) {
	wkc := make([]byte, minWKC)
	wkc[minWKC-2], wkc[minWKC-1] = minWKC>>8, minWKC&0xff
	packet := control.Append(nil)
	got, behind, err := SplitWKC(append(bytes.Clone(packet), wkc...))
	if err != nil || !bytes.Equal(got, packet) || !bytes.Equal(behind, wkc) {
		t.Fatalf("%x, %x, %v", got, behind, err)
	}
	if cap(got) != len(got) {
		t.Error("appending to the packet would change the key")
	}
	for name, b := range map[string][]byte{
		"empty":                    nil,
		"no room for a header":     append(packet[1:], wkc...),
		"length below the minimum": append(make([]byte, 500), 0x01, 0x21),
		"length above the maximum": append(make([]byte, 2000), 0x04, 0x01),
		"length above what is there": append(make([]byte, 400),
			0x01, 0x90),
		"length 0": make([]byte, 500),
	} {
		if _, _, err := SplitWKC(b); !errors.Is(err, ErrWKC) {
			t.Errorf("%s: %v, want ErrWKC", name, err)
		}
	}
}

// TestServerKeyConcurrently is for the race detector.
func TestServerKeyConcurrently(t *testing.T) {
	server, err := ParseServerKey(fixture(t, "v2-server.key"))
	if err != nil {
		t.Fatal(err)
	}
	key, wkc, err := ParseClientKey(fixture(t, "v2-client.key"))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				if c, err := server.Unwrap(wkc); err != nil || c.Key != key {
					t.Errorf("unwrapped %v", err)
				}
				if _, err := server.Wrap(&key, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// TestFirstPacketBothWays seals a reset with a wrapped key behind it, as a client
// does, and opens it as a server does.
func TestFirstPacketBothWays(t *testing.T) {
	server, _, err := GenerateServerKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, wkc, err := GenerateClientKey(rand.Reader, server, []byte("\x00name"))
	if err != nil {
		t.Fatal(err)
	}
	h := wire.Header{Opcode: wire.ControlHardResetClientV3, Session: clientID}
	b := append(TLSCrypt(&key, Client).Seal(nil, h, []byte("body"), moment), wkc...)
	packet, behind, err := SplitWKC(b)
	if err != nil {
		t.Fatal(err)
	}
	c, err := server.Unwrap(behind)
	if err != nil {
		t.Fatal(err)
	}
	got, body, err := TLSCrypt(&c.Key, Server).Open(nil, packet, moment)
	if err != nil || got != h || string(body) != "body" || string(c.Metadata) != "name" {
		t.Errorf("opened %+v %q, metadata %q, %v", got, body, c.Metadata, err)
	}
}
