// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"
)

// CertError says which certificate of a client was refused.
type CertError struct {
	Subject string
	Depth   int // 0: the client's own
	Err     error
}

func (e *CertError) Error() string {
	return fmt.Sprintf("certificate at depth %d (%s): %v", e.Depth, e.Subject, e.Err)
}

func (e *CertError) Unwrap() error { return e.Err }

var (
	errFingerprint = errors.New("fingerprint is not in peer-fingerprint")
	errName        = errors.New("name is not the one of verify-x509-name")
	errKeyUsage    = errors.New("key usage is not what remote-cert-ku or remote-cert-tls requires")
	errEKU         = errors.New("extended key usage is not what remote-cert-eku or remote-cert-tls requires")
	errRevoked     = errors.New("certificate is revoked")
	// ErrCRL is wrapped by every error about a revocation list that cannot be relied
	// on; nobody is let in while there is one.
	ErrCRL = errors.New("revocation list cannot be used")
)

// Explain says in plain words why a handshake failed, and what to do about it;
// the remedy may be empty. A nil error gives two empty strings.
func Explain(err error) (reason, remedy string) {
	if err == nil {
		return "", ""
	}
	who := ""
	if c, ok := errors.AsType[*CertError](err); ok {
		who = fmt.Sprintf("certificate %q: ", c.Subject)
		if c.Depth > 0 {
			who = fmt.Sprintf("certificate %q, at depth %d: ", c.Subject, c.Depth)
		}
	}
	if r, m := explainCert(err); r != "" {
		return who + r, m
	}
	if r, m := explainTLS(err); r != "" {
		return who + r, m
	}
	return who + err.Error(), ""
}

func explainCert(err error) (reason, remedy string) {
	if inv, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		switch inv.Reason {
		case x509.Expired:
			if inv.Cert != nil && strings.Contains(inv.Error(), "before") {
				return "not yet valid", "check the clocks of both ends"
			}
			return "expired", "give the client a new certificate, and check the clock"
		case x509.NotAuthorizedToSign:
			return "its issuer is no CA", "the ca file has to hold the certificate of the CA"
		case x509.TooManyIntermediates:
			return "its chain is longer than its CA allows", ""
		case x509.IncompatibleUsage:
			return "wrong purpose", "make it as a client's certificate (extended key usage clientAuth)"
		}
		return inv.Error(), ""
	}
	if alg, ok := errors.AsType[x509.InsecureAlgorithmError](err); ok {
		return fmt.Sprintf("it is signed with %s, which Go refuses though OpenSSL may take it", x509.SignatureAlgorithm(alg)), "sign it anew with SHA-256"
	}
	if ca, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		if strings.Contains(ca.Error(), "SHA1") || strings.Contains(ca.Error(), "insecure algorithm") {
			return "it, or the CA between, is signed with SHA-1 or MD5, which Go refuses though OpenSSL may take it", "sign it anew with SHA-256"
		}
		return "no CA of ours has signed it", "the client's certificate and the server's ca belong to different PKIs"
	}
	switch {
	case errors.Is(err, errRevoked):
		return "revoked", ""
	case errors.Is(err, ErrCRL), errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return err.Error(), "give crl-verify a current and readable list; nobody is let in without"
	case errors.Is(err, errEKU), errors.Is(err, errKeyUsage):
		return "wrong purpose: " + err.Error(), "make it as a client's certificate (extended key usage clientAuth)"
	case strings.Contains(err.Error(), "negative serial number"):
		return "it has a negative serial number, which Go refuses though OpenSSL takes it", "issue it anew with a positive serial number"
	}
	return "", ""
}

func explainTLS(err error) (reason, remedy string) {
	text := err.Error()
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "what the client sent is not TLS", ""
	}
	switch {
	case strings.Contains(text, "no cipher suite supported by both"):
		return "no cipher suite in common: the client offers none with ECDHE and AES-GCM, AES-CBC or ChaCha20", "remove tls-cipher from the client's configuration; suites with DHE alone are not to be had here"
	case strings.Contains(text, "supported by both client and server"), strings.Contains(text, "unsupported versions"), strings.Contains(text, "protocol version"):
		return "no TLS version in common", "TLS 1.2 is the least; look at tls-version-min and tls-version-max of both ends"
	case strings.Contains(text, "didn't provide a certificate"):
		return "the client has no certificate", "give it one, or set verify-client-cert none or optional"
	case strings.Contains(text, "unknown certificate authority"), strings.Contains(text, "unknown certificate"):
		return "the client does not trust our certificate", "the client's ca has to hold the CA of the server's certificate"
	case strings.Contains(text, "remote error: tls: "):
		return "the client refused: " + text[strings.Index(text, "remote error: tls: ")+len("remote error: tls: "):], "its log says why"
	case strings.Contains(text, "timed out"):
		return "the handshake was not finished in time", "packets are lost on the way, or the client has gone"
	case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed):
		return "the client closed the connection", ""
	}
	return "", ""
}
