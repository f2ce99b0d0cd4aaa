// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestCRL(t *testing.T) {
	root, other := authority(t, "Root", nil), authority(t, "Other", nil)
	twin := authority(t, "Root", nil)
	inter := root.below("Inter", nil)
	good, bad, low, foreign := root.client("good", nil), root.client("bad", nil), inter.client("low", nil), other.client("foreign", nil)
	o := options(root)
	o.CA = pemOf(inter.cert, root.cert, other.cert)
	expired := func(l *x509.RevocationList) {
		l.ThisUpdate, l.NextUpdate = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
	}
	early := func(l *x509.RevocationList) {
		l.ThisUpdate, l.NextUpdate = time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)
	}
	newer := func(l *x509.RevocationList) { l.ThisUpdate = time.Now().Add(-time.Second) }
	delta := func(l *x509.RevocationList) {
		l.ExtraExtensions = []pkix.Extension{{Id: []int{2, 5, 29, 27}, Critical: true, Value: []byte{2, 1, 1}}}
	}
	lists := func(l ...[]byte) []byte { return slices.Concat(l...) }
	for name, c := range map[string]struct {
		lists  []byte
		client leaf
		words  []string
	}{
		"none":                {root.crl(nil), good, nil},
		"revoked":             {root.crl(nil, bad.cert), bad, []string{`"CN=bad"`, "revoked"}},
		"another":             {root.crl(nil, bad.cert), good, nil},
		"expired":             {root.crl(expired), good, []string{"has expired", "current"}},
		"early":               {root.crl(early), good, []string{"valid from", "current"}},
		"old and new":         {lists(root.crl(expired), root.crl(nil, bad.cert)), bad, []string{"revoked"}},
		"old and new, good":   {lists(root.crl(expired, good.cert), root.crl(nil)), good, nil},
		"the newest":          {lists(root.crl(newer), root.crl(nil, bad.cert)), bad, nil},
		"delta":               {root.crl(delta), good, []string{"2.5.29.27"}},
		"intermediate":        {root.crl(nil, inter.cert), low, []string{`"CN=Inter", at depth 1`, "revoked"}},
		"below":               {lists(root.crl(nil), inter.crl(nil, low.cert)), low, []string{`"CN=low"`, "revoked"}},
		"expired below":       {lists(root.crl(nil), inter.crl(expired)), low, []string{"has expired"}},
		"no list of one's CA": {other.crl(nil), good, nil}, // as stock does; it has one for the clients of the other
		"the other's":         {other.crl(nil, foreign.cert), foreign, []string{"revoked"}},
		"of another key":      {twin.crl(nil), good, []string{"no list in it is of the CA's"}},
		"root revokes itself": {root.crl(nil, root.cert), good, []string{`"CN=Root", at depth 1`, "revoked"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := o
			o.CRLData = c.lists
			want(t, newVerifier(t, o), &c.client, c.words...)
		})
	}
	o.CRLData = root.crl(nil)
	want(t, newVerifier(t, o), nil, "no certificate")
}

// A list with a signature that is not its issuer's lets nobody in.
func TestForgedCRL(t *testing.T) {
	root := authority(t, "Root", nil)
	good := root.client("good", nil)
	block, _ := pem.Decode(root.crl(nil))
	block.Bytes[len(block.Bytes)-1] ^= 1
	o := options(root)
	o.CRLData = pem.EncodeToMemory(block)
	want(t, newVerifier(t, o), &good, "revocation list cannot be used", "signature")
}

func TestCRLOfNobody(t *testing.T) {
	root, other := authority(t, "Root", nil), authority(t, "Other", nil)
	good := root.client("good", nil)
	o := options(root)
	o.CRLData = other.crl(nil)
	want(t, newVerifier(t, o), &good, "no list in it is of the CA's")
}

func TestCRLFile(t *testing.T) {
	root := authority(t, "Root", nil)
	one, two := root.client("one", nil), root.client("two", nil)
	o := options(root)
	o.CRL = file(t, "crl.pem", root.crl(nil, one.cert))
	v := newVerifier(t, o)
	want(t, v, &one, "revoked")
	want(t, v, &two)

	// In place, at once, and with as many bytes: each handshake sees what the file has.
	replace := func(b []byte) {
		t.Helper()
		if err := os.WriteFile(o.CRL, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 {
		replace(root.crl(nil, two.cert))
		want(t, v, &two, "revoked")
		want(t, v, &one)
		replace(root.crl(nil, one.cert))
		want(t, v, &one, "revoked")
	}
	for name, b := range map[string][]byte{"empty": nil, "no list": pemOf(root.cert), "garbage": []byte("-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n"), "half": root.crl(nil)[:100]} {
		replace(b)
		t.Log(name)
		want(t, v, &two, `certificate "CN=two": revocation list cannot be used`, "crl-verify")
	}
	if err := os.Remove(o.CRL); err != nil {
		t.Fatal(err)
	}
	want(t, v, &two, "revocation list cannot be used", "no such file", "crl-verify")
	if _, err := New(o); !errors.Is(err, ErrCRL) {
		t.Errorf("New without file: %v", err)
	}
	if err := syscall.Mkfifo(o.CRL, 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, v, &two, "revocation list cannot be used", "crl-verify")
	os.Remove(o.CRL)
	replace(root.crl(nil))
	want(t, v, &one)
	o.ClientCert, o.CRL = None, "/nonexistent"
	newVerifier(t, o)
}

// A file that has not changed for long is parsed once; the same file under a new name
// is another.
func TestCRLCache(t *testing.T) {
	root := authority(t, "Root", nil)
	one := root.client("one", nil)
	path := file(t, "crl.pem", root.crl(nil, one.cert))
	f := &crlFile{path: path}
	first, err := f.load()
	if err != nil {
		t.Fatal(err)
	}
	if second, err := f.load(); err != nil || second == first {
		t.Errorf("a file written just now is taken from memory (%v)", err)
	}
	// As if it had been written long ago; its change time cannot be set.
	f.last = first
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if f.stamp, err = stampOf(file); err != nil {
		t.Fatal(err)
	}
	if f.stamp.settled(time.Now()) || !f.stamp.settled(time.Now().Add(settled+time.Second)) {
		t.Error("a file settles at the wrong time")
	}
	if again, err := f.load(); err != nil || again != first {
		t.Errorf("a settled file is parsed again (%v)", err)
	}
	if err := os.Rename(file.Name(), file.Name()+".old"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, root.crl(nil, one.cert), 0o600); err != nil {
		t.Fatal(err)
	}
	if other, err := f.load(); err != nil || other == first {
		t.Errorf("another file is taken for the old one (%v)", err)
	}
}

func TestCRLFolder(t *testing.T) {
	root := authority(t, "Root", nil)
	big1, _ := new(big.Int).SetString("558248055635366319374184880652471076887707601833", 10)
	bad := root.client("bad", func(c *x509.Certificate) { c.SerialNumber = big1 })
	good := root.client("good", nil)
	o := options(root)
	o.CRLDir, o.CRL = true, filepath.Join(t.TempDir(), "revoked")
	if _, err := New(o); !errors.Is(err, ErrCRL) {
		t.Errorf("New without folder: %v", err)
	}
	if err := os.Mkdir(o.CRL, 0o700); err != nil {
		t.Fatal(err)
	}
	v := newVerifier(t, o)
	want(t, v, &bad)
	if err := os.WriteFile(filepath.Join(o.CRL, "558248055635366319374184880652471076887707601833"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, v, &bad, `"CN=bad"`, "revoked")
	want(t, v, &good)
	if err := os.RemoveAll(o.CRL); err != nil {
		t.Fatal(err)
	}
	want(t, v, &good, "revocation list cannot be used")
	if err := os.WriteFile(o.CRL, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, v, &good, "is no folder")
	o.Fingerprints, o.CA = [][32]byte{good.fingerprint()}, nil
	os.Remove(o.CRL)
	if err := os.Mkdir(o.CRL, 0o700); err != nil {
		t.Fatal(err)
	}
	want(t, newVerifier(t, o), &good) // a folder needs no ca
}

func FuzzParseCRL(f *testing.F) {
	root := authority(f, "Root", nil)
	f.Add(root.crl(nil))
	f.Add(root.crl(nil, root.cert, root.client("x", nil).cert))
	f.Add([]byte("-----BEGIN X509 CRL-----\nMAA=\n-----END X509 CRL-----\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := parseCRL(b)
		if (err == nil) != (r != nil && len(r.lists) > 0) {
			t.Fatalf("%v with %v", err, r)
		}
		if err != nil && !errors.Is(err, ErrCRL) {
			t.Fatalf("%v is not ErrCRL", err)
		}
		chain := []*x509.Certificate{root.cert}
		if err := r.check(root.cert, 0, chain, time.Now()); err != nil && !errors.Is(err, ErrCRL) && !errors.Is(err, errRevoked) {
			t.Fatal(err)
		}
		if err == nil && strings.TrimSpace(string(b)) == "" {
			t.Fatal("an empty file is a list")
		}
	})
}

// TestBrokenCRLAndOptionalCertificates: a client cannot get around a list by leaving its
// certificate out.
func TestBrokenCRLAndOptionalCertificates(t *testing.T) {
	root := authority(t, "Root", nil)
	o := options(root)
	o.ClientCert = Optional
	o.CRL = file(t, "crl.pem", root.crl(nil))
	v := newVerifier(t, o)
	want(t, v, nil)
	if err := os.WriteFile(o.CRL, []byte("no list"), 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, v, nil, "revocation list cannot be used", "crl-verify")
}
