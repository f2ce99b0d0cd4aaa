// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"fmt"
)

// strong is tls-cert-profile: `preferred` asks for 112 bits of security, which are
// RSA keys of 2048 bits (OpenSSL's level 2), `suiteb` for ECDSA with P-256 or
// P-384 (RFC 6460). Hashes below SHA-256 crypto/x509 refuses by itself, where a
// signature counts at all: not at the top of a chain.
func (v *Verifier) strong(c *x509.Certificate, top bool) error {
	switch v.opt.CertProfile {
	case "preferred":
		if bits := keyBits(c); bits < 112 {
			return fmt.Errorf("%w preferred: its key is too short", errProfile)
		}
	case "suiteb":
		key, ok := c.PublicKey.(*ecdsa.PublicKey)
		if !ok || key.Curve.Params().BitSize != 256 && key.Curve.Params().BitSize != 384 {
			return fmt.Errorf("%w suiteb: its key is not on P-256 or P-384", errProfile)
		}
		if !top && c.SignatureAlgorithm != x509.ECDSAWithSHA256 && c.SignatureAlgorithm != x509.ECDSAWithSHA384 {
			return fmt.Errorf("%w suiteb: it is signed with %s", errProfile, c.SignatureAlgorithm)
		}
	}
	return nil
}

// keyBits is the strength of a key by SP 800-57, part 1, table 2.
func keyBits(c *x509.Certificate) int {
	switch k := c.PublicKey.(type) {
	case *rsa.PublicKey:
		switch n := k.N.BitLen(); {
		case n >= 3072:
			return 128
		case n >= 2048:
			return 112
		}
		return 80
	case *ecdsa.PublicKey:
		return k.Curve.Params().BitSize / 2
	case ed25519.PublicKey:
		return 128
	}
	return 0
}
