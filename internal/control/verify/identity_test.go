// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// load reads one of the certificates that openssl has made for this test.
func load(t testing.TB, name string) *x509.Certificate {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "subject-"+name+".crt"))
	if err != nil {
		t.Fatal(err)
	}
	certs, err := parseCerts(b)
	if err != nil || len(certs) != 1 {
		t.Fatal(len(certs), err)
	}
	return certs[0]
}

// What OpenVPN 2.6.14 gave tls-verify for these certificates: tls_id_0, common_name and more
// of the environment.
func TestNamesAsStock(t *testing.T) {
	v := newVerifier(t, options(authority(t, "Root", nil)))
	for name, want := range map[string]struct {
		subject, common string
		env             map[string]string
	}{
		"plain": {"C=KG, ST=NA, O=Org, OU=one, OU=two, CN=good, emailAddress=a@b.c", "good", map[string]string{
			"X509_0_C": "KG", "X509_0_CN": "good", "X509_0_O": "Org", "X509_0_OU": "one", "X509_0_OU_1": "two", "X509_0_ST": "NA", "X509_0_emailAddress": "a@b.c",
			"tls_digest_0":        "29:ac:be:da:0f:8c:a3:26:6c:37:0e:ac:56:bb:06:b7:e5:5c:f0:6f",
			"tls_digest_sha256_0": "96:11:96:ea:8c:43:06:54:9f:23:b4:ec:de:41:77:03:a8:b4:3e:eb:21:48:09:ff:c6:a9:7e:17:31:cc:fb:18",
			"tls_serial_0":        "558248055635366319374184880652471076887707601833",
			"tls_serial_hex_0":    "61:c8:b5:65:64:6a:5c:35:a0:25:24:6f:e7:6a:48:d2:fa:65:4b:a9",
		}},
		"weird": {"C=KG, O=a, b \"q\" \\\\ c, OU=multi, CN=-we/x,é$(id)`", "-we/x,é$(id)`", map[string]string{
			"X509_0_C": "KG", "X509_0_CN": "-we/x,é$(id)`", "X509_0_O": `a, b "q" \ c`, "X509_0_OU": "multi",
			"tls_serial_0": "558248055635366319374184880652471076887707601845"}},
		"control": {`O=tab\09x\0Ay, CN=c\09d\0Ae`, "c_d_e", map[string]string{"X509_0_CN": "c_d_e", "X509_0_O": "tab_x_y"}},
		"multi":   {"C=KG, O=Org + OU=multi, CN=multi", "multi", map[string]string{"X509_0_C": "KG", "X509_0_O": "Org", "X509_0_OU": "multi", "X509_0_CN": "multi"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := load(t, name)
			id, ok := v.IdentityOf(tls.ConnectionState{PeerCertificates: []*x509.Certificate{c}})
			if !ok || id.Subject != want.subject || id.CommonName != want.common {
				t.Errorf("subject %q and name %q, want %q and %q", id.Subject, id.CommonName, want.subject, want.common)
			}
			env := v.Env(id)
			want.env["tls_id_0"] = want.subject
			for k, value := range want.env {
				if env[k] != value {
					t.Errorf("%s is %q, want %q", k, env[k], value)
				}
			}
			for k := range env {
				if _, ok := want.env[k]; !ok && strings.HasPrefix(k, "X509_") {
					t.Errorf("%s is not wanted", k)
				}
			}
		})
	}
}

func TestUsernameField(t *testing.T) {
	o := options(authority(t, "Root", nil))
	for _, c := range []struct {
		cert   string
		fields []string
		want   string // "": refused
	}{
		{"plain", nil, "good"},
		{"plain", []string{"OU"}, "two"},
		{"plain", []string{"C", "CN", "emailAddress"}, "KG_good_a@b.c"},
		{"plain", []string{"EMAILADDRESS"}, "a@b.c"}, // x509-username-field emailaddress
		{"plain", []string{"1.2.840.113549.1.9.1"}, "a@b.c"},
		{"plain", []string{"organizationName"}, "Org"},
		{"plain", []string{"serialNumber"}, "0x61C8B565646A5C35A025246FE76A48D2FA654BA9"},
		{"plain", []string{"C", "UID"}, ""},
		{"plain", []string{"ext:subjectAltName"}, ""},
		{"san", []string{"ext:subjectAltName"}, "two@x.y"},
		{"san", []string{"ext:issuerAltName"}, ""},
		{"dnssan", []string{"ext:subjectAltName"}, ""},
	} {
		o.UsernameFields = c.fields
		got, err := newVerifier(t, o).commonName(load(t, c.cert))
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s %v: %q (%v), want %q", c.cert, c.fields, got, err, c.want)
		}
	}
}

func TestIdentityOfChain(t *testing.T) {
	root := authority(t, "Root", nil)
	v := newVerifier(t, options(root))
	one, two := root.client("one", nil), root.client("one", nil)
	chains := map[[32]byte]bool{}
	for _, l := range []leaf{one, two, one} {
		state, err, _ := shake(t, v, configOf(&l))
		id, ok := v.IdentityOf(state)
		if err != nil || !ok || id.CommonName != "one" || id.Subject != "CN=one" {
			t.Fatal(id, ok, err)
		}
		chains[id.Chain] = true
		if env := v.Env(id); env["X509_1_CN"] != "Root" || env["tls_id_1"] != "CN=Root" || env["tls_serial_1"] != "1" || env["tls_serial_hex_1"] != "01" {
			t.Errorf("the authority is missing in the environment: %v", env)
		}
	}
	if len(chains) != 2 {
		t.Errorf("2 certificates have %d hashes", len(chains))
	}
}

func TestVerifyName(t *testing.T) {
	root := authority(t, "Root", nil)
	good := root.client("client-7", func(c *x509.Certificate) { c.Subject.Country = []string{"KG"} })
	o := options(root)
	for _, c := range []struct {
		name string
		kind NameType
		ok   bool
	}{
		{"C=KG, CN=client-7", NameSubject, true}, {"CN=client-7", NameSubject, false}, {"client-7", NameSubject, false},
		{"client-7", NameWhole, true}, {"client-", NameWhole, false}, {"Client-7", NameWhole, false},
		{"client-", NameWithPrefix, true}, {"client-7", NameWithPrefix, true}, {"client-77", NameWithPrefix, false},
	} {
		o.Name, o.NameType = c.name, c.kind
		reason, _ := refusal(t, newVerifier(t, o), &good)
		if (reason == "") != c.ok || !c.ok && !strings.Contains(reason, "verify-x509-name") {
			t.Errorf("%q as type %d: %q", c.name, c.kind, reason)
		}
	}
}

func TestFileName(t *testing.T) {
	for cn, want := range map[string]string{
		"client1": "client1", "../../evil": ".._.._evil", "/etc/passwd": "_etc_passwd", "..": "", ".": "", "": "",
		"a\x00b": "a_b", "a\nb": "a_b", "...": "...", strings.Repeat("x", 256): "", "DEFAULT": "DEFAULT", "é $(id)": "é $(id)",
	} {
		if got, ok := FileName(cn); got != want || ok != (want != "") {
			t.Errorf("%q is the file %q, want %q", cn, got, want)
		}
	}
}

func FuzzNames(f *testing.F) {
	for _, s := range []string{"client", "../x", "a\x00\n\r\x7f", "\xff\xfe", "\u2028\u0085", ".", "..", "é/ü"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n := Name(s)
		if !utf8.ValidString(n) || strings.ContainsFunc(n, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\u2028' }) {
			t.Fatalf("%q is harmful", n)
		}
		if n != Name(n) {
			t.Fatalf("%q changes again", n)
		}
		file, ok := FileName(s)
		if ok && (filepath.Base(file) != file || file == "." || file == ".." || len(file) > 255) {
			t.Fatalf("%q is no file's name", file)
		}
		if e := escaped(s); strings.ContainsAny(e, "\n\r\x00") {
			t.Fatalf("%q has control characters", e)
		}
	})
}
