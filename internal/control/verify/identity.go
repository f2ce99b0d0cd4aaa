// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"crypto/sha1"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// maxName is the longest common name in bytes; stock refuses longer ones too.
const maxName = 64

// Identity is who a client's certificate says it is.
type Identity struct {
	// CommonName is made harmless, see Name. It has 1 to 64 bytes.
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
	leaf := cs.PeerCertificates[0]
	name, err := v.commonName(leaf)
	if err != nil {
		return Identity{}, false // not verified here
	}
	h := sha256.New()
	for _, c := range cs.PeerCertificates {
		h.Write(c.Raw)
	}
	id = Identity{CommonName: name, Subject: Subject(leaf), Certificates: cs.PeerCertificates}
	h.Sum(id.Chain[:0])
	return id, true
}

// commonName is the certificate's name by x509-username-field. All of the fields have
// to be there.
func (v *Verifier) commonName(c *x509.Certificate) (string, error) {
	var parts []string
	for _, f := range v.opt.UsernameFields {
		s := field(c, f)
		if s == "" {
			return "", fmt.Errorf("%w: %s", errNoName, f)
		}
		parts = append(parts, s)
	}
	s := strings.Join(parts, "_")
	if len(s) > maxName {
		return "", errLongName
	}
	return Name(s), nil
}

// Leaf is SHA-256 of the client's own certificate; zero: it has none.
func (id Identity) Leaf() (sum [32]byte) {
	if len(id.Certificates) > 0 {
		sum = sha256.Sum256(id.Certificates[0].Raw)
	}
	return sum
}

// Chain returns the certificates from a client's own to the one of ours that it
// ends in; without a CA, those that the client sent.
func (v *Verifier) Chain(id Identity) []*x509.Certificate {
	if len(id.Certificates) == 0 || !v.hasCA() {
		return id.Certificates
	}
	if chain, err := v.chain(id.Certificates); err == nil {
		return chain
	}
	return id.Certificates
}

// Env returns the variables that scripts see of a client's certificates. Values
// are harmless to a terminal, not to a shell.
func (v *Verifier) Env(id Identity) map[string]string {
	env := map[string]string{}
	for depth, c := range v.Chain(id) {
		n := strconv.Itoa(depth)
		env["tls_id_"+n] = Subject(c)
		env["tls_serial_"+n] = c.SerialNumber.String()
		env["tls_serial_hex_"+n] = colons(c.SerialNumber.FillBytes(make([]byte, max(1, (c.SerialNumber.BitLen()+7)/8))))
		s1, s256 := sha1.Sum(c.Raw), sha256.Sum256(c.Raw)
		env["tls_digest_"+n] = colons(s1[:])
		env["tls_digest_sha256_"+n] = colons(s256[:])
		seen := map[string]int{}
		for _, a := range c.Subject.Names {
			name := "X509_" + n + "_" + shortName(a)
			if seen[name]++; seen[name] > 1 {
				name += "_" + strconv.Itoa(seen[name]-1)
			}
			env[name] = Name(fmt.Sprint(a.Value))
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
