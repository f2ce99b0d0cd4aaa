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

// doubtCert says what clients will have against the server's own certificate at a time.
func (s *Server) doubtCert(now time.Time) answer {
	if !given(s.TLS.Cert) {
		return fine
	}
	b, err := s.TLS.Cert.Load()
	if err != nil {
		return fine // reported by itself
	}
	certs := blocks(b, "CERTIFICATE")
	if len(certs) == 0 {
		return fine
	}
	c, err := x509.ParseCertificate(certs[0])
	if err != nil {
		return fine
	}
	use := c.ExtKeyUsage
	switch {
	case now.After(c.NotAfter):
		return note("it expired on %s: clients will refuse it", c.NotAfter.Format(time.DateOnly))
	case now.Before(c.NotBefore):
		return note("it is valid from %s on: clients will refuse it until then", c.NotBefore.Format(time.DateTime))
	case len(use) > 0 && !slices.Contains(use, x509.ExtKeyUsageServerAuth) && !slices.Contains(use, x509.ExtKeyUsageAny):
		return note("it is not for servers (extended key usage): clients with remote-cert-tls server will refuse it")
	}
	return fine
}

// doubtCRL says whether the revocation list, as it is at a time, will have everybody refused.
func (s *Server) doubtCRL(now time.Time) answer {
	if s.Peers.CRLDir || !given(s.Peers.CRL) {
		return fine
	}
	b, err := s.Peers.CRL.Load()
	if err != nil {
		return fine // reported by itself
	}
	lists := blocks(b, "X509 CRL")
	if len(lists) == 0 {
		lists = [][]byte{b}
	}
	var authorities [][]byte
	if given(s.Peers.CA) {
		ca, _ := s.Peers.CA.Load()
		for _, der := range blocks(ca, "CERTIFICATE") {
			if c, err := x509.ParseCertificate(der); err == nil {
				authorities = append(authorities, c.RawSubject)
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
	case s.Peers.CAPath == "":
		return note("it is of none of the CAs in ca: nobody is let in with it")
	}
	return fine
}
