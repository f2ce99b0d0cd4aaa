// SPDX-License-Identifier: Apache-2.0

package session

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"sync"
	"testing"
	"time"
)

// began is when tests begin, in their own time.
var began = time.Unix(1_800_000_000, 0)

// pki is a certificate authority with a server and a client.
type pki struct {
	roots          *x509.CertPool
	server, client tls.Certificate
}

// ecdsaPKI and rsaPKI are made once: making keys takes long.
var (
	ecdsaPKI = sync.OnceValue(func() *pki {
		return newPKI(func() crypto.Signer { return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)) })
	})
	rsaPKI = sync.OnceValue(func() *pki {
		return newPKI(func() crypto.Signer { return must(rsa.GenerateKey(rand.Reader, 2048)) })
	})
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func newPKI(newKey func() crypto.Signer) *pki {
	caKey := newKey()
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"},
		NotBefore: began.Add(-time.Hour), NotAfter: began.Add(time.Hour * 24 * 365),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	ca = must(x509.ParseCertificate(must(x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey))))
	leaf := func(serial int64, name string, use x509.ExtKeyUsage) tls.Certificate {
		key := newKey()
		cert := &x509.Certificate{
			SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
			NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{use},
		}
		der := must(x509.CreateCertificate(rand.Reader, cert, ca, key.Public(), caKey))
		return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: must(x509.ParseCertificate(der))}
	}
	p := &pki{roots: x509.NewCertPool()}
	p.roots.AddCert(ca)
	p.server = leaf(2, "server", x509.ExtKeyUsageServerAuth)
	p.client = leaf(3, "client", x509.ExtKeyUsageClientAuth)
	return p
}

// configs returns both sides' TLS configurations. X25519 alone: the hybrid with
// ML-KEM costs a multiple, and is no matter of this package.
func (p *pki) configs(version uint16) (server, client *tls.Config) {
	common := tls.Config{
		MinVersion: version, MaxVersion: version,
		CurvePreferences: []tls.CurveID{tls.X25519},
		Time:             func() time.Time { return began },
	}
	server, client = common.Clone(), common.Clone()
	server.Certificates, server.ClientCAs = []tls.Certificate{p.server}, p.roots
	server.ClientAuth = tls.RequireAndVerifyClientCert
	client.Certificates, client.RootCAs = []tls.Certificate{p.client}, p.roots
	client.ServerName = "server"
	return server, client
}

// closing closes a session at the end of a test.
func closing(t testing.TB, s *Session) *Session {
	t.Cleanup(s.Close)
	return s
}
