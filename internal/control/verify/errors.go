// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"errors"
	"fmt"
)

// CertError says which certificate of a client was refused.
type CertError struct {
	Subject string // "" if it cannot be read
	Depth   int    // 0: the client's own
	Err     error
	// Leaf is SHA-256 of the client's own certificate, whatever Depth is.
	Leaf [32]byte
}

func (e *CertError) Error() string {
	return fmt.Sprintf("certificate at depth %d (%s): %v", e.Depth, e.Subject, e.Err)
}

func (e *CertError) Unwrap() error { return e.Err }

var (
	errFingerprint = errors.New("fingerprint is not in peer-fingerprint")
	errName        = errors.New("name is not the one of verify-x509-name")
	errNoName      = errors.New("a field that names the client is missing")
	errLongName    = fmt.Errorf("name has more than %d bytes", maxName)
	errLongChain   = fmt.Errorf("chain has more than %d certificates", maxChain)
	errPurpose     = errors.New("certificate is not for clients")
	errKeyUsage    = errors.New("key usage is not what remote-cert-ku or remote-cert-tls requires")
	errEKU         = errors.New("extended key usage is not what remote-cert-eku or remote-cert-tls requires")
	errProfile     = errors.New("certificate is too weak for tls-cert-profile")
	errRevoked     = errors.New("certificate is revoked")
	// ErrCRL is wrapped by every error about a revocation list that cannot be relied
	// on; nobody whom it could name is let in then.
	ErrCRL = errors.New("revocation list cannot be used")
)
