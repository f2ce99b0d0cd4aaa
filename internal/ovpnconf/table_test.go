// SPDX-License-Identifier: Apache-2.0

package ovpnconf

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// testdata/option-names.txt has every option that a release from 2.5 to 2.8
// knows, on any platform.
func TestTableKnowsEveryOption(t *testing.T) {
	b, err := os.ReadFile("testdata/option-names.txt")
	if err != nil {
		t.Fatal(err)
	}
	names := strings.Fields(string(b))
	if len(names) < 300 {
		t.Fatalf("only %d names", len(names))
	}
	for _, n := range names {
		if byName[n] == nil {
			t.Errorf("%s has no row", n)
		}
	}
}

func TestRowsAreComplete(t *testing.T) {
	topics := Topics()
	for _, d := range append(Table(), ProfileTable()...) {
		if d.Text == "" || strings.HasSuffix(d.Text, ".") || strings.Contains(d.Text, "|") && d.Topic != TopicXDP {
			t.Errorf("%s: text %q", d.Name, d.Text)
		}
		if d.Verdict == Refused && d.Remedy == "" {
			t.Errorf("%s is refused without a way out", d.Name)
		}
		if d.Max >= 0 && d.Min > d.Max {
			t.Errorf("%s: %d to %d arguments", d.Name, d.Min, d.Max)
		}
		if (d.Args == "") != (d.Max == 0) {
			t.Errorf("%s: %d arguments and documented as %q", d.Name, d.Max, d.Args)
		}
		if !slices.Contains(topics, d.Topic) {
			t.Errorf("%s: topic %q", d.Name, d.Topic)
		}
		if d.Place&InClientFile != 0 && d.client == nil && d.Verdict == Honoured {
			t.Errorf("%s may stand in a client's file and nothing reads it", d.Name)
		}
		if d.Place == InClientFile && (d.Remedy == "" || d.read != nil) {
			t.Errorf("%s belongs into a client's file: no way out for the others", d.Name)
		}
	}
}

// Options that only ever turn clients away must not be ignored.
func TestDenyingOptionsAreNeverIgnored(t *testing.T) {
	for _, n := range strings.Fields(`plugin tls-verify verify-x509-name peer-fingerprint remote-cert-tls remote-cert-ku remote-cert-eku
		ns-cert-type verify-hash tls-remote tls-crypt-v2-verify tls-crypt-v2-max-age crl-verify management-client-auth management-client-pf auth-user-pass-verify
		ccd-exclusive disable max-clients block-ipv6 verify-client-cert client-connect learn-address tls-version-min tls-cert-profile`) {
		if d := byName[n]; d == nil || d.Verdict == Ignored {
			t.Errorf("%s: %+v", n, d)
		}
	}
}

func TestSuggest(t *testing.T) {
	for in, want := range map[string]string{
		"prto": "proto", "keep-alive": "keepalive", "client-config-dirs": "client-config-dir", "tlsauth": "tls-auth",
		"zzzzzz": "", "": "", strings.Repeat("push", 50): "", "data-cipher": "data-ciphers",
	} {
		if got := suggest(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
