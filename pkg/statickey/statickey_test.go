// SPDX-License-Identifier: Apache-2.0

package statickey

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/aead"
)

// counting is the key whose byte i is i.
func counting() (key [Size]byte) {
	for i := range key {
		key[i] = byte(i)
	}
	return key
}

func TestFormat(t *testing.T) {
	lines := strings.Split(string(Format(counting())), "\n")
	if len(lines) != 22 || lines[21] != "" {
		t.Fatalf("%d lines", len(lines))
	}
	for i, want := range map[int]string{
		0: "#", 1: "# 2048 bit OpenVPN static key", 2: "#",
		3:  "-----BEGIN OpenVPN Static key V1-----",
		4:  "000102030405060708090a0b0c0d0e0f",
		19: "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff",
		20: "-----END OpenVPN Static key V1-----",
	} {
		if lines[i] != want {
			t.Errorf("line %d is %q, want %q", i+1, lines[i], want)
		}
	}
}

func TestParse(t *testing.T) {
	file := string(Format(counting()))
	body := file[strings.Index(file, head):]
	digits := hex.EncodeToString(func() []byte { k := counting(); return k[:] }())
	for name, text := range map[string]string{
		"as written":              file,
		"no comment":              body,
		"no final line end":       strings.TrimSuffix(file, "\n"),
		"CR LF":                   strings.ReplaceAll(file, "\n", "\r\n"),
		"upper case":              strings.ReplaceAll(file, digits[352:384], strings.ToUpper(digits[352:384])),
		"comments and blanks":     strings.Replace(file, "\n10", "\n\n# half a line\n; another\n  10", 1),
		"one line":                head + "\n" + digits + "\n" + tail,
		"text around":             "<secret>\n" + body + "</secret>\nzz\n",
		"second key behind first": body + string(Format([Size]byte{1})),
	} {
		if got, err := Parse([]byte(text)); err != nil || got != counting() {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, text := range map[string]string{
		"empty":           "",
		"no begin":        strings.Replace(file, "BEGIN", "START", 1),
		"no end":          strings.Replace(file, tail, "", 1),
		"version 2":       strings.ReplaceAll(file, "V1", "V2"),
		"a line short":    strings.Replace(file, digits[:32]+"\n", "", 1),
		"a line too many": strings.Replace(file, digits[:32], digits[:32]+"\n"+digits[:32], 1),
		"a byte too many": strings.Replace(file, tail, "00\n"+tail, 1),
		"odd digits":      strings.Replace(file, digits[:32], digits[:31], 1),
		"not hexadecimal": strings.Replace(file, digits[:32], "zz"+digits[2:32], 1),
		"no key":          head + "\n" + tail,
	} {
		got, err := Parse([]byte(text))
		if !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v, want ErrFormat", name, err)
		}
		if got != [Size]byte{} {
			t.Errorf("%s: part of a key returned", name)
		}
		if err != nil && strings.Contains(err.Error(), "zz") {
			t.Errorf("%s: %q quotes the file", name, err)
		}
	}
}

func TestGenerate(t *testing.T) {
	a, err := Generate(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Generate(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if a == b {
		t.Error("the same key twice")
	}
	if got, err := Parse(Format(a)); err != nil || got != a {
		t.Errorf("own file does not parse: %v", err)
	}
	if got, err := Generate(bytes.NewReader(make([]byte, Size-1))); err == nil || got != [Size]byte{} {
		t.Error("a short source of randomness made a key")
	}
}

// What the two roles do with one block fits together, and is where OpenVPN has it.
func TestHalves(t *testing.T) {
	key := counting()
	for _, c := range aead.Ciphers() {
		send, receive, err := Halves(&key, Server, c)
		if err != nil {
			t.Fatal(err)
		}
		clientSend, clientReceive, err := Halves(&key, Client, c)
		if err != nil {
			t.Fatal(err)
		}
		n := c.KeyLen()
		for name, pair := range map[string][2]Half{
			"client to server": {clientSend, receive},
			"server to client": {send, clientReceive},
		} {
			if !bytes.Equal(pair[0].Key, pair[1].Key) || pair[0].IV != pair[1].IV {
				t.Errorf("%s, %s: the ends differ", c, name)
			}
		}
		if !bytes.Equal(send.Key, key[128:128+n]) || send.IV != [8]byte(key[192:200]) {
			t.Errorf("%s: server sends with %x %x", c, send.Key, send.IV)
		}
		if !bytes.Equal(receive.Key, key[:n]) || receive.IV != [8]byte(key[64:72]) {
			t.Errorf("%s: server receives with %x %x", c, receive.Key, receive.IV)
		}
	}
	send, _, _ := Halves(&key, Server, aead.AES128GCM)
	send.Key[0] ^= 1
	if key != counting() {
		t.Error("a half shares memory with the block")
	}
	for name, call := range map[string]func() error{
		"no role":   func() error { _, _, err := Halves(&key, 0, aead.AES128GCM); return err },
		"no cipher": func() error { _, _, err := Halves(&key, Server, 0); return err },
	} {
		if call() == nil {
			t.Errorf("%s: no error", name)
		}
	}
	var same [Size]byte
	if _, _, err := Halves(&same, Server, aead.AES256GCM); !errors.Is(err, ErrSameKey) {
		t.Errorf("equal halves: %v, want ErrSameKey", err)
	}
}

func TestParseRole(t *testing.T) {
	for name, want := range map[string]Role{"server": Server, "client": Client, "Server": Server} {
		if got, err := ParseRole(name); err != nil || got != want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for _, name := range []string{"", "peer", "Role(0)"} {
		if _, err := ParseRole(name); err == nil {
			t.Errorf("%q is a role", name)
		}
	}
}

// OpenVPN writes the same bytes for the same key, so it reads ours as its own.
func TestAgainstOpenVPN(t *testing.T) {
	testlab.RequireTool(t, "openvpn")
	file := filepath.Join(t.TempDir(), "secret.key")
	if out, err := exec.Command("openvpn", "--genkey", "secret", file).CombinedOutput(); err != nil {
		t.Fatalf("openvpn --genkey: %v: %s", err, out)
	}
	theirs, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	key, err := Parse(theirs)
	if err != nil {
		t.Fatal(err)
	}
	if ours := Format(key); !bytes.Equal(ours, theirs) {
		t.Errorf("OpenVPN wrote\n%s\nand we\n%s", theirs, ours)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(Format(counting()))
	f.Add([]byte(head + "\n" + tail))
	f.Fuzz(func(t *testing.T, data []byte) {
		key, err := Parse(data)
		if err != nil {
			if key != [Size]byte{} {
				t.Fatal("part of a key beside an error")
			}
			return
		}
		again, err := Parse(Format(key))
		if err != nil || again != key {
			t.Fatal("key does not survive its own file")
		}
	})
}
