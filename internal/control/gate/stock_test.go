// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wire"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wrap"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/statickey"
)

// recorded is where the recorded packets are, and their keys.
const recorded = "../wrap/testdata/"

func fixture(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(recorded + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// stockGates are gates that have the keys of the recorded packets.
func stockGates(t testing.TB) map[string]*Gate {
	t.Helper()
	key, err := statickey.Parse(fixture(t, "static.key"))
	if err != nil {
		t.Fatal(err)
	}
	server, err := wrap.ParseServerKey(fixture(t, "v2-server.key"))
	if err != nil {
		t.Fatal(err)
	}
	digest := sha1(t)
	return map[string]*Gate{
		"plain": newGate(t, Config{Static: wrap.Plain}),
		"tls-auth": newGate(t, Config{StaticKey: &key, V2: server,
			Static: func() *wrap.Wrap { return wrap.TLSAuth(&key, digest, wrap.Normal) }}),
		"tls-crypt": newGate(t, Config{StaticKey: &key, V2: server,
			Static: func() *wrap.Wrap { return wrap.TLSCrypt(&key, wrap.Server) }}),
		"tls-crypt-v2": newGate(t, Config{V2: server}),
	}
}

// TestStockResets gives the first packets of OpenVPN 2.5, 2.6 and 2.7 clients to
// the gate of their server.
func TestStockResets(t *testing.T) {
	gates, n := stockGates(t), 0
	for line := range strings.Lines(string(fixture(t, "resets.txt"))) {
		f := strings.Fields(line)
		if f[0] == "#" || f[0] == "tls-auth" && f[2] != "SHA1,1" {
			continue
		}
		n++
		b, err := hex.DecodeString(f[3])
		if err != nil {
			t.Fatal(err)
		}
		h, _ := wire.ParseHeader(b)
		want := Reply
		if f[0] == "tls-crypt-v2" && f[1] == "2.5" {
			want = Accept
		}
		if d := gates[f[0]].Datagram(home, b, moment); d.Verdict != want {
			t.Errorf("%s: %+v", strings.Join(f[:3], " "), d)
		}
		if d := gates[f[0]].Stream(home, b, moment); d.Verdict != Accept || d.Accepted.Client != h.Session {
			t.Errorf("%s over TCP: %+v", strings.Join(f[:3], " "), d)
		}
	}
	if n < 10 {
		t.Errorf("%d packets", n)
	}
}

// FuzzDatagram gives arbitrary datagrams to gates of all kinds.
func FuzzDatagram(f *testing.F) {
	for _, name := range []string{"resets.txt", "captured.txt"} {
		for _, s := range strings.Fields(string(fixture(f, name))) {
			if b, err := hex.DecodeString(s); err == nil && len(b) > 8 {
				f.Add(b)
			}
		}
	}
	f.Add([]byte("\x20CLIENTID\x00\x00\x00\x00\x01"))                         // without its ack
	f.Add([]byte("\x28CLIENTID\x01\x00\x00\x00\x00SERVERID"))                 // an ack
	f.Add([]byte("\x20CLIENTID\x01\x00\x00\x00\x00SERVERID\x00\x00\x00\x01")) // a cookie that is none
	f.Add([]byte("\x38CLIENTID\x09\x00\x00\x00\x00"))
	gates := stockGates(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		before := string(b)
		for name, g := range gates {
			for _, d := range []Decision{g.Datagram(home, b, moment), g.Stream(home, b, moment)} {
				if (d.Reason != "") != (d.Verdict == Drop) || (len(d.Reply) > 0) != (d.Verdict == Reply) || (d.Accepted != nil) != (d.Verdict == Accept) {
					t.Errorf("%s: %+v", name, d)
				}
				if d.Verdict == Accept && !d.Accepted.SendReset {
					t.Errorf("%s: a cookie was guessed: %+v", name, d.Accepted)
				}
				if n := len(d.Reply) + len(d.Also); n > 2*len(b)+24 {
					t.Errorf("%s: %d bytes are answered with %d", name, len(b), n)
				}
			}
		}
		if string(b) != before {
			t.Error("the datagram was changed")
		}
	})
}
