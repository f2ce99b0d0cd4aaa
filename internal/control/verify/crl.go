// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// revocations are what is revoked, as of one handshake.
type revocations struct {
	lists []*x509.RevocationList
	dir   string // or a folder of files named by decimal serial numbers
}

// crls reads what crl-verify names; nil without one.
func (v *Verifier) crls() (*revocations, error) {
	o := &v.opt
	switch {
	case o.CRLDir:
		if _, err := os.ReadDir(o.CRL); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrCRL, err)
		}
		return &revocations{dir: o.CRL}, nil
	case o.CRLData != nil:
		return parseCRL(o.CRLData)
	case o.CRL != "":
		b, err := os.ReadFile(o.CRL)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrCRL, err)
		}
		return parseCRL(b)
	}
	return nil, nil
}

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
		r.lists = append(r.lists, l)
	}
	if len(r.lists) == 0 {
		return nil, fmt.Errorf("%w: no PEM block \"X509 CRL\" in it", ErrCRL)
	}
	return r, nil
}

// check refuses the certificate at place n of a chain if it is revoked. As
// with stock OpenVPN, a client's own certificate needs a list of its issuer's; for
// those above it a list is used where there is one.
func (r *revocations) check(c *x509.Certificate, n int, chain []*x509.Certificate, now time.Time) error {
	if r == nil {
		return nil
	}
	if r.dir != "" {
		_, err := os.Stat(filepath.Join(r.dir, c.SerialNumber.String()))
		switch {
		case err == nil:
			return errRevoked
		case errors.Is(err, fs.ErrNotExist):
			return nil
		}
		return fmt.Errorf("%w: %w", ErrCRL, err)
	}
	if n == len(chain)-1 && n > 0 {
		return nil // the root itself
	}
	issuer := c
	if n+1 < len(chain) {
		issuer = chain[n+1]
	}
	found := false
	for _, l := range r.lists {
		if !bytes.Equal(l.RawIssuer, c.RawIssuer) {
			continue
		}
		if err := l.CheckSignatureFrom(issuer); err != nil {
			return fmt.Errorf("%w: its signature: %w", ErrCRL, err)
		}
		if now.Before(l.ThisUpdate) {
			return fmt.Errorf("%w: it is not yet valid", ErrCRL)
		}
		if !l.NextUpdate.IsZero() && now.After(l.NextUpdate) {
			return fmt.Errorf("%w: it has expired, its nextUpdate was %s", ErrCRL, l.NextUpdate.Format(time.RFC3339))
		}
		found = true
		for _, e := range l.RevokedCertificateEntries {
			if e.SerialNumber.Cmp(c.SerialNumber) == 0 {
				return errRevoked
			}
		}
	}
	if !found && n == 0 {
		return fmt.Errorf("%w: there is none of the certificate's issuer in it", ErrCRL)
	}
	return nil
}
