// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// revocations are what is revoked, as of one handshake. nil revokes nothing. It may
// be used concurrently.
type revocations struct {
	lists []*crl
	dir   string // or a folder of files named by decimal serial numbers
}

// crl is one list.
type crl struct {
	*x509.RevocationList
	serials map[string]struct{}
	unknown string // a critical extension that cannot be heeded; "": none

	mu     sync.Mutex
	signed map[[32]byte]error // by SHA-256 of an issuer's certificate: whether it has signed the list
}

// parseCRL reads the lists in a PEM file.
func parseCRL(b []byte) (*revocations, error) {
	r := &revocations{}
	for {
		block, rest := pem.Decode(b)
		if block == nil {
			break
		}
		b = rest
		if block.Type != "X509 CRL" {
			continue
		}
		l, err := x509.ParseRevocationList(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrCRL, err)
		}
		r.lists = append(r.lists, newCRL(l))
	}
	if len(r.lists) == 0 {
		return nil, fmt.Errorf("%w: no PEM block \"X509 CRL\" in it", ErrCRL)
	}
	return r, nil
}

func newCRL(l *x509.RevocationList) *crl {
	c := &crl{RevocationList: l, serials: make(map[string]struct{}, len(l.RevokedCertificateEntries)), signed: map[[32]byte]error{}}
	// Deltas and lists of a part of the certificates are marked by such extensions (RFC 5280, 5.2).
	for _, e := range l.Extensions {
		if e.Critical {
			c.unknown = e.Id.String()
		}
	}
	for _, entry := range l.RevokedCertificateEntries {
		c.serials[string(entry.SerialNumber.Bytes())] = struct{}{}
		for _, e := range entry.Extensions {
			if e.Critical {
				c.unknown = e.Id.String()
			}
		}
	}
	return c
}

// check refuses the certificate at place n of a chain if it is revoked. As
// with stock OpenVPN, certificates for which there is no list pass; useful has to be
// asked too.
func (r *revocations) check(c *x509.Certificate, n int, chain []*x509.Certificate, now time.Time) error {
	if r == nil {
		return nil
	}
	if r.dir != "" {
		return r.lookUp(c)
	}
	issuer := chain[min(n+1, len(chain)-1)]
	l := r.listOf(issuer, now)
	if l == nil {
		return nil
	}
	switch err := l.signedBy(issuer); {
	case err != nil:
		return fmt.Errorf("%w: its signature: %w", ErrCRL, err)
	case l.unknown != "":
		return fmt.Errorf("%w: its critical extension %s is not known", ErrCRL, l.unknown)
	case now.Before(l.ThisUpdate):
		return fmt.Errorf("%w: it is valid from %s on only", ErrCRL, l.ThisUpdate.Format(time.RFC3339))
	case !l.current(now):
		return fmt.Errorf("%w: it has expired, its nextUpdate was %s", ErrCRL, l.NextUpdate.Format(time.RFC3339))
	}
	if _, ok := l.serials[string(c.SerialNumber.Bytes())]; ok {
		return errRevoked
	}
	return nil
}

// lookUp looks into a folder for a file named by a serial number.
func (r *revocations) lookUp(c *x509.Certificate) error {
	_, err := os.Lstat(filepath.Join(r.dir, c.SerialNumber.String()))
	switch {
	case err == nil:
		return errRevoked
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return fmt.Errorf("%w: %w", ErrCRL, err)
}

// listOf returns an issuer's list; of several, a current one before others, and then
// the newest.
func (r *revocations) listOf(issuer *x509.Certificate, now time.Time) (best *crl) {
	for _, l := range r.lists {
		if !l.of(issuer) {
			continue
		}
		if best == nil || l.current(now) && !best.current(now) ||
			l.current(now) == best.current(now) && l.ThisUpdate.After(best.ThisUpdate) {
			best = l
		}
	}
	return best
}

// useful refuses everybody when no list has to do with the chain or with an
// authority of ours: the file then is the wrong one, and revokes nobody.
func (r *revocations) useful(chain, ours []*x509.Certificate) error {
	if r == nil || r.dir != "" {
		return nil
	}
	for _, l := range r.lists {
		for _, certs := range [][]*x509.Certificate{chain, ours} {
			for _, c := range certs {
				if l.of(c) {
					return nil
				}
			}
		}
	}
	return fmt.Errorf("%w: no list in it is of the CA's", ErrCRL)
}

// of reports whether a list is an authority's, by its name and key.
func (l *crl) of(issuer *x509.Certificate) bool {
	return bytes.Equal(l.RawIssuer, issuer.RawSubject) &&
		(len(l.AuthorityKeyId) == 0 || len(issuer.SubjectKeyId) == 0 || bytes.Equal(l.AuthorityKeyId, issuer.SubjectKeyId))
}

func (l *crl) current(now time.Time) bool {
	return !now.Before(l.ThisUpdate) && (l.NextUpdate.IsZero() || !now.After(l.NextUpdate))
}

// signedBy checks a signature once for each issuer, as that hashes the whole list.
func (l *crl) signedBy(issuer *x509.Certificate) error {
	id := sha256.Sum256(issuer.Raw)
	l.mu.Lock()
	defer l.mu.Unlock()
	err, ok := l.signed[id]
	if !ok {
		err = l.CheckSignatureFrom(issuer)
		l.signed[id] = err
	}
	return err
}
