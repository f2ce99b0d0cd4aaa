// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// issuer is an authority, at the top or between.
type issuer struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	next atomic.Int64 // serial number
}

// leaf is a certificate with its key, as a client or server has it.
type leaf struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	more [][]byte // sent behind it
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// authority makes a CA at the top. change may be nil.
func authority(t testing.TB, name string, change func(*x509.Certificate)) *issuer {
	t.Helper()
	return (&issuer{t: t, key: newKey(t)}).below(name, change)
}

// below makes a CA that this one has signed; one without certificate signs itself.
func (ca *issuer) below(name string, change func(*x509.Certificate)) *issuer {
	ca.t.Helper()
	template := &x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign}
	if change != nil {
		change(template)
	}
	if ca.cert == nil {
		ca.cert = ca.sign(template, ca.key)
		return ca
	}
	key := newKey(ca.t)
	return &issuer{t: ca.t, cert: ca.sign(template, key), key: key}
}

// sign fills in what a template lacks and signs it.
func (ca *issuer) sign(template *x509.Certificate, key *ecdsa.PrivateKey) *x509.Certificate {
	ca.t.Helper()
	if template.SerialNumber == nil {
		template.SerialNumber = big.NewInt(ca.next.Add(1))
	}
	if template.NotBefore.IsZero() {
		template.NotBefore = time.Now().Add(-time.Hour)
	}
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	parent := ca.cert
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), ca.key)
	if err != nil {
		ca.t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		ca.t.Fatal(err)
	}
	return c
}

// client issues a client's certificate. change may be nil.
func (ca *issuer) client(name string, change func(*x509.Certificate)) leaf {
	ca.t.Helper()
	template := &x509.Certificate{Subject: pkix.Name{CommonName: name}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if change != nil {
		change(template)
	}
	key := newKey(ca.t)
	return leaf{cert: ca.sign(template, key), key: key}
}

func (ca *issuer) server() leaf {
	ca.t.Helper()
	return ca.client("server", func(c *x509.Certificate) {
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		c.DNSNames = []string{"server"}
	})
}

// crl makes a list that names these certificates. change may be nil.
func (ca *issuer) crl(change func(*x509.RevocationList), revoked ...*x509.Certificate) []byte {
	ca.t.Helper()
	l := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: time.Now().Add(-time.Minute), NextUpdate: time.Now().Add(time.Hour)}
	for _, c := range revoked {
		l.RevokedCertificateEntries = append(l.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: c.SerialNumber, RevocationTime: time.Now()})
	}
	if change != nil {
		change(l)
	}
	der, err := x509.CreateRevocationList(rand.Reader, l, ca.cert, ca.key)
	if err != nil {
		ca.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der})
}

func pemOf(certs ...*x509.Certificate) (out []byte) {
	for _, c := range certs {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return out
}

func keyPEM(t testing.TB, k *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// options are a server's whose authority is ca.
func options(ca *issuer) Options {
	ca.t.Helper()
	s := ca.server()
	return Options{Cert: pemOf(s.cert), Key: keyPEM(ca.t, s.key), CA: pemOf(ca.cert)}
}

func newVerifier(t testing.TB, o Options) *Verifier {
	t.Helper()
	v, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// file writes a file into a folder of the test's.
func file(t testing.TB, name string, content []byte) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (l leaf) tls() tls.Certificate {
	return tls.Certificate{Certificate: append([][]byte{l.cert.Raw}, l.more...), PrivateKey: l.key}
}

func (l leaf) fingerprint() [32]byte { return sha256.Sum256(l.cert.Raw) }
