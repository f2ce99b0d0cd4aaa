// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
)

// Explain says in plain words why a handshake failed, and what to do about it;
// the remedy may be empty. Both are harmless in a log. A nil error gives two
// empty strings.
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
		if r, m := explainCert(c.Err); r != "" {
			return who + r, m
		}
		return who + Name(c.Err.Error()), ""
	}
	for _, explain := range []func(error) (string, string){explainCert, explainParse, explainTLS} {
		if r, m := explain(err); r != "" {
			return r, m
		}
	}
	return Name(err.Error()), ""
}

// forClientsRemedy is what to do about a certificate of the wrong purpose.
const forClientsRemedy = "issue it as a client's: extended key usage clientAuth, key usage digitalSignature"

// explainCert is about what this package's own checks, and x509's of chains, say.
func explainCert(err error) (reason, remedy string) {
	switch {
	case errors.Is(err, ErrCRL):
		return err.Error(), "give crl-verify a current and readable list of the CA's; nobody whom it could name is let in without"
	case errors.Is(err, errRevoked):
		return "revoked", ""
	case errors.Is(err, errPurpose):
		return "wrong purpose: it is not for clients", forClientsRemedy
	case errors.Is(err, errEKU), errors.Is(err, errKeyUsage):
		return "wrong purpose: " + err.Error(), forClientsRemedy
	case errors.Is(err, errFingerprint):
		return err.Error(), "add it to peer-fingerprint if the client is to be let in"
	case errors.Is(err, errNoName):
		return err.Error(), "issue it with that field, or see x509-username-field"
	case errors.Is(err, errProfile):
		return err.Error(), "issue it with a stronger key, or lower tls-cert-profile"
	}
	if inv, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		return explainInvalid(inv)
	}
	if alg, ok := errors.AsType[x509.InsecureAlgorithmError](err); ok {
		return fmt.Sprintf("it is signed with %s, which Go refuses though OpenSSL may take it", x509.SignatureAlgorithm(alg)), "sign it anew with SHA-256"
	}
	if ca, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		if text := ca.Error(); strings.Contains(text, "insecure algorithm") {
			return fmt.Sprintf("it is signed with %s, which Go refuses though OpenSSL may take it", algorithm(ca.Cert)), "sign it anew with SHA-256"
		}
		return "no CA of ours has signed it", "the client's certificate and the server's ca belong to different PKIs, or an intermediate certificate is missing"
	}
	return "", ""
}

func algorithm(c *x509.Certificate) string {
	if c == nil {
		return "SHA-1 or MD5"
	}
	return c.SignatureAlgorithm.String()
}

func explainInvalid(inv x509.CertificateInvalidError) (reason, remedy string) {
	switch inv.Reason {
	case x509.Expired:
		if strings.Contains(inv.Detail, " is before ") {
			return "not yet valid", "check the clocks of both ends"
		}
		return "expired", "give the client a new certificate, and check the clock"
	case x509.NotAuthorizedToSign:
		return "it is no CA and has signed the next one", "the ca file has to hold the certificate of the CA"
	case x509.TooManyIntermediates:
		return "its chain is longer than its CA allows", ""
	}
	return Name(inv.Error()), ""
}

// explainParse is about certificates that crypto/tls cannot read: it does not say
// whose, as nobody has read its name either.
func explainParse(err error) (reason, remedy string) {
	text := err.Error()
	if !strings.Contains(text, "failed to parse client certificate") {
		return "", ""
	}
	switch {
	case strings.Contains(text, "negative serial number"):
		return "the client's certificate has a negative serial number, which Go refuses though OpenSSL takes it", "issue it anew with a positive serial number"
	case strings.Contains(text, "unsupported elliptic curve"):
		return "the client's certificate has a key on a curve that Go does not know", "use P-256, P-384, P-521 or Ed25519"
	}
	return "the client's certificate cannot be read: " + Name(text[strings.LastIndex(text, "certificate: ")+len("certificate: "):]), "issue it anew"
}

// explainTLS is about what crypto/tls says, which has no types for most of it.
func explainTLS(err error) (reason, remedy string) {
	text := err.Error()
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "what the client sent is not TLS", ""
	}
	has := func(s string) bool { return strings.Contains(text, s) }
	switch {
	case has("no cipher suite supported by both"):
		return "no cipher suite in common: the client offers none with ECDHE and AES-GCM, AES-CBC or ChaCha20", "remove tls-cipher from the client's configuration; suites with DHE alone are not to be had here"
	case has("no key exchanges supported by both"), has("no ECDHE curve supported by both"):
		return "no group for the key exchange in common", "remove tls-groups or ecdh-curve from the client's configuration or the server's"
	case has("unsupported versions"), has("protocol version"):
		return "no TLS version in common", "TLS 1.2 is the least; look at tls-version-min and tls-version-max of both ends"
	case has("didn't provide a certificate"):
		return "the client has no certificate", "give it one, or set verify-client-cert none or optional"
	case has("unsupported public key of type"):
		return "the client's certificate has a key of a kind that Go does not know", "use RSA, ECDSA or Ed25519"
	case has("support any of the certificate's signature algorithms"):
		return "the client does not understand the signatures of our certificate's key", "use an RSA key or one on P-256"
	case has("remote error: tls: unknown certificate"), has("remote error: tls: bad certificate"):
		return "the client does not trust our certificate", "the client's ca has to hold the CA of the server's certificate; its log says more"
	case has("remote error: tls: expired certificate"):
		return "the client says that our certificate is expired", "look at the server's certificate and at the client's clock"
	}
	if _, after, ok := strings.Cut(text, "remote error: tls: "); ok {
		return "the client refused: " + Name(after), "its log says why"
	}
	switch {
	case has("timed out"):
		return "the handshake was not finished in time", "packets are lost on the way, or the client has gone"
	case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed):
		return "the client closed the connection", ""
	}
	return "", ""
}
