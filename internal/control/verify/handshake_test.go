// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// shake makes a handshake between a verifier's server and a client, and returns what
// each side says of it.
func shake(t testing.TB, v *Verifier, client *tls.Config) (state tls.ConnectionState, server, atClient error) {
	t.Helper()
	cfg := v.TLSConfig()
	a, b := socketPair(t)
	defer a.Close()
	done := make(chan error, 1)
	go func() {
		defer b.Close()
		c := tls.Client(b, client)
		err := c.Handshake()
		if err == nil {
			_, err = c.Read(make([]byte, 1)) // with TLS 1.3 the server's refusal comes behind the handshake
		}
		done <- err
	}()
	s := tls.Server(a, cfg)
	if server = s.Handshake(); server == nil {
		_, server = s.Write([]byte{0})
	}
	state = s.ConnectionState()
	a.Close()
	return state, server, <-done
}

// socketPair returns both ends of a connection with buffers: over net.Pipe, two sides
// that send alerts would wait for each other.
func socketPair(t testing.TB) (a, b net.Conn) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]net.Conn
	for n, fd := range fds {
		f := os.NewFile(uintptr(fd), "socketpair")
		defer f.Close()
		if ends[n], err = net.FileConn(f); err != nil {
			t.Fatal(err)
		}
	}
	return ends[0], ends[1]
}

// configOf is a client's configuration that sends a certificate whatever the server
// asks for. nil: it has none.
func configOf(l *leaf) *tls.Config {
	cfg := &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS13}
	if l != nil {
		cert := l.tls()
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
	}
	return cfg
}

// refusal is what is said of a client; "" when it is let in.
func refusal(t testing.TB, v *Verifier, l *leaf) (reason, remedy string) {
	t.Helper()
	_, err, _ := shake(t, v, configOf(l))
	return Explain(err)
}

// want checks what is said of a client: each of the words; none: it is let in.
func want(t *testing.T, v *Verifier, l *leaf, words ...string) {
	t.Helper()
	reason, remedy := refusal(t, v, l)
	if len(words) == 0 && reason != "" {
		t.Fatalf("refused: %s (%s)", reason, remedy)
	}
	if len(words) > 0 && reason == "" {
		t.Fatalf("let in, want a refusal with %q", words)
	}
	for _, w := range words {
		if !strings.Contains(reason+" / "+remedy, w) {
			t.Errorf("reason is %q and remedy %q, want %q in it", reason, remedy, w)
		}
	}
}

func TestCertificates(t *testing.T) {
	root, other := authority(t, "Root", nil), authority(t, "Other", nil)
	twin := authority(t, "Root", nil) // same name, other key
	v := newVerifier(t, options(root))
	day := 24 * time.Hour
	eku := func(use ...x509.ExtKeyUsage) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.ExtKeyUsage = use }
	}
	for name, c := range map[string]struct {
		client leaf
		words  []string // of the refusal; none: let in
	}{
		"good":           {client: root.client("good", nil)},
		"no extensions":  {client: root.client("plain", func(c *x509.Certificate) { c.KeyUsage, c.ExtKeyUsage = 0, nil })},
		"key agreement":  {client: root.client("ka", func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageKeyAgreement })},
		"expired":        {root.client("old", func(c *x509.Certificate) { c.NotBefore, c.NotAfter = time.Now().Add(-2*day), time.Now().Add(-day) }), []string{`"CN=old"`, "expired", "new certificate"}},
		"not yet valid":  {root.client("early", func(c *x509.Certificate) { c.NotBefore, c.NotAfter = time.Now().Add(day), time.Now().Add(2*day) }), []string{`"CN=early"`, "not yet valid", "clock"}},
		"wrong CA":       {other.client("stranger", nil), []string{`"CN=stranger"`, "no CA of ours", "different PKIs"}},
		"twin CA":        {twin.client("twin", nil), []string{`"CN=twin"`, "no CA of ours"}},
		"a server's":     {root.client("srv", eku(x509.ExtKeyUsageServerAuth)), []string{`"CN=srv"`, "wrong purpose", "clientAuth"}},
		"any purpose":    {root.client("any", eku(x509.ExtKeyUsageAny)), []string{`"CN=any"`, "wrong purpose"}},
		"encipherment":   {root.client("enc", func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageKeyEncipherment }), []string{`"CN=enc"`, "wrong purpose"}},
		"Netscape":       {root.client("ns", func(c *x509.Certificate) { c.ExtKeyUsage, c.ExtraExtensions = nil, netscape(t, 0x40) }), []string{`"CN=ns"`, "wrong purpose"}},
		"Netscape good":  {client: root.client("ns", func(c *x509.Certificate) { c.ExtraExtensions = netscape(t, 0x80) })},
		"SHA-1":          {root.client("sha1", func(c *x509.Certificate) { c.SignatureAlgorithm = x509.ECDSAWithSHA1 }), []string{`"CN=sha1"`, "ECDSA-SHA1", "Go refuses", "SHA-256"}},
		"no common name": {root.client("", func(c *x509.Certificate) { c.Subject.Organization = []string{"Org"} }), []string{`"O=Org"`, "CN", "x509-username-field"}},
		"64 bytes":       {client: root.client(strings.Repeat("x", 64), nil)},
		"80 bytes":       {root.client(strings.Repeat("é", 40), nil), []string{"more than 64 bytes"}},
		"negative":       {negative(root.client("negative", nil)), []string{"negative serial number", "Go refuses", "positive"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want(t, v, &c.client, c.words...)
		})
	}
}

// netscape is a certificate's extension that says of which type it is.
func netscape(t testing.TB, bits byte) []pkix.Extension {
	t.Helper()
	b, err := asn1.Marshal(asn1.BitString{Bytes: []byte{bits}, BitLength: 8})
	if err != nil {
		t.Fatal(err)
	}
	return []pkix.Extension{{Id: oidNsCertType, Value: b}}
}

// negative changes the serial number, the first integer behind the version, into
// one below zero; the signature does not matter, since nothing gets to it.
func negative(l leaf) leaf {
	raw := append([]byte(nil), l.cert.Raw...)
	at := strings.Index(string(raw), "\xa0\x03\x02\x01\x02\x02\x01") + 7 // version 3, then an integer of one byte
	raw[at] |= 0x80
	l.cert = &x509.Certificate{Raw: raw}
	return l
}

func TestClientCertModes(t *testing.T) {
	root, other := authority(t, "Root", nil), authority(t, "Other", nil)
	good, bad := root.client("good", nil), other.client("bad", nil)
	o := options(root)
	for mode, c := range map[ClientCert]struct{ none, bad bool }{Required: {false, false}, Optional: {true, false}, None: {true, true}} {
		o.ClientCert = mode
		v := newVerifier(t, o)
		want(t, v, &good)
		if c.none {
			want(t, v, nil)
		} else {
			want(t, v, nil, "the client has no certificate", "verify-client-cert")
		}
		if c.bad { // nobody asks for it
			want(t, v, &bad)
		} else {
			want(t, v, &bad, "no CA of ours")
		}
	}
	o.ClientCert = Optional
	v := newVerifier(t, o)
	state, err, _ := shake(t, v, configOf(nil))
	if _, ok := v.IdentityOf(state); err != nil || ok {
		t.Errorf("a client without certificate has an identity, or the error %v", err)
	}
}

func TestChains(t *testing.T) {
	root := authority(t, "Root", nil)
	inter := root.below("Inter", nil)
	deep := inter.below("Deep", nil)
	client, below := inter.client("client", nil), deep.client("below", nil)
	sends := client
	sends.more = [][]byte{inter.cert.Raw}
	sendsAll := below
	sendsAll.more = [][]byte{deep.cert.Raw, inter.cert.Raw, root.cert.Raw}
	o := options(root)
	want(t, newVerifier(t, o), &client, "no CA of ours", "intermediate")
	want(t, newVerifier(t, o), &sends)
	want(t, newVerifier(t, o), &sendsAll)
	o.CA = pemOf(inter.cert, root.cert)
	v := newVerifier(t, o)
	want(t, v, &client)
	if chain := v.Chain(Identity{Certificates: []*x509.Certificate{client.cert}}); len(chain) != 3 {
		t.Errorf("the chain has %d certificates, want 3 up to the root", len(chain))
	}
	o.CA = pemOf(inter.cert)
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), "self-signed") {
		t.Errorf("a ca without self-signed certificate: %v", err)
	}

	// An authority that may not certify clients taints everything below.
	servers := root.below("Servers", func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} })
	tainted := servers.client("tainted", nil)
	tainted.more = [][]byte{servers.cert.Raw}
	o.CA = pemOf(root.cert)
	v = newVerifier(t, o)
	want(t, v, &tainted, `"CN=Servers", at depth 1`, "wrong purpose")

	weak := root.below("Weak", func(c *x509.Certificate) { c.SignatureAlgorithm = x509.ECDSAWithSHA1 })
	under := weak.client("under", nil)
	under.more = [][]byte{weak.cert.Raw}
	want(t, v, &under, `"CN=Weak", at depth 1`, "ECDSA-SHA1")

	old := root.below("Old", func(c *x509.Certificate) {
		c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(-time.Minute)
	})
	late := old.client("late", nil)
	late.more = [][]byte{old.cert.Raw}
	want(t, v, &late, `"CN=Old", at depth 1`, "expired")

	// A certificate for signing nothing signs another.
	fake := &issuer{t: t, cert: client.cert, key: client.key}
	faked := fake.client("faked", nil)
	faked.more = [][]byte{client.cert.Raw, inter.cert.Raw}
	if reason, _ := refusal(t, v, &faked); reason == "" {
		t.Error("a client's certificate can sign others")
	}

	for range maxChain {
		sendsAll.more = append(sendsAll.more, root.cert.Raw)
	}
	want(t, v, &sendsAll, "more than 10 certificates")
}

func TestFingerprints(t *testing.T) {
	root, other := authority(t, "Root", nil), authority(t, "Other", nil)
	alone := authority(t, "self", func(c *x509.Certificate) {
		c.NotBefore, c.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
		c.IsCA, c.KeyUsage, c.ExtKeyUsage = false, 0, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	})
	self := leaf{cert: alone.cert, key: alone.key}
	good, stranger := root.client("good", nil), other.client("stranger", nil)
	o := options(root)
	o.CA, o.Fingerprints = nil, [][32]byte{{1}, self.fingerprint(), stranger.fingerprint()}
	v := newVerifier(t, o)
	want(t, v, &self) // dates and purpose do not count, as with stock
	want(t, v, &stranger)
	want(t, v, &good, `"CN=good"`, "peer-fingerprint")
	want(t, v, nil, "no certificate")

	o.CA = pemOf(root.cert)
	v = newVerifier(t, o)
	want(t, v, &self, `"CN=self"`)
	want(t, v, &good, "peer-fingerprint")
	o.Fingerprints = append(o.Fingerprints, good.fingerprint())
	want(t, newVerifier(t, o), &good)

	o.CA, o.CRLData = nil, root.crl(nil)
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), "crl-verify needs ca") {
		t.Errorf("crl-verify without ca: %v", err)
	}
}
