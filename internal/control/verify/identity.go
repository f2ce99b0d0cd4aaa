// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"crypto/sha1"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"fmt"
	"strings"
)

// Identity is who a client's certificate says it is.
type Identity struct {
	// CommonName is made harmless, see Name.
	CommonName string
	// Subject is as OpenVPN writes it, harmless too.
	Subject string
	// Chain is SHA-256 over all certificates that the client sent: what must not
	// change at a renegotiation.
	Chain [32]byte
	// Certificates are what the client sent, its own first.
	Certificates []*x509.Certificate
}

// IdentityOf returns who is at the other end of a connection whose certificate was
// verified; ok is false if there is none.
func (v *Verifier) IdentityOf(cs tls.ConnectionState) (id Identity, ok bool) {
	if len(cs.PeerCertificates) == 0 {
		return Identity{}, false
	}
	h := sha256.New()
	for _, c := range cs.PeerCertificates {
		h.Write(c.Raw)
	}
	id = Identity{CommonName: v.commonName(cs.PeerCertificates[0]), Subject: Subject(cs.PeerCertificates[0]), Certificates: cs.PeerCertificates}
	h.Sum(id.Chain[:0])
	return id, true
}

// commonName is the certificate's name by x509-username-field.
func (v *Verifier) commonName(c *x509.Certificate) string {
	var parts []string
	for _, f := range v.opt.UsernameFields {
		if s := field(c, f); s != "" {
			parts = append(parts, s)
		}
	}
	return Name(strings.Join(parts, "_"))
}

// field returns the value of a field of a subject, or of an extension.
func field(c *x509.Certificate, name string) string {
	if ext, ok := strings.CutPrefix(name, "ext:"); ok {
		if ext == "subjectAltName" {
			for _, s := range [][]string{c.EmailAddresses, c.DNSNames} {
				if len(s) > 0 {
					return s[0]
				}
			}
		}
		return ""
	}
	if name == "serialNumber" {
		return "0x" + strings.ToUpper(c.SerialNumber.Text(16))
	}
	value := ""
	for _, a := range c.Subject.Names {
		if shortName(a) == name || a.Type.String() == name {
			value = fmt.Sprint(a.Value) // the last one, as OpenSSL's search ends there
		}
	}
	return value
}

// oids are the names that OpenSSL gives to parts of a subject.
var oids = map[string]string{
	"2.5.4.3": "CN", "2.5.4.4": "SN", "2.5.4.5": "serialNumber", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.9": "street",
	"2.5.4.10": "O", "2.5.4.11": "OU", "2.5.4.12": "title", "2.5.4.13": "description", "2.5.4.17": "postalCode", "2.5.4.41": "name", "2.5.4.42": "GN", "2.5.4.43": "initials",
	"2.5.4.46": "dnQualifier", "2.5.4.65": "pseudonym", "1.2.840.113549.1.9.1": "emailAddress", "0.9.2342.19200300.100.1.1": "UID", "0.9.2342.19200300.100.1.25": "DC",
}

func shortName(a pkix.AttributeTypeAndValue) string {
	if n, ok := oids[a.Type.String()]; ok {
		return n
	}
	return a.Type.String()
}

// Subject writes a certificate's subject as OpenVPN does: "C=KG, ST=NA, CN=x".
func Subject(c *x509.Certificate) string {
	var parts []string
	for _, a := range c.Subject.Names {
		parts = append(parts, shortName(a)+"="+fmt.Sprint(a.Value))
	}
	s := printable(strings.Join(parts, ", "))
	if strings.HasPrefix(s, "-") {
		s = "_" + s[1:]
	}
	return s
}

// Name makes a common name or username harmless: control characters become
// `_`. It may still hold anything else, also what means something to a
// shell, in a file or in a path.
func Name(s string) string { return printable(s) }

// printable replaces what is not printable ASCII or part of a longer UTF-8 sequence.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == '\u2028' || r == '\u2029' || r == '\ufffd' {
			return '_'
		}
		return r
	}, s)
}

// FileName returns the name of the file that belongs to a common name in
// client-config-dir; ok is false if there can be none.
func FileName(cn string) (string, bool) {
	s := strings.Map(func(r rune) rune {
		if r == '/' || r == 0 {
			return '_'
		}
		return r
	}, cn)
	if s == "" || s == "." || s == ".." || len(s) > 255 {
		return "", false
	}
	return s, true
}

// Chain returns the certificates from a client's own to the one of ours that it
// ends in; without a CA, those that the client sent.
func (v *Verifier) Chain(id Identity) []*x509.Certificate {
	if len(id.Certificates) == 0 {
		return nil
	}
	if chain, err := v.chain(id.Certificates); err == nil {
		return chain
	}
	return id.Certificates
}

// Env returns the variables that scripts see of a client's certificates.
func (v *Verifier) Env(id Identity) map[string]string {
	env := map[string]string{}
	for depth, c := range v.Chain(id) {
		n := fmt.Sprint(depth)
		env["tls_id_"+n] = Subject(c)
		env["tls_serial_"+n] = c.SerialNumber.String()
		env["tls_serial_hex_"+n] = colons(c.SerialNumber.Bytes())
		s1, s256 := sha1.Sum(c.Raw), sha256.Sum256(c.Raw)
		env["tls_digest_"+n] = colons(s1[:])
		env["tls_digest_sha256_"+n] = colons(s256[:])
		seen := map[string]int{}
		for _, a := range c.Subject.Names {
			name := "X509_" + n + "_" + shortName(a)
			if seen[name]++; seen[name] > 1 {
				name += "_" + fmt.Sprint(seen[name]-1)
			}
			env[name] = printable(fmt.Sprint(a.Value))
		}
	}
	return env
}

func colons(b []byte) string {
	parts := make([]string, len(b))
	for i := range b {
		parts[i] = hex.EncodeToString(b[i : i+1])
	}
	return strings.Join(parts, ":")
}
