// SPDX-License-Identifier: Apache-2.0

package control

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/keyex"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/session"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/peer"
)

func TestConnect(t *testing.T) {
	b := newBed(t, `push "route 10.66.0.0 255.255.0.0"`, "keepalive 10 60")
	c := b.dial(address(1), named("alice"))
	if addr := c.up(); addr != "10.8.0.2" {
		t.Errorf("address %s", addr)
	}
	want := "route 10.66.0.0 255.255.0.0,route-gateway 10.8.0.1,topology subnet,ping 10,ping-restart 60,ifconfig 10.8.0.2 255.255.255.0,peer-id 0,cipher AES-256-GCM,protocol-flags cc-exit tls-ekm dyn-tls-crypt,tun-mtu 1500"
	if got := strings.Join(c.pushed, ","); got != want {
		t.Errorf("pushed\n%s, want\n%s", got, want)
	}
	p := b.peer("10.8.0.2")
	if p == nil || p.PrimaryKey() == nil || p.Endpoint().Remote != c.at {
		t.Fatalf("peer %+v", p)
	}
	if interval, timeout := p.Keepalive(); interval != 10*time.Second || timeout != 120*time.Second {
		t.Errorf("keepalive %v, %v", interval, timeout)
	}
	r := b.svc.Report()
	if len(r.Clients) != 1 || r.Clients[0].CommonName != "alice" || r.Clients[0].Real != c.at || r.Clients[0].Cipher != "AES-256-GCM" {
		t.Errorf("report %+v", r.Clients)
	}
	c.say(keyex.Exit)
	b.eventually("the peer is gone", func() bool { return b.peer("10.8.0.2") == nil })
}

// TestAskingClient is one of 2.4: it has no bit for an unasked PUSH_REPLY.
func TestAskingClient(t *testing.T) {
	b := newBed(t)
	p := named("old")
	p.peerInfo = "IV_VER=2.4.12\nIV_NCP=2\nIV_PROTO=2\n"
	c := b.dial(address(1), p)
	b.logged("client connected")
	if c.option("peer-id") != "" {
		t.Error("pushed without being asked")
	}
	c.say(keyex.PushRequest)
	c.up()
	if flags := c.option("protocol-flags") + c.option("key-derivation"); flags != "" {
		t.Errorf("pushed %q to a client that knows no such word", flags)
	}
	if c.option("tun-mtu") != "" {
		t.Error("pushed tun-mtu to a client that takes none")
	}
}

// TestOpenVPN3: those clients give up at words of protocol-flags that they have not announced, and
// say more about themselves than others; what is not spoken here they must not hear of.
func TestOpenVPN3(t *testing.T) {
	b := newBed(t)
	for n, proto := range []string{"7070", "8094"} { // 3.11 without and with the epoch format
		p := named("phone" + proto)
		p.peerInfo = "IV_VER=3.11.3\nIV_PLAT=android\nIV_NCP=2\nIV_TCPNL=1\nIV_PROTO=" + proto + "\nIV_MTU=1600\nIV_CIPHERS=AES-128-CBC:AES-192-CBC:AES-256-CBC:AES-128-GCM:AES-192-GCM:AES-256-GCM:CHACHA20-POLY1305\n" +
			"IV_LZO_STUB=1\nIV_COMP_STUB=1\nIV_COMP_STUBv2=1\nIV_AUTO_SESS=1\nIV_GUI_VER=app_3.7.1-1111\nIV_SSO=webauth,crtext\nIV_BS64DL=1\nIV_HWADDR=02:00:00:00:00:01\n"
		p.options = "V4,dev-type tun,link-mtu 1521,tun-mtu 1500,proto UDPv4,auth [null-digest],keysize 256,key-method 2,tls-client"
		c := b.dial(address(n+1), p)
		c.up()
		if flags := c.option("protocol-flags"); flags != "cc-exit tls-ekm dyn-tls-crypt" {
			t.Errorf("IV_PROTO=%s: protocol-flags %q", proto, flags)
		}
		if cipher := c.option("cipher"); cipher != "AES-256-GCM" {
			t.Errorf("IV_PROTO=%s: cipher %q", proto, cipher)
		}
		c.session(func(s *session.Session) { s.Renegotiate(time.Now()) })
		b.eventually("the second key", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return len(c.keys) > 1 })
		c.say(keyex.Exit)
	}
	b.eventually("both are gone", func() bool { return b.peers.Len() == 0 })
}

// TestReturn: a client that was killed is back at once, at the same port or at
// another, with its address and a new peer id.
func TestReturn(t *testing.T) {
	b := newBed(t)
	first := b.dial(address(1), named("alice"))
	addr := first.up()
	old := b.peer(addr)
	for _, at := range []netip.AddrPort{address(1), address(2), address(1)} {
		c := b.dial(at, named("alice"))
		if again := c.up(); again != addr {
			t.Errorf("address %s became %s", addr, again)
		}
		p := b.peer(addr)
		if p == nil || p == old || p.ID == old.ID {
			t.Fatalf("peer %+v after %+v", p, old)
		}
		if !old.Gone() {
			t.Error("the old session's peer is still there")
		}
		old = p
	}
	if n := b.peers.Len(); n != 1 {
		t.Errorf("%d peers", n)
	}
}

func TestDuplicateCN(t *testing.T) {
	b := newBed(t, "duplicate-cn")
	a, c := b.dial(address(1), named("same")).up(), b.dial(address(2), named("same")).up()
	if a == c || b.peers.Len() != 2 {
		t.Errorf("%s and %s, %d peers", a, c, b.peers.Len())
	}
}

func TestMaxClients(t *testing.T) {
	b := newBed(t, "max-clients 1")
	b.dial(address(1), named("one")).up()
	b.dial(address(2), named("two")).fails("AUTH_FAILED,TEMP")
	// The one that is in may return.
	b.dial(address(3), named("one")).up()
}

// TestClientFiles has files in client-config-dir, DEFAULT among them, and a name that would
// leave the folder.
func TestClientFiles(t *testing.T) {
	dir := t.TempDir()
	ccd := filepath.Join(dir, "ccd")
	if err := os.Mkdir(ccd, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"ccd/site":    "ifconfig-push 10.8.0.77 255.255.255.0\niroute 10.99.0.0 255.255.0.0\npush-reset\npush \"topology subnet\"\n",
		"ccd/off":     "disable\n",
		"ccd/DEFAULT": "push \"dhcp-option DNS 10.8.0.1\"\n",
		"evil":        "iroute 0.0.0.0 0.0.0.0\n",
		"ccd/.._evil": "push \"dhcp-option DNS 10.8.0.9\"\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b := newBed(t, "client-config-dir "+ccd, `push "route 10.66.0.0 255.255.0.0"`)
	site := b.dial(address(1), named("site"))
	if addr := site.up(); addr != "10.8.0.77" || site.option("route") != "" || site.option("route-gateway") != "" {
		t.Errorf("site: %s, %q", addr, site.pushed)
	}
	if !b.hasRoute("10.99.0.0/16") || b.peer("10.99.1.1") != b.peer("10.8.0.77") {
		t.Error("the network behind the client is not routed to it")
	}
	b.dial(address(2), named("off")).fails("AUTH_FAILED")
	other := b.dial(address(3), named("other"))
	other.up()
	if got := other.option("dhcp-option"); got != "DNS 10.8.0.1" {
		t.Errorf("DEFAULT was not read: %q", other.pushed)
	}
	evil := b.dial(address(4), named("../evil"))
	evil.up()
	if got := evil.option("dhcp-option"); got != "DNS 10.8.0.9" || b.hasRoute("0.0.0.0/0") {
		t.Errorf("../evil: %q", evil.pushed)
	}
	// The new session's route outlives the old session's end.
	again := b.dial(address(5), named("site"))
	again.up()
	b.logged("replaced by a new session")
	if !b.hasRoute("10.99.0.0/16") {
		t.Error("the old session took the new one's route away")
	}
	again.say(keyex.Exit)
	b.eventually("the route is gone", func() bool { return !b.hasRoute("10.99.0.0/16") })
}

// TestRenegotiation by each side, with the keys in the slots that the client expects.
func TestRenegotiation(t *testing.T) {
	b := newBed(t)
	c := b.dial(address(1), named("alice"))
	p := func() *peer.Peer { return b.peer("10.8.0.2") }
	c.up()
	for id := uint8(1); id <= 9; id++ {
		want := (id-1)%7 + 1
		if id%2 == 0 {
			c.session(func(s *session.Session) { s.Renegotiate(time.Now()) })
		} else {
			b.svc.PeerEvent(peer.Event{Type: peer.KeyWanted, Peer: p(), Reason: peer.WhyPacketID})
		}
		b.eventually("a new key is sent with", func() bool { k := p().PrimaryKey(); return k != nil && k.ID == want })
		b.eventually("the client has it", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return slices.Contains(c.keys, want) })
		c.mu.Lock()
		c.keys = nil
		c.mu.Unlock()
	}
	if strings.Contains(b.log.String(), "failed") {
		t.Error("something failed")
	}
}

// TestFloat: control packets go where the records come from, and are known when
// they come from there.
func TestFloat(t *testing.T) {
	b := newBed(t)
	c := b.dial(address(1), named("alice"))
	c.up()
	p := b.peer("10.8.0.2")
	moved := address(99)
	b.mu.Lock()
	delete(b.clients, c.at)
	b.clients[moved] = c
	b.mu.Unlock()
	c.mu.Lock()
	c.at = moved
	c.mu.Unlock()
	b.svc.PeerEvent(peer.Event{Type: peer.Floated, Peer: p, Remote: moved, Previous: address(1)})
	c.session(func(s *session.Session) { s.Renegotiate(time.Now()) })
	b.eventually("renegotiated from the new address", func() bool { k := p.PrimaryKey(); return k != nil && k.ID == 1 })
	if r := b.svc.Report(); len(r.Clients) != 1 || r.Clients[0].Real != moved {
		t.Errorf("report %+v", r.Clients)
	}
}

func TestEnds(t *testing.T) {
	b := newBed(t)
	end := map[string]func(c *dialler, p *peer.Peer){
		"keepalive":    func(_ *dialler, p *peer.Peer) { _ = b.peers.Remove(p.ID, peer.ReasonExpired) },
		"data channel": func(_ *dialler, p *peer.Peer) { b.svc.PeerEvent(peer.Event{Type: peer.Exited, Peer: p}) },
		"operator":     func(*dialler, *peer.Peer) { b.svc.KillClient(b.svc.Report().Clients[0].ClientID, Restart) },
		"admin":        func(_ *dialler, p *peer.Peer) { _ = b.peers.Remove(p.ID, peer.ReasonUser) },
	}
	n := 10
	for name, fn := range end {
		n++
		c := b.dial(address(n), named(strings.ReplaceAll(name, " ", "-")))
		addr := c.up()
		fn(c, b.peer(addr))
		b.eventually(name+": nothing is left of the client", func() bool {
			return b.peer(addr) == nil && b.svc.books.count() == 0 && len(b.svc.Report().Clients) == 0
		})
		if name == "operator" {
			b.eventually("the client is told", func() bool { return c.heard(Restart) })
		}
		c.close()
	}
}

// TestReload keeps those whose settings are the same.
func TestReload(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("changes", "push \"dhcp-option DNS 10.8.0.1\"\n")
	b := newBed(t, "client-config-dir "+dir)
	stays, changes := b.dial(address(1), named("stays")), b.dial(address(2), named("changes"))
	stays.up()
	changes.up()
	if err := b.svc.Reload(configuration(t, "client-config-dir "+dir)); err != nil {
		t.Fatal(err)
	}
	write("changes", "push \"dhcp-option DNS 10.8.0.2\"\n")
	if err := b.svc.Reload(configuration(t, "client-config-dir "+dir)); err != nil {
		t.Fatal(err)
	}
	b.eventually("the changed client is told", func() bool { return changes.heard(Restart) })
	if stays.heard(Restart) {
		t.Error("a client was sent away though nothing changed for it")
	}
	broken := configuration(t)
	broken.TLS.Cert.Inline = []byte("no certificate")
	if err := b.svc.Reload(broken); err == nil {
		t.Error("a configuration without certificate was taken")
	}
	if err := b.svc.Reload(configuration(t, "client-config-dir "+dir, `push "route 10.1.0.0 255.255.0.0"`)); err != nil {
		t.Fatal(err)
	}
	b.eventually("all are told", func() bool { return stays.heard(Restart) })
}

// TestRevokedWhileConnected: the next reload, or the client's own next renegotiation, ends it;
// a list that cannot be relied on does not.
func TestRevokedWhileConnected(t *testing.T) {
	p, file := authority(), filepath.Join(t.TempDir(), "crl.pem")
	p.revoke(t, file)
	options := []string{"crl-verify " + file}
	b := newBed(t, options...)
	var clients []*dialler
	var certs []profile
	for n, name := range []string{"stays", "reloaded", "renegotiates"} {
		certs = append(certs, named(name))
		clients = append(clients, b.dial(address(n+1), certs[n]))
		clients[n].up()
	}
	stays, reloaded, renegotiates := clients[0], clients[1], clients[2]
	reload := func() {
		t.Helper()
		if err := b.svc.Reload(configuration(t, options...)); err != nil {
			t.Fatal(err)
		}
	}
	p.revoke(t, file, *certs[1].cert)
	reload()
	reloaded.fails(Restart)
	b.logged(`"certificate \"CN=reloaded\": revoked"`)

	if err := os.WriteFile(file, []byte("no list"), 0o600); err != nil {
		t.Fatal(err)
	}
	renegotiates.session(func(s *session.Session) { s.Renegotiate(time.Now()) })
	b.logged("the old key goes on")
	p.revoke(t, file, *certs[1].cert, *certs[2].cert)
	b.eventually("it can renegotiate again", func() (ok bool) {
		renegotiates.session(func(s *session.Session) { ok = s.Renegotiate(time.Now()) })
		return ok
	})
	renegotiates.fails(Restart)
	if stays.heard(Restart) || b.peers.Len() != 1 {
		t.Errorf("%d peers are left", b.peers.Len())
	}
}
