// SPDX-License-Identifier: Apache-2.0

// Package verify makes the TLS configuration of a server and decides about
// clients' certificates: chain, purpose, revocation, names and fingerprints. It reads the
// revocation list anew for every handshake, and fails closed when it can't.
package verify

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// ClientCert says whether clients need a certificate.
type ClientCert uint8

// The values.
const (
	Required ClientCert = iota
	Optional
	None
)

// NameType says what Options.Name is compared with.
type NameType uint8

// The types.
const (
	NameSubject    NameType = iota // the whole subject
	NameWhole                      // the common name
	NameWithPrefix                 // the beginning of the common name
)

// Options are what New is told. Files are given as their content.
type Options struct {
	Cert, Key, ExtraCerts []byte // PEM
	PKCS12                []byte // instead of the three
	Password              string // of Key or PKCS12

	CA     []byte // PEM; may be empty with Fingerprints
	CAPath string // folder of more; "": none

	CRL     string // file; "": none
	CRLDir  bool   // CRL is a folder of files named by revoked serial numbers
	CRLData []byte // the list itself, given inline

	ClientCert     ClientCert
	RemoteKU       []uint16 // one of these masks has to be contained; none: any
	RemoteKUAny    bool     // key usage has to be there
	RemoteEKU      string   // dotted OID or OpenSSL's name; "": any
	Name           string   // verify-x509-name; "": none
	NameType       NameType
	Fingerprints   [][32]byte
	CAHashes       [][32]byte
	UsernameFields []string // where the name comes from; none: CN

	MinVersion, MaxVersion uint16
	Ciphers                []string
	Groups                 []string
}

// Verifier decides about certificates. It is not changed after New and may be
// used concurrently.
type Verifier struct {
	opt    Options
	cert   tls.Certificate
	roots  *x509.CertPool
	inter  []*x509.Certificate
	eku    string
	suites []uint16
	curves []tls.CurveID
	now    func() time.Time
}

// New reads what it is given; an error says which part cannot be used.
func New(o Options) (*Verifier, error) {
	v := &Verifier{opt: o, now: time.Now}
	var err error
	if v.cert, err = certificate(&o); err != nil {
		return nil, err
	}
	if err := v.authorities(); err != nil {
		return nil, err
	}
	if v.eku, err = oidOf(o.RemoteEKU); err != nil {
		return nil, err
	}
	if v.suites, err = cipherSuites(o.Ciphers); err != nil {
		return nil, err
	}
	if v.curves, err = groups(o.Groups); err != nil {
		return nil, err
	}
	if len(o.UsernameFields) == 0 {
		v.opt.UsernameFields = []string{"CN"}
	}
	if o.ClientCert != None {
		if _, err := v.crls(); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// authorities reads the CA certificates.
func (v *Verifier) authorities() error {
	pems := [][]byte{v.opt.CA}
	if v.opt.CAPath != "" {
		files, err := os.ReadDir(v.opt.CAPath)
		if err != nil {
			return fmt.Errorf("read capath: %w", err)
		}
		for _, f := range files {
			if b, err := os.ReadFile(filepath.Join(v.opt.CAPath, f.Name())); err == nil {
				pems = append(pems, b)
			}
		}
	}
	v.roots = x509.NewCertPool()
	n := 0
	for _, b := range pems {
		certs, err := parseCerts(b)
		if err != nil && len(b) > 0 && bytes.Equal(b, v.opt.CA) {
			return fmt.Errorf("read ca: %w", err)
		}
		for _, c := range certs {
			// As with OpenSSL, every certificate of the file may be the end of a chain.
			v.roots.AddCert(c)
			v.inter = append(v.inter, c)
			n++
		}
	}
	if n == 0 && v.opt.ClientCert != None && len(v.opt.Fingerprints) == 0 {
		return errors.New("read ca: no certificate in it")
	}
	return nil
}

// TLSConfig returns the configuration of one handshake.
func (v *Verifier) TLSConfig() (*tls.Config, error) {
	cfg := &tls.Config{
		Certificates: []tls.Certificate{v.cert},
		MinVersion:   max(v.opt.MinVersion, tls.VersionTLS12),
		MaxVersion:   v.opt.MaxVersion,
		CipherSuites: v.suites, CurvePreferences: v.curves,
		// Resumption would skip checks that every handshake has to pass.
		SessionTicketsDisabled: true,
		ClientAuth:             tls.RequireAnyClientCert,
	}
	switch v.opt.ClientCert {
	case Optional:
		cfg.ClientAuth = tls.RequestClientCert
	case None:
		cfg.ClientAuth = tls.NoClientCert
		return cfg, nil
	}
	if len(v.opt.Fingerprints) == 0 {
		cfg.ClientCAs = v.roots
	}
	crls, err := v.crls()
	if err != nil {
		return nil, err
	}
	cfg.VerifyPeerCertificate = func(raw [][]byte, _ [][]*x509.Certificate) error {
		if len(raw) == 0 {
			return nil // only where it is optional
		}
		return v.check(raw, crls)
	}
	return cfg, nil
}

// check decides about a client's chain.
func (v *Verifier) check(raw [][]byte, crls *revocations) error {
	chain := make([]*x509.Certificate, 0, len(raw))
	for n, b := range raw {
		c, err := x509.ParseCertificate(b)
		if err != nil {
			return &CertError{Depth: n, Err: err}
		}
		chain = append(chain, c)
	}
	leaf := chain[0]
	if len(v.opt.Fingerprints) > 0 && !slices.Contains(v.opt.Fingerprints, sha256.Sum256(leaf.Raw)) {
		return &CertError{Subject: Subject(leaf), Err: errFingerprint}
	}
	verified := chain
	if len(v.opt.Fingerprints) == 0 || v.opt.CA != nil {
		var err error
		if verified, err = v.chain(chain); err != nil {
			return err
		}
	} else if now := v.now(); now.After(leaf.NotAfter) || now.Before(leaf.NotBefore) {
		return &CertError{Subject: Subject(leaf), Err: x509.CertificateInvalidError{Cert: leaf, Reason: x509.Expired}}
	}
	for n, c := range verified {
		if err := crls.check(c, n, verified, v.now()); err != nil {
			return &CertError{Subject: Subject(c), Depth: n, Err: err}
		}
	}
	if err := v.purpose(leaf); err != nil {
		return &CertError{Subject: Subject(leaf), Err: err}
	}
	if err := v.name(leaf); err != nil {
		return &CertError{Subject: Subject(leaf), Err: err}
	}
	return nil
}

// chain builds the chain to one of our authorities.
func (v *Verifier) chain(sent []*x509.Certificate) ([]*x509.Certificate, error) {
	inter := x509.NewCertPool()
	for _, c := range append(slices.Clone(sent[1:]), v.inter...) {
		inter.AddCert(c)
	}
	chains, err := sent[0].Verify(x509.VerifyOptions{Roots: v.roots, Intermediates: inter, CurrentTime: v.now(),
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	if err != nil {
		return nil, &CertError{Subject: Subject(sent[0]), Err: err}
	}
	return chains[0], nil
}

// name is verify-x509-name.
func (v *Verifier) name(leaf *x509.Certificate) error {
	if v.opt.Name == "" {
		return nil
	}
	got := v.commonName(leaf)
	ok := false
	switch v.opt.NameType {
	case NameSubject:
		got = Subject(leaf)
		ok = got == v.opt.Name
	case NameWhole:
		ok = got == v.opt.Name
	case NameWithPrefix:
		ok = strings.HasPrefix(got, v.opt.Name)
	}
	if !ok {
		return fmt.Errorf("%w: it is %q", errName, got)
	}
	return nil
}
