// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"bytes"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// maxChain is how many certificates a client may send, and how many there may
// be up to our CA. Public PKIs have 3 or 4.
const maxChain = 10

// readAuthorities reads ca and capath.
func (v *Verifier) readAuthorities() error {
	certs, err := parseCerts(v.opt.CA)
	if err != nil {
		return fmt.Errorf("read ca: %w", err)
	}
	if v.opt.CAPath != "" {
		more, err := readFolder(v.opt.CAPath)
		if err != nil {
			return fmt.Errorf("read capath: %w", err)
		}
		certs = append(certs, more...)
	}
	v.roots, v.known = x509.NewCertPool(), x509.NewCertPool()
	ends := 0
	for _, c := range certs {
		v.known.AddCert(c)
		v.all = append(v.all, c)
		if selfIssued(c) {
			v.roots.AddCert(c)
			ends++
			continue
		}
		// As with OpenSSL, a chain has to end in a self-signed certificate.
		v.inter = append(v.inter, c)
	}
	switch {
	case v.opt.ClientCert == None || len(certs) == 0 && len(v.opt.Fingerprints) > 0:
		return nil
	case len(certs) == 0:
		return errors.New("read ca: no certificate in it")
	case ends == 0:
		return errors.New("read ca: none of its certificates is self-signed; add the one at the top of the chain")
	}
	return nil
}

// hasCA reports whether certificates have to be signed by an authority.
func (v *Verifier) hasCA() bool { return len(v.all) > 0 || len(v.opt.Fingerprints) == 0 }

// readFolder returns the certificates in a folder; what else lies there,
// revocation lists for instance, is left out.
func readFolder(dir string) (certs []*x509.Certificate, err error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		// `openssl rehash` makes a second name for each, a link.
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			continue
		}
		some, _ := parseCerts(b)
		for _, c := range some {
			if !slices.ContainsFunc(certs, c.Equal) {
				certs = append(certs, c)
			}
		}
	}
	return certs, nil
}

// chain builds the chain from the first of what a client sent to one of our
// authorities.
func (v *Verifier) chain(sent []*x509.Certificate) ([]*x509.Certificate, error) {
	inter := x509.NewCertPool()
	for _, c := range sent[1:] {
		inter.AddCert(c)
	}
	for _, c := range v.inter {
		inter.AddCert(c)
	}
	chains, err := sent[0].Verify(x509.VerifyOptions{Roots: v.roots, Intermediates: inter, CurrentTime: v.now(),
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}) // purpose has its own check
	if err != nil {
		return nil, v.blame(sent, err)
	}
	if len(chains[0]) > maxChain {
		return nil, &CertError{Subject: Subject(sent[0]), Err: errLongChain}
	}
	return chains[0], nil
}

// blame finds the certificate that an error of x509 is about.
func (v *Verifier) blame(sent []*x509.Certificate, err error) error {
	c := sent[0]
	if e, ok := errors.AsType[x509.CertificateInvalidError](err); ok && e.Cert != nil {
		c = e.Cert
	} else if e, ok := errors.AsType[x509.UnknownAuthorityError](err); ok && e.Cert != nil {
		c = e.Cert
	}
	depth := max(slices.IndexFunc(sent, c.Equal), 0)
	if depth == 0 && !c.Equal(sent[0]) {
		depth = 1 // one of our own
	}
	return &CertError{Subject: Subject(c), Depth: depth, Err: err}
}

func selfIssued(c *x509.Certificate) bool {
	return bytes.Equal(c.RawSubject, c.RawIssuer) &&
		(len(c.AuthorityKeyId) == 0 || len(c.SubjectKeyId) == 0 || bytes.Equal(c.AuthorityKeyId, c.SubjectKeyId))
}

// parseCerts returns the certificates in a PEM file.
func parseCerts(b []byte) (certs []*x509.Certificate, err error) {
	for {
		block, rest := pem.Decode(b)
		if block == nil {
			return certs, nil
		}
		b = rest
		if block.Type != "CERTIFICATE" && block.Type != "TRUSTED CERTIFICATE" && block.Type != "X509 CERTIFICATE" {
			continue
		}
		c, err := parseCert(block.Bytes)
		if err != nil {
			return certs, fmt.Errorf("certificate %d of the file: %w", len(certs)+1, err)
		}
		certs = append(certs, c)
	}
}

// firstElement returns the first ASN.1 element: a TRUSTED CERTIFICATE has a second.
func firstElement(der []byte) []byte {
	var raw asn1.RawValue
	if _, err := asn1.Unmarshal(der, &raw); err != nil {
		return der
	}
	return raw.FullBytes
}
