// SPDX-License-Identifier: Apache-2.0

package control

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/keyex"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/session"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wire"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wrap"
	"github.com/ovpn-xdp/ovpn-xdp/internal/ovpnconf"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/peer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds what has to happen; it says nothing about how fast.
const patience = 30 * time.Second

// pki is a throw-away authority with a server's certificate.
type pki struct {
	key                 *ecdsa.PrivateKey
	ca                  *x509.Certificate
	caPEM, cert, keyPEM string
}

var authority = sync.OnceValue(func() *pki {
	p := &pki{key: must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign, SubjectKeyId: []byte{1}}
	der := must(x509.CreateCertificate(rand.Reader, template, template, &p.key.PublicKey, p.key))
	p.ca = must(x509.ParseCertificate(der))
	p.caPEM = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	c := p.issue("server", x509.ExtKeyUsageServerAuth)
	p.cert = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]}))
	p.keyPEM = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: must(x509.MarshalPKCS8PrivateKey(c.PrivateKey))}))
	return p
})

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// revoke writes a list of what is revoked.
func (p *pki) revoke(t *testing.T, file string, revoked ...tls.Certificate) {
	t.Helper()
	l := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: time.Now().Add(-time.Minute), NextUpdate: time.Now().Add(time.Hour)}
	for _, c := range revoked {
		l.RevokedCertificateEntries = append(l.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: must(x509.ParseCertificate(c.Certificate[0])).SerialNumber, RevocationTime: time.Now()})
	}
	der := must(x509.CreateRevocationList(rand.Reader, l, p.ca, p.key))
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (p *pki) issue(cn string, use x509.ExtKeyUsage) tls.Certificate {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	der := must(x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: must(rand.Int(rand.Reader, big.NewInt(1<<62))), Subject: pkix.Name{CommonName: cn},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{use}}, p.ca, &key.PublicKey, p.key))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// bed is a service with everything around it made up: clients send to it and it to
// them without a network.
type bed struct {
	t     *testing.T
	svc   *Service
	peers *peer.Table
	log   *lines

	mu      sync.Mutex
	clients map[netip.AddrPort]*dialler
	routes  []netip.Prefix
}

// lines is a log to look into.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// configuration is the least that a server needs, with more options behind it.
func configuration(t *testing.T, options ...string) *ovpnconf.Server {
	t.Helper()
	p := authority()
	text := "dev tun\nserver 10.8.0.0 255.255.255.0\ntopology subnet\nconnect-freq-initial 1000000 1\n" + strings.Join(options, "\n") +
		"\n<ca>\n" + p.caPEM + "</ca>\n<cert>\n" + p.cert + "</cert>\n<key>\n" + p.keyPEM + "</key>\n"
	conf, findings := ovpnconf.Check(ovpnconf.Parse("server.conf", text))
	for _, f := range findings {
		if f.Verdict == ovpnconf.Refused {
			t.Fatal(f)
		}
	}
	return conf
}

// newBed starts a service.
func newBed(t *testing.T, options ...string) *bed {
	t.Helper()
	b := &bed{t: t, log: &lines{}, clients: map[netip.AddrPort]*dialler{}}
	b.peers = peer.NewTable(false, b)
	started := time.Now()
	svc, err := New(Config{Server: configuration(t, options...), Peers: b.peers, Send: b, Routes: b, Dev: "tun0",
		Clock: func() int64 { return int64(time.Since(started)) + 1 },
		Log:   slog.New(slog.NewTextHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	b.svc = svc
	svc.Start()
	t.Cleanup(func() {
		svc.Close()
		for _, c := range b.all() {
			c.close()
		}
		b.empty()
		if t.Failed() {
			t.Logf("log:\n%s", b.log)
		}
	})
	return b
}

// empty checks that nothing is left of any client.
func (b *bed) empty() {
	b.t.Helper()
	s := b.svc
	s.mu.Lock()
	left := map[string]int{"all": len(s.all), "sessions": len(s.sessions), "streams": len(s.streams), "byPeer": len(s.byPeer), "leaving": len(s.leaving),
		"halfOpen": s.halfOpen.len(), "prefixes": len(s.halfOpen.prefixes)}
	s.mu.Unlock()
	k := &s.books
	k.mu.Lock()
	left["byName"], left["leases"], left["kernel"], left["wanted"] = len(k.byName), k.leases, len(k.kernel), len(k.wanted)
	k.mu.Unlock()
	left["peers"] = b.peers.Len()
	for what, n := range left {
		if n != 0 {
			b.t.Errorf("%d in %s, and no client is left", n, what)
		}
	}
}

func (b *bed) all() (out []*dialler) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.clients {
		out = append(out, c)
	}
	return out
}

// PeerChanged implements peer.Observer.
func (b *bed) PeerChanged(*peer.Peer) {}

// PeerEvent implements peer.Observer.
func (b *bed) PeerEvent(e peer.Event) {
	if b.svc != nil {
		b.svc.PeerEvent(e)
	}
}

// Send implements Sender.
func (b *bed) Send(_, remote netip.AddrPort, datagrams [][]byte) {
	b.mu.Lock()
	c := b.clients[remote]
	b.mu.Unlock()
	if c == nil {
		return
	}
	for _, d := range datagrams {
		select {
		case c.in <- slices.Clone(d):
		default:
		}
	}
}

// AddRoute implements Routes.
func (b *bed) AddRoute(p netip.Prefix) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Contains(b.routes, p) {
		b.routes = append(b.routes, p)
	}
	return nil
}

// DelRoute implements Routes.
func (b *bed) DelRoute(p netip.Prefix) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.routes = slices.DeleteFunc(b.routes, func(q netip.Prefix) bool { return q == p })
	return nil
}

func (b *bed) hasRoute(p string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Contains(b.routes, netip.MustParsePrefix(p))
}

// eventually waits until ok.
func (b *bed) eventually(what string, ok func() bool) {
	b.t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			b.t.Fatalf("did not happen: %s", what)
		}
	}
}

// logged waits until the log has a text.
func (b *bed) logged(text string) {
	b.t.Helper()
	b.eventually("log line with "+text, func() bool { return strings.Contains(b.log.String(), text) })
}

// dialler is a client.
type dialler struct {
	b      *bed
	at     netip.AddrPort
	in     chan []byte
	do     chan func(s *session.Session)
	stop   chan struct{}
	done   chan struct{}
	once   sync.Once
	mu     sync.Mutex
	pushed []string // options of all PUSH_REPLYs
	said   []string // other messages
	keys   []uint8  // established
	held   []uint8  // of which it has the data channel's key
	sent   [][]byte // all datagrams
	failed error

	stream    *stream // TCP; nil on UDP
	exchanged func(s *session.Session, keyID uint8)
}

// profile is what a client is made of.
type profile struct {
	cert               *tls.Certificate
	username, password string
	peerInfo           string // "": that of 2.6
	wrap               func() (*wrap.Wrap, *[256]byte)
	options            string
	stream             *stream                        // TCP
	login              func() (name, password string) // instead of username and password; asked for each key
	exchanged          func(s *session.Session, keyID uint8)
	window             time.Duration // its hand-window; 0: the default
}

const peerInfo26 = "IV_VER=2.6.14\nIV_PLAT=linux\nIV_MTU=1600\nIV_NCP=2\nIV_CIPHERS=AES-256-GCM:AES-128-GCM:CHACHA20-POLY1305\nIV_PROTO=990\n"

func address(n int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 18, byte(n >> 8), byte(n)}), 40000)
}

var local = netip.MustParseAddrPort("192.0.2.1:1194")

// named is the profile of a client with a certificate of that common name.
func named(cn string) profile {
	c := authority().issue(cn, x509.ExtKeyUsageClientAuth)
	return profile{cert: &c}
}

// dial starts a client at an address.
func (b *bed) dial(at netip.AddrPort, p profile) *dialler {
	c := &dialler{b: b, at: at, in: make(chan []byte, 64), do: make(chan func(*session.Session)), stop: make(chan struct{}), done: make(chan struct{}),
		stream: p.stream, exchanged: p.exchanged}
	if c.stream != nil {
		c.stream.client = c
	}
	b.mu.Lock()
	old := b.clients[at]
	b.clients[at] = c
	b.mu.Unlock()
	if old != nil {
		old.close()
	}
	cfg := &tls.Config{InsecureSkipVerify: true}
	if p.cert != nil {
		cfg.Certificates = []tls.Certificate{*p.cert}
	}
	info := p.peerInfo
	if info == "" {
		info = peerInfo26
	}
	options := p.options
	if options == "" {
		options = "V4,dev-type tun,tls-client"
	}
	sc := session.Config{Role: session.Client, TLS: cfg, Timeout: 200 * time.Millisecond, HandWindow: p.window, Stream: p.stream != nil,
		Hello: func(uint8, *keyex.Message, bool) keyex.Message {
			name, password := p.username, p.password
			if p.login != nil {
				name, password = p.login()
			}
			return keyex.Message{Options: options, HasUser: name != "" || password != "", Username: name, Password: password, PeerInfo: info}
		}}
	if p.wrap != nil {
		sc.Wrap, sc.Static = p.wrap()
	}
	_, _ = rand.Read(sc.Local[:])
	go c.run(sc)
	return c
}

func (c *dialler) close() {
	c.once.Do(func() { close(c.stop) })
	<-c.done
}

func (c *dialler) run(cfg session.Config) {
	defer close(c.done)
	s := session.New(cfg, time.Now())
	defer s.Close()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		c.events(s)
		for _, d := range s.Outgoing() {
			c.send(d)
		}
		wait := time.Hour
		if next := s.Next(); !next.IsZero() {
			wait = max(time.Until(next), 0)
		}
		timer.Reset(wait)
		select {
		case <-c.stop:
			return
		case d := <-c.in:
			s.Datagram(d, time.Now())
		case fn := <-c.do:
			fn(s)
		case <-timer.C:
		}
		s.Tick(time.Now())
	}
}

func (c *dialler) send(d []byte) {
	c.mu.Lock()
	at := c.at
	c.sent = append(c.sent, slices.Clone(d))
	c.mu.Unlock()
	if c.stream == nil {
		c.b.svc.Datagram(at, local, d)
	} else if !c.stream.closed.Load() {
		c.b.svc.Packet(c.stream, d)
	}
}

func (c *dialler) events(s *session.Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range s.Events() {
		switch e.Type {
		case session.KeyExchanged:
			c.held = append(c.held, e.KeyID)
			if c.exchanged != nil {
				c.exchanged(s, e.KeyID)
			}
		case session.Acknowledged:
			c.keys = append(c.keys, e.KeyID)
		case session.Failed:
			c.failed = e.Err
		case session.Message:
			if options, _, ok := keyex.ParsePushReply(e.Text); ok {
				if slices.Contains(options, "protocol-flags cc-exit tls-ekm dyn-tls-crypt") {
					_ = s.UseDynamicWrap()
				}
				c.pushed = append(c.pushed, options...)
			} else {
				c.said = append(c.said, e.Text)
			}
		}
	}
}

// session has something done by the client's own goroutine.
func (c *dialler) session(fn func(s *session.Session)) {
	done := make(chan struct{})
	c.do <- func(s *session.Session) { fn(s); close(done) }
	<-done
}

// say sends a control message.
func (c *dialler) say(text string) {
	c.b.t.Helper()
	c.session(func(s *session.Session) {
		if err := s.Send(text, time.Now()); err != nil {
			c.b.t.Error(err)
		}
	})
}

// option returns the value of a pushed option, "" if there is none.
func (c *dialler) option(name string) (value string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.pushed {
		if key, v, _ := strings.Cut(o, " "); key == name {
			value = v
		}
	}
	return value
}

func (c *dialler) heard(text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.said, func(s string) bool { return strings.HasPrefix(s, text) })
}

// up waits until a client is connected and returns its address in the tunnel.
func (c *dialler) up() string {
	c.b.t.Helper()
	c.b.eventually(fmt.Sprintf("client at %s is connected", c.at), func() bool { return c.option("peer-id") != "" })
	addr, _, _ := strings.Cut(c.option("ifconfig"), " ")
	return addr
}

// fails waits until a client was refused with that text.
func (c *dialler) fails(text string) {
	c.b.t.Helper()
	c.b.eventually(fmt.Sprintf("client at %s hears %q", c.at, text), func() bool { return c.heard(text) })
}

// peer returns the peer with an inner address, nil if there is none.
func (b *bed) peer(addr string) *peer.Peer { return b.peers.Route(netip.MustParseAddr(addr)) }

// packet of no session: the reset of a client that nobody knows.
func reset(id byte) []byte {
	h := wire.Header{Opcode: wire.ControlHardResetClientV2, Session: wire.SessionID{1, 2, 3, 4, 5, 6, 7, id}}
	body := wire.Body{}
	return body.Append(h.Opcode, h.Append(nil))
}
