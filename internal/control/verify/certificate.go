// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"software.sslmate.com/src/go-pkcs12"
)

// certificate reads our own certificate with its key and what is sent with it.
func certificate(o *Options) (tls.Certificate, error) {
	if o.PKCS12 != nil {
		return fromPKCS12(o)
	}
	if err := encrypted(o.Key); err != nil {
		return tls.Certificate{}, err
	}
	c, err := tls.X509KeyPair(append(append(o.Cert[:len(o.Cert):len(o.Cert)], '\n'), o.ExtraCerts...), o.Key)
	if err != nil {
		return c, fmt.Errorf("read cert and key: %w", named(err))
	}
	return c, nil
}

func fromPKCS12(o *Options) (tls.Certificate, error) {
	key, cert, others, err := pkcs12.DecodeChain(o.PKCS12, o.Password)
	if errors.Is(err, pkcs12.ErrIncorrectPassword) {
		return tls.Certificate{}, errors.New("read pkcs12: wrong pass phrase; give it with askpass FILE")
	}
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("read pkcs12: %w", named(err))
	}
	c := tls.Certificate{PrivateKey: key, Certificate: [][]byte{cert.Raw}, Leaf: cert}
	for _, x := range others {
		c.Certificate = append(c.Certificate, x.Raw)
	}
	if len(o.CA) == 0 {
		// As stock does, the bundle's CA certificates serve as ca as well.
		for _, x := range others {
			o.CA = append(o.CA, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: x.Raw})...)
		}
	}
	return c, nil
}

// encrypted refuses a private key with a pass phrase in words that help.
func encrypted(key []byte) error {
	for {
		b, rest := pem.Decode(key)
		if b == nil {
			return nil
		}
		if b.Type == "ENCRYPTED PRIVATE KEY" || strings.Contains(b.Headers["Proc-Type"], "ENCRYPTED") {
			return errors.New("read key: it has a pass phrase; write it without one (openssl pkey -in KEY -out NEW) into a file that root alone may read, or use pkcs12 with askpass")
		}
		key = rest
	}
}

// named adds the cause where Go is stricter than OpenSSL.
func named(err error) error {
	if strings.Contains(err.Error(), "negative serial number") {
		return fmt.Errorf("%w: Go refuses it though OpenSSL takes it; issue the certificate anew", err)
	}
	return err
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
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return certs, named(err)
		}
		certs = append(certs, c)
	}
}
