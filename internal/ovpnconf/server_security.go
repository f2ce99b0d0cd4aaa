// SPDX-License-Identifier: Apache-2.0

package ovpnconf

import (
	"github.com/ovpn-xdp/ovpn-xdp/pkg/aead"
	"time"
)

// Source is a file, or its content given inline.
type Source struct {
	// Path is "" when the content is inline or nothing is given.
	Path string
	// Inline is the content; nil when it is in a file.
	Inline []byte
	Line   Line
}

// TLS holds our certificate and the parameters of the TLS session.
type TLS struct {
	// Cert and Key, or PKCS12, are given.
	Cert, Key, ExtraCerts, PKCS12 Source
	// AskPass is the file with the private key's pass phrase in its first line.
	AskPass Source
	// MinVersion and MaxVersion are numbers of crypto/tls; MaxVersion 0 is the
	// newest. MinVersion is TLS 1.2 at least, its default.
	MinVersion, MaxVersion uint16
	// Ciphers are names of TLS 1.2 suites as OpenSSL or IANA writes them
	// (tls-cipher); none: the default.
	Ciphers []string
	// Groups are names of key exchange groups (tls-groups, ecdh-curve); none: the
	// default.
	Groups []string
	// CertProfile is tls-cert-profile: legacy, preferred, suiteb, insecure, or "".
	CertProfile string
}

// ClientCert says whether a client needs a certificate.
type ClientCert uint8

// The values of verify-client-cert.
const (
	CertRequired ClientCert = iota
	CertOptional
	CertNone
)

// NameType says what verify-x509-name is compared with.
type NameType uint8

// The types of verify-x509-name.
const (
	NameSubject    NameType = iota // the whole subject
	NameWhole                      // `name`: the field of x509-username-field
	NameWithPrefix                 // `name-prefix`: its beginning
)

// PeerChecks are the checks of clients' certificates.
type PeerChecks struct {
	CA Source
	// CAPath is a folder of CA certificates; "": none.
	CAPath string
	// CRL is the revocation list; CRLDir: it is a folder with a file for each
	// revoked serial number instead.
	CRL        Source
	CRLDir     bool
	ClientCert ClientCert
	// RemoteCertTLS is "client", or "" without remote-cert-tls. It is expanded
	// into RemoteEKU; key usage is then required to be present.
	RemoteCertTLS string
	// RemoteKU are bit masks of key usage of which one has to be contained, as
	// remote-cert-ku writes them: the first byte of the extension is the low
	// one (digitalSignature 0x80).
	RemoteKU []uint16
	// RemoteKUAny: the extension has to be there, whatever it says.
	RemoteKUAny bool
	// RemoteEKU is an OID in dotted form or OpenSSL's name; "": none required.
	RemoteEKU string
	// Name and NameType are verify-x509-name; "": none.
	Name     string
	NameType NameType
	// Fingerprints are SHA-256 of accepted certificates; none: all that the CA
	// vouches for.
	Fingerprints [][32]byte
	// UsernameFields are x509-username-field, default CN; several are joined
	// with "_".
	UsernameFields []string
	// Track are x509-track attributes; Full: of the whole chain ("+NAME").
	Track []X509Track
	// Verify is the tls-verify command; nil: none.
	Verify Command
	// ExportCert is the folder for client certificates that scripts may read
	// (tls-export-cert); "": none.
	ExportCert string
}

// X509Track is one x509-track line.
type X509Track struct {
	Name string
	Full bool
}

// Command is a command line: program and arguments, never for a shell.
type Command []string

// KeyDirection is the direction argument of tls-auth.
type KeyDirection int8

// The directions of tls-auth.
const (
	Bidirectional KeyDirection = iota
	Normal                     // 0
	Inverse                    // 1
)

// WrapMode says how control packets are wrapped.
type WrapMode uint8

// The wrappings. A server with a tls-crypt-v2 key may have TLSAuth or TLSCrypt beside it for
// clients without one.
const (
	WrapNone WrapMode = iota
	WrapTLSAuth
	WrapTLSCrypt
)

// Wrapping is how control packets are wrapped.
type Wrapping struct {
	// Mode is the wrapping of clients that use one key for all; Key is its file.
	Mode      WrapMode
	Key       Source
	Direction KeyDirection
	// Digest is `auth`, the HMAC's digest of tls-auth, by OpenSSL's name; default
	// SHA1. With WrapTLSAuth, wrap.ParseDigest knows it.
	Digest string
	// V2 is the server key of tls-crypt-v2; not given: none.
	V2 Source
	// V2ForceCookie refuses clients of tls-crypt-v2 that cannot do the stateless
	// handshake (2.5).
	V2ForceCookie bool
	// V2Verify checks the metadata of a client's key; nil: none.
	V2Verify Command
	// V2MaxAge is tls-crypt-v2-max-age; 0: no limit.
	V2MaxAge time.Duration
}

// Data is the data channel.
type Data struct {
	// Ciphers are what may be negotiated, best first. Never empty.
	Ciphers []aead.Cipher
	// Fallback is for clients that negotiate nothing; 0: none.
	Fallback aead.Cipher
}
