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
	"serverAuth": serverAuth, "TLS Web Server Authentication": serverAuth,
	"clientAuth": clientAuth, "TLS Web Client Authentication": clientAuth,
	"codeSigning": "1.3.6.1.5.5.7.3.3", "Code Signing": "1.3.6.1.5.5.7.3.3",
	"emailProtection": "1.3.6.1.5.5.7.3.4", "E-mail Protection": "1.3.6.1.5.5.7.3.4",
	"timeStamping": "1.3.6.1.5.5.7.3.8", "Time Stamping": "1.3.6.1.5.5.7.3.8",
	"OCSPSigning": "1.3.6.1.5.5.7.3.9", "OCSP Signing": "1.3.6.1.5.5.7.3.9",
	"ipsecEndSystem": "1.3.6.1.5.5.7.3.5", "IPSec End System": "1.3.6.1.5.5.7.3.5",
	"ipsecTunnel": "1.3.6.1.5.5.7.3.6", "IPSec Tunnel": "1.3.6.1.5.5.7.3.6",
	"ipsecUser": "1.3.6.1.5.5.7.3.7", "IPSec User": "1.3.6.1.5.5.7.3.7",
	"ipsecIKE": "1.3.6.1.5.5.7.3.17", "ipsec Internet Key Exchange": "1.3.6.1.5.5.7.3.17",
	"anyExtendedKeyUsage": "2.5.29.37.0", "Any Extended Key Usage": "2.5.29.37.0",
	"msSmartcardLogin": "1.3.6.1.4.1.311.20.2.2", "Microsoft Smartcard Login": "1.3.6.1.4.1.311.20.2.2",
}

const (
	serverAuth = "1.3.6.1.5.5.7.3.1"
	clientAuth = "1.3.6.1.5.5.7.3.2"
)

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
	oidNsCertType  = asn1.ObjectIdentifier{2, 16, 840, 1, 113730, 1, 1}
)

// Bits of key usage as OpenVPN writes them (RFC 5280, 4.2.1.3, first byte), and
// of Netscape's certificate type.
const (
	kuDigitalSignature = 0x80
	kuKeyEncipherment  = 0x20
	kuKeyAgreement     = 0x08
	nsClient           = 0x80
	nsServer           = 0x40
)

// purpose is what OpenSSL asks of every certificate of one side without being told
// (its purposes sslclient and sslserver).
type purpose struct {
	eku   string
	usage uint16 // one of these bits
	ns    uint16
}

func (v *Verifier) purpose() purpose {
	if v.opt.Servers {
		return purpose{serverAuth, kuDigitalSignature | kuKeyEncipherment | kuKeyAgreement, nsServer}
	}
	return purpose{clientAuth, kuDigitalSignature | kuKeyAgreement, nsClient}
}

// of holds a certificate against the purpose: an extended key usage, where there is one,
// has to name it, anyExtendedKeyUsage does not do; the other end's own has to be for
// one of the usages, and its Netscape type, if any, for that side.
func (p purpose) of(c *x509.Certificate, authority bool) error {
	if have, present := extKeyUsage(c); present && !slices.Contains(have, p.eku) {
		return errPurpose
	}
	if authority {
		return nil // x509 has looked whether it may sign
	}
	if usage, present := bitString(c, oidKeyUsage); present && usage&p.usage == 0 {
		return errPurpose
	}
	if kind, present := bitString(c, oidNsCertType); present && kind&p.ns == 0 {
		return errPurpose
	}
	return nil
}

// remoteUsage is remote-cert-ku, remote-cert-eku and remote-cert-tls.
func (v *Verifier) remoteUsage(c *x509.Certificate) error {
	if len(v.opt.RemoteKU) > 0 || v.opt.RemoteKUAny {
		usage, present := bitString(c, oidKeyUsage)
		ok := present && (len(v.opt.RemoteKU) == 0 || slices.ContainsFunc(v.opt.RemoteKU, func(mask uint16) bool { return usage&mask == mask }))
		if !ok {
			return errKeyUsage
		}
	}
	if v.eku == "" {
		return nil
	}
	if have, _ := extKeyUsage(c); !slices.Contains(have, v.eku) {
		return errEKU
	}
	return nil
}

// extKeyUsage returns the purposes in dotted form.
func extKeyUsage(c *x509.Certificate) (oids []string, present bool) {
	for _, e := range c.Extensions {
		if !e.Id.Equal(oidExtKeyUsage) {
			continue
		}
		var have []asn1.ObjectIdentifier
		if _, err := asn1.Unmarshal(e.Value, &have); err != nil {
			return nil, true
		}
		for _, o := range have {
			oids = append(oids, o.String())
		}
		return oids, true
	}
	return nil, false
}

// bitString returns an extension's bits as OpenVPN counts them: its first byte
// is the low one. What cannot be read has no bits.
func bitString(c *x509.Certificate, id asn1.ObjectIdentifier) (bits uint16, present bool) {
	for _, e := range c.Extensions {
		if !e.Id.Equal(id) {
			continue
		}
		var s asn1.BitString
		if _, err := asn1.Unmarshal(e.Value, &s); err != nil {
			return 0, true
		}
		for n, b := range s.Bytes[:min(len(s.Bytes), 2)] {
			bits |= uint16(b) << (8 * n)
		}
		return bits, true
	}
	return 0, false
}
