// SPDX-License-Identifier: Apache-2.0

// Package credentials reads the certificates and keys that a configuration names.
package credentials

import (
	"fmt"
	"strings"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/verify"
	"github.com/ovpn-xdp/ovpn-xdp/internal/ovpnconf"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/statickey"
)

// StaticKey reads a static key file. The error names option, file and line.
func StaticKey(s ovpnconf.Source) (*[statickey.Size]byte, error) {
	b, err := s.Load()
	if err != nil {
		return nil, err
	}
	key, err := statickey.Parse(b)
	if err != nil {
		return nil, fmt.Errorf("%s: read %s: %w", s.Line.Position(), s.Line.Option, err)
	}
	return &key, nil
}

// Verify reads the files that decide about certificates, ours among them. Which side we
// are is left to the caller.
func Verify(c *ovpnconf.Common) (verify.Options, error) {
	p := &c.Peers
	o := verify.Options{
		CAPath: p.CAPath, CRLDir: p.CRLDir,
		RemoteKU: p.RemoteKU, RemoteKUAny: p.RemoteKUAny, RemoteEKU: p.RemoteEKU,
		Name: p.Name, NameType: verify.NameType(p.NameType), Fingerprints: p.Fingerprints, UsernameFields: p.UsernameFields,
		MinVersion: c.TLS.MinVersion, MaxVersion: c.TLS.MaxVersion, Ciphers: c.TLS.Ciphers, Groups: c.TLS.Groups, CertProfile: c.TLS.CertProfile,
	}
	// The list is read again for each handshake, unless it stands in the configuration itself.
	if o.CRL = p.CRL.Path; p.CRL.Inline != nil {
		o.CRLData = p.CRL.Inline
	}
	for _, f := range []struct {
		from ovpnconf.Source
		to   *[]byte
	}{{c.TLS.Cert, &o.Cert}, {c.TLS.Key, &o.Key}, {c.TLS.ExtraCerts, &o.ExtraCerts}, {c.TLS.PKCS12, &o.PKCS12}, {p.CA, &o.CA}} {
		if !f.from.Given() {
			continue
		}
		b, err := f.from.Load()
		if err != nil {
			return o, err
		}
		*f.to = b
	}
	if c.TLS.AskPass.Given() {
		b, err := c.TLS.AskPass.Load()
		if err != nil {
			return o, err
		}
		o.Password, _, _ = strings.Cut(string(b), "\n")
	}
	return o, nil
}
