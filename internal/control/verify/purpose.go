// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"crypto/x509"
	"encoding/asn1"
	"fmt"
	"regexp"
	"slices"
)

// ekuNames are OpenSSL's names of purposes, short and long.
var ekuNames = map[string]string{
	"serverAuth": "1.3.6.1.5.5.7.3.1", "TLS Web Server Authentication": "1.3.6.1.5.5.7.3.1",
	"clientAuth": "1.3.6.1.5.5.7.3.2", "TLS Web Client Authentication": "1.3.6.1.5.5.7.3.2",
	"codeSigning": "1.3.6.1.5.5.7.3.3", "Code Signing": "1.3.6.1.5.5.7.3.3",
	"emailProtection": "1.3.6.1.5.5.7.3.4", "E-mail Protection": "1.3.6.1.5.5.7.3.4",
	"timeStamping": "1.3.6.1.5.5.7.3.8", "Time Stamping": "1.3.6.1.5.5.7.3.8",
	"OCSPSigning": "1.3.6.1.5.5.7.3.9", "OCSP Signing": "1.3.6.1.5.5.7.3.9",
	"ipsecEndSystem": "1.3.6.1.5.5.7.3.5", "ipsecTunnel": "1.3.6.1.5.5.7.3.6", "ipsecUser": "1.3.6.1.5.5.7.3.7", "ipsecIKE": "1.3.6.1.5.5.7.3.17",
}

var dotted = regexp.MustCompile(`^[0-2](\.[0-9]+)+$`)

// oidOf returns the dotted form of a purpose.
func oidOf(name string) (string, error) {
	if oid, ok := ekuNames[name]; ok || name == "" {
		return oid, nil
	}
	if !dotted.MatchString(name) {
		return "", fmt.Errorf("read remote-cert-eku: %q is neither an OID nor a name known", name)
	}
	return name, nil
}

var (
	oidKeyUsage    = asn1.ObjectIdentifier{2, 5, 29, 15}
	oidExtKeyUsage = asn1.ObjectIdentifier{2, 5, 29, 37}
)

// purpose is remote-cert-ku, remote-cert-eku and remote-cert-tls.
func (v *Verifier) purpose(c *x509.Certificate) error {
	if len(v.opt.RemoteKU) > 0 || v.opt.RemoteKUAny {
		usage, present := keyUsage(c)
		ok := present && (len(v.opt.RemoteKU) == 0 || slices.ContainsFunc(v.opt.RemoteKU, func(mask uint16) bool { return usage&mask == mask }))
		if !ok {
			return errKeyUsage
		}
	}
	if v.eku == "" {
		return nil
	}
	for _, e := range c.Extensions {
		if !e.Id.Equal(oidExtKeyUsage) {
			continue
		}
		var have []asn1.ObjectIdentifier
		if _, err := asn1.Unmarshal(e.Value, &have); err != nil {
			return errEKU
		}
		if slices.ContainsFunc(have, func(o asn1.ObjectIdentifier) bool { return o.String() == v.eku }) {
			return nil
		}
	}
	return errEKU
}

// keyUsage returns the extension's bits as OpenVPN counts them: its first byte
// is the low one.
func keyUsage(c *x509.Certificate) (bits uint16, present bool) {
	for _, e := range c.Extensions {
		if !e.Id.Equal(oidKeyUsage) {
			continue
		}
		var s asn1.BitString
		if _, err := asn1.Unmarshal(e.Value, &s); err != nil {
			return 0, false
		}
		for n, b := range s.Bytes[:min(len(s.Bytes), 2)] {
			bits |= uint16(b) << (8 * n)
		}
		return bits, true
	}
	return 0, false
}
