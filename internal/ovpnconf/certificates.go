// SPDX-License-Identifier: Apache-2.0

package ovpnconf

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"time"
)

// A gateway starts with what is said here, as its files may be made anew while it
// runs; but as they are, clients will not get in.

// blocks returns the content of all PEM blocks of a kind.
func blocks(b []byte, kind string) (out [][]byte) {
	for rest := b; ; {
		var p *pem.Block
		if p, rest = pem.Decode(rest); p == nil {
			return out
		}
		if p.Type == kind {
			out = append(out, p.Bytes)
		}
	}
}

// doubtCert says what the other end will have against our own certificate at a time:
// others are who looks at it, purpose is what it has to be for.
func (c *Common) doubtCert(now time.Time, others string, purpose x509.ExtKeyUsage) answer {
	if !given(c.TLS.Cert) {
		return fine
	}
	b, err := c.TLS.Cert.Load()
	if err != nil {
		return fine // reported by itself
	}
	certs := blocks(b, "CERTIFICATE")
	if len(certs) == 0 {
		return fine
	}
	own, err := x509.ParseCertificate(certs[0])
	if err != nil {
		return fine
	}
	use := own.ExtKeyUsage
	switch {
	case now.After(own.NotAfter):
		return note("it expired on %s: %s will refuse it", own.NotAfter.Format(time.DateOnly), others)
	case now.Before(own.NotBefore):
		return note("it is valid from %s on: %s will refuse it until then", own.NotBefore.Format(time.DateTime), others)
	case len(use) == 0 || slices.Contains(use, purpose) || slices.Contains(use, x509.ExtKeyUsageAny):
	case purpose == x509.ExtKeyUsageServerAuth:
		return note("it is not for servers (extended key usage): clients with remote-cert-tls server will refuse it")
	default:
		return note("it is not for clients (extended key usage): %s will refuse it", others)
	}
	return fine
}

// doubtCRL says whether the revocation list, as it is at a time, will have everybody refused.
func (c *Common) doubtCRL(now time.Time) answer {
	if c.Peers.CRLDir || !given(c.Peers.CRL) {
		return fine
	}
	b, err := c.Peers.CRL.Load()
	if err != nil {
		return fine // reported by itself
	}
	lists := blocks(b, "X509 CRL")
	if len(lists) == 0 {
		lists = [][]byte{b}
	}
	var authorities [][]byte
	if given(c.Peers.CA) {
		ca, _ := c.Peers.CA.Load()
		for _, der := range blocks(ca, "CERTIFICATE") {
			if ca, err := x509.ParseCertificate(der); err == nil {
				authorities = append(authorities, ca.RawSubject)
			}
		}
	}
	ours, newest := false, time.Time{}
	for _, der := range lists {
		l, err := x509.ParseRevocationList(der)
		if err != nil {
			return fine // reported by itself
		}
		if len(authorities) > 0 && !slices.ContainsFunc(authorities, func(name []byte) bool { return bytes.Equal(name, l.RawIssuer) }) {
			continue
		}
		ours = true
		if l.NextUpdate.IsZero() || l.NextUpdate.After(now) {
			return fine
		}
		if l.NextUpdate.After(newest) {
			newest = l.NextUpdate
		}
	}
	switch {
	case ours:
		return note("it expired on %s: nobody is let in until there is a new one", newest.Format(time.DateTime))
	case c.Peers.CAPath == "":
		return note("it is of none of the CAs in ca: nobody is let in with it")
	}
	return fine
}
