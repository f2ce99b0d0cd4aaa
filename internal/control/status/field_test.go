// SPDX-License-Identifier: Apache-2.0

package status_test

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/status"
)

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"":                       "",
		"alice":                  "alice",
		"Alice Example":          "Alice Example",
		"Müller":                 "Müller",
		"a,b":                    "a_b",
		"a\tb":                   "a_b",
		"a\nEND":                 "a_END",
		"a\r\nb":                 "a__b",
		"a\x00b\x7fc":            "a_b_c",
		"\xff\xfe":               "__",
		"a\u2028b\u202ec":        "a_b_c", // line separator, right-to-left override
		"a\u0085b":               "a_b",
		"../../evil $(x) `y`":    "../../evil $(x) `y`",
		strings.Repeat("ä", 400): strings.Repeat("ä", 256),
		strings.Repeat("€", 400): strings.Repeat("€", 170), // 510 bytes: the next would end at 513
	} {
		if got := status.Printable(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

func TestReal(t *testing.T) {
	for in, want := range map[netip.AddrPort]string{
		{}: "",
		netip.MustParseAddrPort("192.0.2.1:1194"):          "192.0.2.1:1194",
		netip.MustParseAddrPort("[::ffff:192.0.2.1]:1194"): "192.0.2.1:1194",
		netip.MustParseAddrPort("[2001:db8::1]:1194"):      "2001:db8::1",
		netip.MustParseAddrPort("[fe80::1%eth,0]:1194"):    "fe80::1",
	} {
		if got := status.Real(in); got != want {
			t.Errorf("%v became %q, want %q", in, got, want)
		}
	}
}

// Whatever clients are called, each row keeps its columns and no row is added.
func FuzzNamesKeepColumns(f *testing.F) {
	f.Add("alice", "user")
	f.Add("a,b", "c\td")
	f.Add("a\nCLIENT_LIST,evil", "\r\nEND")
	f.Add("\xff\x00", "\u2028")
	f.Fuzz(func(t *testing.T, cn, user string) {
		r := report()
		r.Title = cn
		r.Clients[0].CommonName, r.Clients[0].Username = cn, user
		r.Clients[0].Cipher = user
		r.Routes[0].CommonName = cn
		for version, sep := range map[int]string{1: ",", 2: ",", 3: "\t"} {
			reference, _ := status.Append(nil, version, report())
			got, err := status.Append(nil, version, r)
			if err != nil || !utf8.Valid(got) {
				t.Fatalf("version %d: error %v, UTF-8 %v", version, err, utf8.Valid(got))
			}
			want, lines := bytes.Split(reference, []byte("\n")), bytes.Split(got, []byte("\n"))
			if len(lines) != len(want) {
				t.Fatalf("version %d: %d lines, want %d", version, len(lines), len(want))
			}
			for i := range want {
				if bytes.Count(lines[i], []byte(sep)) != bytes.Count(want[i], []byte(sep)) || bytes.ContainsAny(lines[i], "\r\x00") {
					t.Fatalf("version %d: %q instead of %q", version, lines[i], want[i])
				}
			}
		}
	})
}
