// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"sync"
	"testing"
	"time"
)

// kind is the kind of a certificate's key.
type kind string

const (
	p256    kind = "P-256"
	rsa2048 kind = "RSA-2048"
)

// authority issues certificates. It may be used from several goroutines.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	kind kind
	pem  string

	mu     sync.Mutex
	serial int64
}

// identity is a certificate with its key, both in PEM.
type identity struct {
	name      string
	cert, key string
	serial    *big.Int
}

// leaf is what a certificate may have that is not as a client's should be.
type leaf struct {
	usage     x509.ExtKeyUsage // 0: client authentication
	unmarked  bool             // no extended key usage at all
	notBefore time.Time        // zero: an hour ago
	notAfter  time.Time        // zero: in a day
}

// authorities are made once: an RSA key takes a noticeable part of a second.
var (
	authorityP256 = sync.OnceValues(func() (*authority, error) { return newAuthority("Interop CA", p256) })
	authorityRSA  = sync.OnceValues(func() (*authority, error) { return newAuthority("Interop RSA CA", rsa2048) })
)

func mustAuthority(t *testing.T, k kind) *authority {
	t.Helper()
	get := authorityP256
	if k == rsa2048 {
		get = authorityRSA
	}
	a, err := get()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func newKey(k kind) (crypto.Signer, error) {
	if k == rsa2048 {
		return rsa.GenerateKey(rand.Reader, 2048)
	}
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}

func newAuthority(name string, k kind) (*authority, error) {
	key, err := newKey(k)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(48 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &authority{cert: cert, key: key, kind: k, pem: block("CERTIFICATE", der), serial: 1}, err
}

// issue makes a certificate with a key of the authority's kind.
func (a *authority) issue(t *testing.T, name string, l leaf) identity {
	t.Helper()
	key, err := newKey(a.kind)
	if err != nil {
		t.Fatal(err)
	}
	a.mu.Lock()
	a.serial++
	serial := big.NewInt(a.serial)
	a.mu.Unlock()
	if l.usage == 0 {
		l.usage = x509.ExtKeyUsageClientAuth
	}
	if l.notBefore.IsZero() {
		l.notBefore = time.Now().Add(-time.Hour)
	}
	if l.notAfter.IsZero() {
		l.notAfter = time.Now().Add(24 * time.Hour)
	}
	usage := x509.KeyUsageDigitalSignature
	if a.kind == rsa2048 {
		usage |= x509.KeyUsageKeyEncipherment // what --remote-cert-tls expects of RSA keys
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: l.notBefore, NotAfter: l.notAfter,
		KeyUsage: usage, ExtKeyUsage: []x509.ExtKeyUsage{l.usage},
	}
	if l.unmarked {
		template.ExtKeyUsage = nil
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return identity{name: name, cert: block("CERTIFICATE", der), key: block("PRIVATE KEY", private), serial: serial}
}

// server issues a server's certificate.
func (a *authority) server(t *testing.T) identity {
	t.Helper()
	return a.issue(t, "server", leaf{usage: x509.ExtKeyUsageServerAuth})
}

// revoked is a revocation list that names these certificates.
func (a *authority) revoked(t *testing.T, ids ...identity) string {
	t.Helper()
	list := &x509.RevocationList{
		Number: big.NewInt(1), ThisUpdate: time.Now().Add(-time.Hour), NextUpdate: time.Now().Add(24 * time.Hour),
	}
	for _, id := range ids {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries,
			x509.RevocationListEntry{SerialNumber: id.serial, RevocationTime: time.Now().Add(-time.Minute)})
	}
	der, err := x509.CreateRevocationList(rand.Reader, list, a.cert, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return block("X509 CRL", der)
}

func block(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// inline is a file within a configuration.
func inline(option, text string) string { return "<" + option + ">\n" + text + "</" + option + ">" }
