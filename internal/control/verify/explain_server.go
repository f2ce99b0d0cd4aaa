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

// ExplainServer is Explain for a client: what its server has done, or has not.
func ExplainServer(err error) (reason, remedy string) {
	if err == nil {
		return "", ""
	}
	if c, ok := errors.AsType[*CertError](err); ok {
		who := fmt.Sprintf("the server's certificate %q: ", c.Subject)
		if c.Depth > 0 {
			who = fmt.Sprintf("certificate %q, at depth %d of the server's: ", c.Subject, c.Depth)
		}
		r, m := explainServerCert(c.Err)
		return who + r, m
	}
	if r, m := explainServerTLS(err); r != "" {
		return r, m
	}
	return Name(err.Error()), ""
}

// explainServerCert is explainCert with what a client can do about it.
func explainServerCert(err error) (reason, remedy string) {
	reason, remedy = explainCert(err)
	switch {
	case reason == "":
		reason = Name(err.Error())
	case errors.Is(err, ErrCRL):
		remedy = "give crl-verify a current and readable list of the CA's"
	case errors.Is(err, errPurpose):
		reason, remedy = "wrong purpose: it is not for servers", "it may be another client's, and somebody in between; else issue it as a server's: extended key usage serverAuth"
	case errors.Is(err, errEKU), errors.Is(err, errKeyUsage):
		remedy = "it may be another client's, and somebody in between; else issue it as a server's: extended key usage serverAuth, key usage digitalSignature"
	case errors.Is(err, errFingerprint):
		remedy = "add it to peer-fingerprint if it is the right server"
	case errors.Is(err, errName):
		remedy = "it is another server, or verify-x509-name has to be changed"
	}
	if inv, ok := errors.AsType[x509.CertificateInvalidError](err); ok && inv.Reason == x509.Expired && reason == "expired" {
		remedy = "the server needs a new certificate; check the clock here"
	}
	if reason == "no CA of ours has signed it" {
		remedy = "ca has to hold the certificate of the server's CA, or the server leaves an intermediate certificate out"
	}
	return reason, remedy
}

// explainServerTLS is about what crypto/tls says in a client.
func explainServerTLS(err error) (reason, remedy string) {
	text := err.Error()
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "what the server sent is not TLS", ""
	}
	has := func(s string) bool { return strings.Contains(text, s) }
	switch {
	case has("server selected unsupported protocol version"), has("remote error: tls: protocol version"):
		return "no TLS version in common", "TLS 1.2 is the least; look at tls-version-min and tls-version-max of both ends"
	case has("remote error: tls: handshake failure"):
		return "the server found nothing in common: TLS version, cipher suite or group", "remove tls-cipher and tls-groups here; a server that has only suites with DHE cannot be talked to"
	case has("remote error: tls: expired certificate"):
		return "the server says that our certificate is expired", "get a new one, and check the server's clock"
	case has("remote error: tls: revoked certificate"):
		return "the server says that our certificate is revoked", "get a new one"
	case has("remote error: tls: unknown certificate authority"), has("remote error: tls: unknown certificate"), has("remote error: tls: bad certificate"), has("remote error: tls: unsupported certificate"):
		return "the server does not accept our certificate", "it belongs to another PKI than the server's ca, or is not for clients; the server's log says more"
	case has("remote error: tls: certificate required"):
		return "the server wants a certificate, and there is none", "add cert and key"
	}
	if _, after, ok := strings.Cut(text, "remote error: tls: "); ok {
		return "the server refused: " + Name(after), "its log says why"
	}
	switch {
	case has("timed out"):
		return "the handshake was not finished in time", "is the server running, is its port open, and are tls-auth, tls-crypt or tls-crypt-v2 the server's? With a wrong key it answers nothing"
	case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed):
		return "the server closed the connection", ""
	}
	return "", ""
}
