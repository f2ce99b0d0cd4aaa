// SPDX-License-Identifier: Apache-2.0

// Package verify makes TLS configurations and decides about the other end's
// certificates, a client's or a server's: chain, purpose, revocation, names and
// fingerprints. It decides as stock OpenVPN with OpenSSL does, except where crypto/x509 is
// stricter; Explain says so then. It reads the revocation list anew for every
// handshake, and fails closed when it can't.
package verify

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
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

// Options are what New is told. Files are given as their content, which must
// not be changed afterwards.
type Options struct {
	// Servers: it is servers' certificates that are decided about, and our own is a
	// client's, which may be left out.
	Servers bool

	Cert, Key, ExtraCerts []byte // PEM
	PKCS12                []byte // DER, instead of the three; serves as CA too if that is empty
	Password              string // pass phrase of Key or PKCS12

	CA     []byte // PEM; may be empty with Fingerprints
	CAPath string // folder of more; "": none

	CRL     string // file, or folder with CRLDir; "": none
	CRLDir  bool   // CRL is a folder of files named by revoked serial numbers, in decimal
	CRLData []byte // the list itself, given inline

	ClientCert  ClientCert
	RemoteKU    []uint16 // one of these masks has to be contained; none: any
	RemoteKUAny bool     // key usage has to be there
	RemoteEKU   string   // dotted OID or OpenSSL's name; "": clientAuth, serverAuth with Servers, if the extension is there
	Name        string   // verify-x509-name; "": none
	NameType    NameType
	// Fingerprints are SHA-256 of the clients' certificates that are accepted. With
	// them and neither CA nor CAPath nothing else about a certificate counts, its
	// dates included.
	Fingerprints   [][32]byte
	UsernameFields []string // where the name comes from, joined with "_"; none: CN
	// CertProfile is tls-cert-profile: preferred, suiteb, or what asks for no
	// more than crypto/x509 does: "", legacy, insecure.
	CertProfile string

	MinVersion, MaxVersion uint16 // of crypto/tls; 0: TLS 1.2, and the newest
	Ciphers                []string
	Groups                 []string
}

// Verifier decides about certificates. It may be used concurrently.
type Verifier struct {
	opt    Options
	cert   tls.Certificate
	roots  *x509.CertPool
	known  *x509.CertPool      // roots and the intermediate ones of ours
	inter  []*x509.Certificate // intermediate certificates of ours
	all    []*x509.Certificate // both
	crl    *crlFile            // nil without crl-verify FILE
	eku    string
	suites []uint16
	curves []tls.CurveID
	now    func() time.Time
}

// New reads what it is given; an error says which part cannot be used.
func New(o Options) (*Verifier, error) {
	v := &Verifier{opt: o, now: time.Now}
	if len(o.UsernameFields) == 0 {
		v.opt.UsernameFields = []string{"CN"}
	}
	if o.MaxVersion != 0 && o.MaxVersion < tls.VersionTLS12 {
		return nil, errors.New("tls-version-max: TLS 1.2 is the oldest that is spoken")
	}
	if o.MaxVersion != 0 && o.MaxVersion < o.MinVersion {
		return nil, errors.New("tls-version-max is older than tls-version-min")
	}
	if err := v.ownCertificate(); err != nil {
		return nil, err
	}
	if err := v.readAuthorities(); err != nil {
		return nil, err
	}
	v.completeChain()
	var err error
	if v.eku, err = oidOf(o.RemoteEKU); err != nil {
		return nil, err
	}
	if v.suites, err = cipherSuites(o.Ciphers); err != nil {
		return nil, err
	}
	if v.curves, err = groups(o.Groups); err != nil {
		return nil, err
	}
	return v, v.readRevocations()
}

// TLSConfig returns the configuration of one handshake, with the revocation list as it is
// now. If that cannot be relied on, certificates are refused in the handshake: so
// the client hears of it at once, and the log says whose it was.
func (v *Verifier) TLSConfig() *tls.Config {
	cfg := &tls.Config{
		MinVersion:   max(v.opt.MinVersion, tls.VersionTLS12),
		MaxVersion:   v.opt.MaxVersion,
		CipherSuites: v.suites, CurvePreferences: v.curves,
		// Resumption would skip checks that every handshake has to pass.
		SessionTicketsDisabled: true,
		ClientAuth:             tls.RequireAnyClientCert, // errors of our own checks say more than crypto/tls's
	}
	if v.cert.Certificate != nil {
		cfg.Certificates = []tls.Certificate{v.cert}
	}
	if v.opt.Servers {
		// A client that crypto/tls thinks has no fitting certificate shall say so by its
		// certificate, which the server's log names then.
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &v.cert, nil }
		cfg.InsecureSkipVerify = true // the name dialled says nothing; check decides instead
	}
	switch v.opt.ClientCert {
	case Optional:
		cfg.ClientAuth = tls.RequestClientCert
	case None:
		cfg.ClientAuth = tls.NoClientCert
		return cfg
	}
	if len(v.all) > 0 {
		cfg.ClientCAs = v.known // their names tell a client which of its certificates to send
	}
	revoked, broken := v.revocations()
	cfg.VerifyPeerCertificate = func(raw [][]byte, _ [][]*x509.Certificate) error {
		if len(raw) == 0 {
			return broken // only where it is optional; without a list nobody is let in
		}
		err := v.check(raw, revoked, broken)
		if c, ok := errors.AsType[*CertError](err); ok {
			c.Leaf = sha256.Sum256(raw[0])
		}
		return err
	}
	return cfg
}

// Barred says why a client that was let in with certificates would not be let in with them
// now; nil: it would, or nobody knows since the revocation list cannot be relied on.
func (v *Verifier) Barred(id Identity) error {
	if v.opt.ClientCert == None || len(id.Certificates) == 0 {
		return nil
	}
	revoked, broken := v.revocations()
	raw := make([][]byte, 0, len(id.Certificates))
	for _, c := range id.Certificates {
		raw = append(raw, c.Raw)
	}
	if err := v.check(raw, revoked, broken); !errors.Is(err, ErrCRL) {
		return err
	}
	return nil
}

// parseCert parses a certificate that may be followed by OpenSSL's trust settings.
func parseCert(der []byte) (*x509.Certificate, error) {
	c, err := x509.ParseCertificate(firstElement(der))
	if err != nil {
		return nil, fmt.Errorf("parse certificate: %w", named(err))
	}
	return c, nil
}
