// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	"software.sslmate.com/src/go-pkcs12"
)

// ownCertificate reads our certificate, its key and what is sent with
// them.
func (v *Verifier) ownCertificate() (err error) {
	o := &v.opt
	if o.PKCS12 != nil {
		v.cert, err = v.fromPKCS12()
		return err
	}
	if o.Servers && len(o.Cert) == 0 && len(o.Key) == 0 {
		return nil
	}
	key, err := decryptKey(o.Key, o.Password)
	if err != nil {
		return fmt.Errorf("read key: %w", err)
	}
	v.cert, err = tls.X509KeyPair(slices.Concat(o.Cert, []byte("\n"), o.ExtraCerts), key)
	if err != nil {
		return fmt.Errorf("read cert and key: %w", named(err))
	}
	return nil
}

func (v *Verifier) fromPKCS12() (tls.Certificate, error) {
	key, cert, others, err := pkcs12.DecodeChain(v.opt.PKCS12, v.opt.Password)
	if errors.Is(err, pkcs12.ErrIncorrectPassword) {
		return tls.Certificate{}, errors.New("read pkcs12: wrong pass phrase; give it with askpass FILE")
	}
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("read pkcs12: %w", named(err))
	}
	c := tls.Certificate{PrivateKey: key, Certificate: [][]byte{cert.Raw}, Leaf: cert}
	for _, x := range others {
		if !selfIssued(x) {
			c.Certificate = append(c.Certificate, x.Raw)
		}
	}
	if len(v.opt.CA) == 0 {
		// As with stock, the bundle's CA certificates are trusted if there is no ca.
		for _, x := range others {
			v.opt.CA = append(v.opt.CA, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: x.Raw})...)
		}
	}
	return c, nil
}

// completeChain adds intermediate certificates out of ca to a certificate that
// comes alone, as OpenSSL does: clients may have the root only.
func (v *Verifier) completeChain() {
	if len(v.cert.Certificate) != 1 || v.cert.Leaf == nil {
		return
	}
	for last := v.cert.Leaf; len(v.cert.Certificate) < maxChain; {
		n := slices.IndexFunc(v.inter, func(c *x509.Certificate) bool {
			return bytes.Equal(c.RawSubject, last.RawIssuer) && last.CheckSignatureFrom(c) == nil
		})
		if n < 0 {
			return
		}
		last = v.inter[n]
		v.cert.Certificate = append(v.cert.Certificate, last.Raw)
	}
}

// named adds the cause where Go is stricter than OpenSSL.
func named(err error) error {
	if strings.Contains(err.Error(), "negative serial number") {
		return fmt.Errorf("%w: Go refuses it though OpenSSL takes it; issue the certificate anew", err)
	}
	return err
}
