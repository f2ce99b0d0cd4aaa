// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
)

// check decides about the certificates that the other end sent, its own first. broken says
// why it is not known what is revoked.
func (v *Verifier) check(raw [][]byte, revoked *revocations, broken error) error {
	if len(raw) > maxChain {
		return &CertError{Err: errLongChain}
	}
	sent := make([]*x509.Certificate, 0, len(raw))
	for n, b := range raw {
		c, err := x509.ParseCertificate(b)
		if err != nil {
			return &CertError{Depth: n, Err: err}
		}
		sent = append(sent, c)
	}
	leaf := sent[0]
	if broken != nil {
		return &CertError{Subject: Subject(leaf), Err: broken}
	}
	if len(v.opt.Fingerprints) > 0 && !slices.Contains(v.opt.Fingerprints, sha256.Sum256(leaf.Raw)) {
		return &CertError{Subject: Subject(leaf), Err: errFingerprint}
	}
	chain := sent[:1]
	if v.hasCA() {
		var err error
		if chain, err = v.chain(sent); err != nil {
			return err
		}
	}
	for n, c := range chain {
		if err := v.checkOne(c, n, chain, revoked); err != nil {
			return &CertError{Subject: Subject(c), Depth: n, Err: err}
		}
	}
	if err := revoked.useful(chain, v.all); err != nil {
		return &CertError{Subject: Subject(leaf), Err: err}
	}
	return nil
}

// checkOne decides about the certificate at place n of a chain.
func (v *Verifier) checkOne(c *x509.Certificate, n int, chain []*x509.Certificate, revoked *revocations) error {
	if v.hasCA() {
		if err := v.purpose().of(c, n > 0); err != nil {
			return err
		}
		if err := v.strong(c, n == len(chain)-1); err != nil {
			return err
		}
	}
	if err := revoked.check(c, n, chain, v.now()); err != nil {
		return err
	}
	if n > 0 {
		return nil
	}
	if err := v.remoteUsage(c); err != nil {
		return err
	}
	name, err := v.commonName(c)
	if err != nil {
		return err
	}
	return v.name(c, name)
}

// name is verify-x509-name.
func (v *Verifier) name(leaf *x509.Certificate, common string) error {
	if v.opt.Name == "" {
		return nil
	}
	got, ok := common, false
	switch v.opt.NameType {
	case NameSubject:
		got = Subject(leaf)
		ok = got == v.opt.Name
	case NameWhole:
		ok = got == v.opt.Name
	case NameWithPrefix:
		ok = strings.HasPrefix(got, v.opt.Name)
	}
	if !ok {
		return fmt.Errorf("%w: it is %q", errName, got)
	}
	return nil
}
