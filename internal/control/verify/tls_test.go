// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestTLSParameters(t *testing.T) {
	root := authority(t, "Root", nil)
	client := root.client("client", nil)
	for name, c := range map[string]struct {
		server func(*Options)
		client func(*tls.Config)
		words  []string
	}{
		"1.2":           {func(*Options) {}, func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }, nil},
		"1.1":           {func(*Options) {}, func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }, []string{"no TLS version in common", "TLS 1.2 is the least"}},
		"min 1.3":       {func(o *Options) { o.MinVersion = tls.VersionTLS13 }, func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }, []string{"no TLS version in common"}},
		"max 1.2":       {func(o *Options) { o.MaxVersion = tls.VersionTLS12 }, func(c *tls.Config) { c.MinVersion = tls.VersionTLS13 }, []string{"no TLS version in common"}},
		"suites":        {func(o *Options) { o.Ciphers = []string{"TLS-ECDHE-ECDSA-WITH-AES-256-GCM-SHA384"} }, onlySuite(tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384), nil},
		"other suites":  {func(o *Options) { o.Ciphers = []string{"TLS-ECDHE-ECDSA-WITH-AES-256-GCM-SHA384"} }, onlySuite(tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256), []string{"no cipher suite in common", "DHE alone"}},
		"groups":        {func(o *Options) { o.Groups = []string{"secp384r1"} }, func(c *tls.Config) { c.CurvePreferences = []tls.CurveID{tls.CurveP256, tls.CurveP384} }, nil},
		"other groups":  {func(o *Options) { o.Groups = []string{"secp384r1"} }, func(c *tls.Config) { c.CurvePreferences = []tls.CurveID{tls.X25519} }, []string{"no group for the key exchange", "tls-groups"}},
		"ku":            {func(o *Options) { o.RemoteKU = []uint16{0xa0, 0x80} }, func(*tls.Config) {}, nil},
		"other ku":      {func(o *Options) { o.RemoteKU = []uint16{0xa0, 0x88} }, func(*tls.Config) {}, []string{"remote-cert-ku", "digitalSignature"}},
		"cert-tls":      {func(o *Options) { o.RemoteKUAny, o.RemoteEKU = true, "TLS Web Client Authentication" }, func(*tls.Config) {}, nil},
		"eku by number": {func(o *Options) { o.RemoteEKU = "1.3.6.1.5.5.7.3.2" }, func(*tls.Config) {}, nil},
		"other eku":     {func(o *Options) { o.RemoteEKU = "1.2.3.4" }, func(*tls.Config) {}, []string{"wrong purpose", "remote-cert-eku"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, cfg := options(root), configOf(&client)
			c.server(&o)
			c.client(cfg)
			_, err, _ := shake(t, newVerifier(t, o), cfg)
			reason, remedy := Explain(err)
			if (reason == "") != (c.words == nil) {
				t.Errorf("%q (%v)", reason, err)
			}
			for _, w := range c.words {
				if !strings.Contains(reason+" / "+remedy, w) {
					t.Errorf("%q / %q for %v, want %q in it", reason, remedy, err, w)
				}
			}
		})
	}
}

func onlySuite(id uint16) func(*tls.Config) {
	return func(c *tls.Config) { c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{id} }
}

// remote-cert-tls asks for both usages to be there, the default for neither.
func TestRemoteCertTLSNeedsExtensions(t *testing.T) {
	root := authority(t, "Root", nil)
	noKU := root.client("noku", func(c *x509.Certificate) { c.KeyUsage = 0 })
	noEKU := root.client("noeku", func(c *x509.Certificate) { c.ExtKeyUsage = nil })
	o := options(root)
	v := newVerifier(t, o)
	want(t, v, &noKU)
	want(t, v, &noEKU)
	o.RemoteKUAny, o.RemoteEKU = true, "TLS Web Client Authentication"
	v = newVerifier(t, o)
	want(t, v, &noKU, "key usage is not")
	want(t, v, &noEKU, "extended key usage is not")
}

func TestProfile(t *testing.T) {
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	strong, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p521, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	certs := map[string]*x509.Certificate{
		"rsa1024": {PublicKey: &weak.PublicKey}, "rsa2048": {PublicKey: &strong.PublicKey}, "p521": {PublicKey: &p521.PublicKey},
		"p256": {PublicKey: newKey(t).Public(), SignatureAlgorithm: x509.ECDSAWithSHA256}, "sha512": {PublicKey: newKey(t).Public(), SignatureAlgorithm: x509.ECDSAWithSHA512},
	}
	accepted := map[string]string{"": "p256 p521 rsa1024 rsa2048 sha512", "legacy": "p256 p521 rsa1024 rsa2048 sha512",
		"preferred": "p256 p521 rsa2048 sha512", "suiteb": "p256"}
	for profile, want := range accepted {
		v := &Verifier{opt: Options{CertProfile: profile}}
		var got []string
		for name, c := range certs {
			if v.strong(c, false) == nil {
				got = append(got, name)
			}
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("%q accepts %v, want %s", profile, got, want)
		}
	}
	root := authority(t, "Root", nil)
	client := root.client("p256", func(c *x509.Certificate) { c.SignatureAlgorithm = x509.ECDSAWithSHA512 })
	o := options(root)
	o.CertProfile = "suiteb"
	want(t, newVerifier(t, o), &client, `"CN=p256"`, "tls-cert-profile suiteb", "ECDSA-SHA512")
}

func TestCipherSuites(t *testing.T) {
	gcm := []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384}
	safe := aead()
	slices.Sort(safe)
	for names, want := range map[string][]uint16{
		"": nil,
		"ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384":                                 gcm,
		"TLS-ECDHE-RSA-WITH-AES-256-GCM-SHA384:TLS-ECDHE-ECDSA-WITH-AES-256-GCM-SHA384":             gcm,
		"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384:DHE-RSA-AES256-SHA:ECDHE-ECDSA-AES256-GCM-SHA384":    gcm,
		"TLS-ECDHE-RSA-WITH-CHACHA20-POLY1305-SHA256":                                               {tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256},
		"TLS-ECDHE-RSA-WITH-CHACHA20-POLY1305":                                                      {tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256},
		"TLS-RSA-WITH-AES-128-GCM-SHA256":                                                           {tls.TLS_RSA_WITH_AES_128_GCM_SHA256},
		"DEFAULT:!EXP:!LOW:!aNULL":                                                                  safe,
		"ECDHE+AESGCM:!kRSA":                                                                        safe,
		"HIGH:!ECDHE-RSA-AES128-GCM-SHA256":                                                         slices.DeleteFunc(slices.Clone(safe), func(id uint16) bool { return id == tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 }),
		"ECDHE-RSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES256-GCM-SHA384:XYZ": gcm,
	} {
		var list []string
		if names != "" {
			list = strings.Split(names, ":")
		}
		got, err := cipherSuites(list)
		slices.Sort(want)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %x (%v), want %x", names, got, err, want)
		}
	}
	for _, none := range []string{"DHE-RSA-AES256-GCM-SHA384", "!HIGH", "TLS-RSA-WITH-3DES-EDE-CBC-SHA", "RC4-SHA", "TLS_AES_128_GCM_SHA256"} {
		if got, err := cipherSuites([]string{none}); err == nil {
			t.Errorf("%s: %x", none, got)
		}
	}
}

// A session that is resumed would skip every check: nobody gets a ticket.
func TestNoResumption(t *testing.T) {
	root := authority(t, "Root", nil)
	client := root.client("client", nil)
	v := newVerifier(t, options(root))
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		cfg := configOf(&client)
		cfg.MaxVersion, cfg.ClientSessionCache = version, tls.NewLRUClientSessionCache(1)
		for range 2 {
			state, err, atClient := shake(t, v, cfg)
			if err != nil || atClient != nil || state.DidResume {
				t.Errorf("version %x: resumed %v, errors %v, %v", version, state.DidResume, err, atClient)
			}
		}
	}
}

// wire is a connection that never hears.
type wire struct{ io.Reader }

func (wire) Write(b []byte) (int, error)      { return len(b), nil }
func (wire) Close() error                     { return nil }
func (wire) LocalAddr() net.Addr              { return nil }
func (wire) RemoteAddr() net.Addr             { return nil }
func (wire) SetDeadline(time.Time) error      { return nil }
func (wire) SetReadDeadline(time.Time) error  { return nil }
func (wire) SetWriteDeadline(time.Time) error { return nil }

func TestExplain(t *testing.T) {
	for err, want := range map[error]string{
		nil:                                      "",
		io.EOF:                                   "the client closed the connection",
		errors.New("TLS negotiation timed out"):  "not finished in time",
		errors.New("remote error: tls: no\nway"): "the client refused: no_way",
		errors.New("some\x1b[2Jthing"):           "some_[2Jthing",
		errors.New("tls: failed to parse client certificate: x509: unsupported elliptic curve"):     "curve that Go does not know",
		errors.New("tls: failed to parse client certificate: x509: odd"):                            "cannot be read: x509: odd",
		errors.New("tls: peer doesn't support any of the certificate's signature algorithms"):       "does not understand the signatures",
		errors.New("tls: client certificate contains an unsupported public key of type *dsa.Key"):   "kind that Go does not know",
		errors.New("remote error: tls: expired certificate"):                                        "our certificate is expired",
		&CertError{Subject: "CN=x", Err: errors.New("a\nb")}:                                        `certificate "CN=x": a_b`,
		&CertError{Subject: "CN=x\ny", Depth: 2, Err: x509.InsecureAlgorithmError(x509.MD5WithRSA)}: `certificate "CN=x\ny", at depth 2: it is signed with MD5-RSA`,
	} {
		if got, _ := Explain(err); !strings.Contains(got, want) || strings.ContainsAny(got, "\n\x1b") {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
	// What a client that speaks no TLS causes.
	v := newVerifier(t, options(authority(t, "Root", nil)))
	cfg := v.TLSConfig()
	s := tls.Server(wire{strings.NewReader(strings.Repeat("GET / HTTP/1.0\r\n", 9))}, cfg)
	if reason, _ := Explain(s.Handshake()); reason != "what the client sent is not TLS" {
		t.Error(reason)
	}
}
