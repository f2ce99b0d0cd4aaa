// SPDX-License-Identifier: Apache-2.0

package ovpnconf

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wrap"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/statickey"
)

// selfSigned returns a certificate and its key in PEM.
func selfSigned(t *testing.T, edit ...func(*x509.Certificate)) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "gw"}, NotAfter: time.Now().Add(time.Hour)}
	for _, e := range edit {
		e(tmpl)
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	enc := func(kind string, b []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
	}
	return enc("CERTIFICATE", der), enc("PRIVATE KEY", raw)
}

// revocationList returns an empty one in PEM, of a CA of that name.
func revocationList(t *testing.T, ca string, until time.Time) string {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	issuer := &x509.Certificate{Subject: pkix.Name{CommonName: ca}, KeyUsage: x509.KeyUsageCRLSign, SubjectKeyId: []byte{1}}
	der, err := x509.CreateRevocationList(rand.Reader, &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: until.Add(-2 * time.Hour), NextUpdate: until}, issuer, k)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der}))
}

// block writes an inline block.
func block(tag, content string) string { return "<" + tag + ">\n" + content + "</" + tag + ">\n" }

func TestUnreadable(t *testing.T) {
	cert, key := selfSigned(t)
	_, other := selfSigned(t)
	later, before := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	expired, expiredKey := selfSigned(t, func(c *x509.Certificate) { c.NotAfter = before })
	forClients, forClientsKey := selfSigned(t, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} })
	static, err := statickey.Generate(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, v2, err := wrap.GenerateServerKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	dir := write(t, map[string]string{
		"ca.crt": "some text in front\n" + cert, "s.crt": cert, "s.key": key, "other.key": other, "ta.key": string(statickey.Format(static)),
		"empty": "", "crl.pem": revocationList(t, "gw", later), "old.pem": revocationList(t, "gw", before), "foreign.pem": revocationList(t, "another", later),
		"both.pem": revocationList(t, "gw", before) + revocationList(t, "gw", later), "expired.crt": expired, "expired.key": expiredKey, "client.crt": forClients, "client.key": forClientsKey,
		"cut.pem": "-----BEGIN X509 CRL-----\nMAA=\n-----END X509 CRL-----\n", "script": "#!/bin/sh\n", "ccd/x": "",
		"locked.key": "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMAA=\n-----END ENCRYPTED PRIVATE KEY-----\n",
		"v2.key":     string(v2),
		"ok.sh":      "#!/bin/sh\n",
	})
	if err := os.Chmod(filepath.Join(dir, "ok.sh"), 0o700); err != nil {
		t.Fatal(err)
	}
	base := "cd " + dir + "\ndev tun\nserver 10.8.0.0 255.255.255.0\nscript-security 2\n"
	files := "ca ca.crt\ncert s.crt\nkey s.key\n"
	for _, tc := range []struct{ text, option, why string }{
		{files, "", ""},
		{files + "tls-auth ta.key 0\ntls-crypt-v2 v2.key\ncrl-verify crl.pem\nclient-config-dir ccd\nup ok.sh\nstatus s.log\n", "", ""},
		{block("ca", cert) + block("cert", cert) + block("key", key) + block("tls-crypt", string(statickey.Format(static))), "", ""},
		{"ca none.crt\ncert s.crt\nkey s.key", "ca", "no such file"},
		{"ca s.key\ncert s.crt\nkey s.key", "ca", "no CERTIFICATE in it"},
		{"ca empty\ncert s.crt\nkey s.key", "ca", "no CERTIFICATE in it"},
		{"ca ccd\ncert s.crt\nkey s.key", "ca", "is a directory"},
		{"ca ca.crt\ncert s.crt\nkey s.crt", "key", "no PRIVATE KEY in it"},
		{"ca ca.crt\ncert s.crt\nkey other.key", "key", "made for"},
		{"ca ca.crt\ncert s.crt\nkey locked.key", "key", "askpass"},
		{"ca ca.crt\ncert s.crt\nkey locked.key\naskpass empty", "", ""},
		{files + "tls-auth s.key 0", "tls-auth", "openvpn --genkey"},
		{files + "tls-crypt-v2 ta.key", "tls-crypt-v2", "openvpn --genkey tls-crypt-v2-server"},
		{files + "crl-verify cut.pem", "crl-verify", "malformed"},
		{files + "crl-verify s.crt", "crl-verify", "CERTIFICATE in it"},
		{files + "crl-verify empty", "crl-verify", "nobody could connect"},
		{files + "crl-verify both.pem", "", ""},
		{files + "crl-verify old.pem", "crl-verify", "nobody is let in until there is a new one"},
		{files + "crl-verify foreign.pem", "crl-verify", "none of the CAs in ca"},
		{"ca ca.crt\ncert expired.crt\nkey expired.key", "cert", "it expired on"},
		{"ca ca.crt\ncert client.crt\nkey client.key", "cert", "not for servers"},
		{files + "crl-verify none", "crl-verify", "no such file"},
		{files + "crl-verify empty dir", "crl-verify", "not a folder"},
		{files + "client-config-dir none", "client-config-dir", "no such file"},
		{files + "up script", "up", "not executable"},
		{files + "up /none/up", "up", "no such file"},
		{files + "client-connect ccd", "client-connect", "not executable"},
		{files + "status none/s.log", "status", "its folder is not there"},
		{files + "log-append none/s.log", "log-append", "its folder is not there"},
		{files + "management 127.0.0.1 7505 none", "management", "no such file"},
	} {
		lines := Parse("server.conf", base+tc.text)
		s, findings := Check(lines)
		if !Usable(findings) {
			t.Errorf("%q: refused without a look at files: %v", tc.text, findings)
		}
		bad := s.Unreadable()
		if tc.option == "" {
			if len(bad) != 0 {
				t.Errorf("%q: %v", tc.text, bad)
			}
			continue
		}
		if f := find(bad, tc.option); f.Verdict == 255 || !strings.Contains(f.Why+f.Remedy, tc.why) || f.Line.Number == 0 {
			t.Errorf("%q: %v, want %s with %q", tc.text, bad, tc.option, tc.why)
		}
		_, merged := Inspect(lines)
		if len(merged) != len(findings) {
			t.Errorf("%q: %d findings became %d", tc.text, len(findings), len(merged))
		}
	}
}

func TestLoad(t *testing.T) {
	dir := write(t, map[string]string{"s.key": "x"})
	s, _ := Check(Parse("server.conf", "cd "+dir+"\nkey s.key\ncert s.crt\n"))
	if b, err := s.TLS.Key.Load(); err != nil || !bytes.Equal(b, []byte("x")) {
		t.Errorf("%q, %v", b, err)
	}
	_, err := s.TLS.Cert.Load()
	if err == nil || !strings.HasPrefix(err.Error(), "server.conf:3: read cert: ") {
		t.Errorf("error %v", err)
	}
	if s.Wrap.V2.Given() || !s.TLS.Cert.Given() {
		t.Error("given is wrong")
	}
}
