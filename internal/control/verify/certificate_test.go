// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"software.sslmate.com/src/go-pkcs12"
)

const passphrase = "pass phrase é"

func read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Keys that openssl has written; all of them are the same one.
func TestEncryptedKeys(t *testing.T) {
	plain, err := x509.ParsePKCS8PrivateKey(firstBlock(t, read(t, "key-plain.pem")))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"plain", "aes256", "aes128-sha1", "des3", "sha512", "traditional"} {
		b, err := decryptKey(read(t, "key-"+name+".pem"), passphrase)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		der := firstBlock(t, b)
		key, err := x509.ParsePKCS8PrivateKey(der)
		if err != nil {
			key, err = x509.ParseECPrivateKey(der)
		}
		if err != nil || !plain.(interface{ Equal(crypto.PrivateKey) bool }).Equal(key) {
			t.Errorf("%s: another key (%v)", name, err)
		}
		if name == "plain" {
			continue
		}
		if _, err := decryptKey(read(t, "key-"+name+".pem"), "wrong"); err == nil || !strings.Contains(err.Error(), "wrong pass phrase") {
			t.Errorf("%s with the wrong pass phrase: %v", name, err)
		}
		if _, err := decryptKey(read(t, "key-"+name+".pem"), ""); err == nil || !strings.Contains(err.Error(), "askpass") {
			t.Errorf("%s without pass phrase: %v", name, err)
		}
	}
	for name, want := range map[string]string{"scrypt": "key derivation 1.3.6.1.4.1.11591.4.11 is unknown; write it anew", "pbes1": "only PBES2 is read; write it anew"} {
		if _, err := decryptKey(read(t, "key-"+name+".pem"), passphrase); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

func firstBlock(t testing.TB, b []byte) []byte {
	t.Helper()
	block, _ := pem.Decode(b)
	if block == nil {
		t.Fatalf("no PEM in %q", b)
	}
	return block.Bytes
}

func FuzzDecryptPKCS8(f *testing.F) {
	for _, name := range []string{"aes256", "aes128-sha1", "des3", "sha512", "scrypt", "pbes1"} {
		f.Add(firstBlock(f, read(f, "key-"+name+".pem")))
	}
	f.Fuzz(func(t *testing.T, der []byte) {
		if bytes.Contains(der, []byte{0x02, 0x03}) || bytes.Contains(der, []byte{0x02, 0x04}) {
			return // millions of iterations take seconds, as they should
		}
		if key, err := decryptPKCS8(der, passphrase); (err == nil) != (len(key) > 0) {
			t.Fatalf("%d bytes with %v", len(key), err)
		}
	})
}

// What a client sees of a server whose certificate an intermediate CA has signed.
func TestOwnChain(t *testing.T) {
	root := authority(t, "Root", nil)
	inter := root.below("Inter", nil)
	s, client := inter.server(), root.client("client", nil)
	plain := Options{Cert: pemOf(s.cert), Key: keyPEM(t, s.key), CA: pemOf(root.cert)}
	withExtra, withCert, withCA := plain, plain, plain
	withExtra.ExtraCerts = pemOf(inter.cert)
	withCert.Cert = pemOf(s.cert, inter.cert)
	withCA.CA = pemOf(root.cert, inter.cert)
	roots := x509.NewCertPool()
	roots.AddCert(root.cert)
	for name, c := range map[string]struct {
		o  Options
		ok bool
	}{"alone": {plain, false}, "extra-certs": {withExtra, true}, "in cert": {withCert, true}, "in ca": {withCA, true}} {
		cfg := configOf(&client)
		cfg.InsecureSkipVerify, cfg.RootCAs, cfg.ServerName = false, roots, "server"
		_, err, atClient := shake(t, newVerifier(t, c.o), cfg)
		if (atClient == nil) != c.ok {
			t.Errorf("%s: the client says %v", name, atClient)
		}
		if reason, remedy := Explain(err); !c.ok && (reason != "the client does not trust our certificate" || remedy == "") {
			t.Errorf("%s: %q (%q)", name, reason, remedy)
		}
	}
}

func TestPKCS12(t *testing.T) {
	root := authority(t, "Root", nil)
	inter := root.below("Inter", nil)
	s, client, other := inter.server(), root.client("client", nil), authority(t, "Other", nil).client("other", nil)
	for name, encoder := range map[string]*pkcs12.Encoder{"modern": pkcs12.Modern, "legacy": pkcs12.LegacyDES} {
		bundle, err := encoder.Encode(s.key, s.cert, []*x509.Certificate{inter.cert, root.cert}, "secret")
		if err != nil {
			t.Fatal(err)
		}
		o := Options{PKCS12: bundle, Password: "secret"}
		v := newVerifier(t, o)
		want(t, v, &client) // the bundle's CA is trusted
		want(t, v, &other, "no CA of ours")
		if n := len(v.cert.Certificate); n != 2 {
			t.Errorf("%s: %d certificates are sent, want 2", name, n)
		}
		o.CA = pemOf(authority(t, "Third", nil).cert)
		want(t, newVerifier(t, o), &client, "no CA of ours")
		for _, wrong := range []string{"", "x"} {
			o.Password = wrong
			if _, err := New(o); err == nil || !strings.Contains(err.Error(), "pass phrase") {
				t.Errorf("%s with pass phrase %q: %v", name, wrong, err)
			}
		}
	}
}

func TestBadFiles(t *testing.T) {
	root := authority(t, "Root", nil)
	fine := options(root)
	neg := negative(root.client("x", nil)).cert.Raw
	for name, c := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"no key":         {func(o *Options) { o.Key = nil }, "read cert and key"},
		"another key":    {func(o *Options) { o.Key = keyPEM(t, newKey(t)) }, "private key does not match"},
		"encrypted key":  {func(o *Options) { o.Key = read(t, "key-aes256.pem") }, "askpass"},
		"no ca":          {func(o *Options) { o.CA = nil }, "read ca: no certificate"},
		"bad ca":         {func(o *Options) { o.CA = []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n") }, "certificate 1 of the file"},
		"negative ca":    {func(o *Options) { o.CA = pemOf(&x509.Certificate{Raw: neg}) }, "Go refuses it though OpenSSL takes it"},
		"negative cert":  {func(o *Options) { o.Cert = pemOf(&x509.Certificate{Raw: neg}) }, "issue the certificate anew"},
		"no capath":      {func(o *Options) { o.CAPath = "/nonexistent" }, "read capath"},
		"unknown EKU":    {func(o *Options) { o.RemoteEKU = "teapot" }, `"teapot" is neither`},
		"DHE":            {func(o *Options) { o.Ciphers = []string{"TLS-DHE-RSA-WITH-AES-256-GCM-SHA384"} }, "suites need ECDHE"},
		"groups":         {func(o *Options) { o.Groups = []string{"secp256k1"} }, "tls-groups: none"},
		"old TLS":        {func(o *Options) { o.MaxVersion = tls.VersionTLS11 }, "TLS 1.2 is the oldest"},
		"min above max":  {func(o *Options) { o.MinVersion, o.MaxVersion = tls.VersionTLS13, tls.VersionTLS12 }, "older than tls-version-min"},
		"no list":        {func(o *Options) { o.CRLData = []byte("x") }, "revocation list cannot be used"},
		"no list's file": {func(o *Options) { o.CRL = "/nonexistent" }, "revocation list cannot be used"},
	} {
		o := fine
		c.change(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestCAPath(t *testing.T) {
	root, second := authority(t, "Root", nil), authority(t, "Second", nil)
	o := options(root)
	o.CAPath = filepath.Dir(file(t, "0a1b2c3d.0", pemOf(second.cert)))
	for name, b := range map[string][]byte{"0a1b2c3d.r0": second.crl(nil), "README": []byte("x"), "bad.0": []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")} {
		if err := os.WriteFile(filepath.Join(o.CAPath, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	one, two := root.client("one", nil), second.client("two", nil)
	for _, ca := range [][]byte{o.CA, nil} {
		o.CA = ca
		v := newVerifier(t, o)
		want(t, v, &two)
		if ca != nil {
			want(t, v, &one)
		} else {
			want(t, v, &one, "no CA of ours")
		}
	}
}
