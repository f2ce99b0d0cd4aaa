// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/keyex"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/session"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/peer"
)

// renegotiate has a client negotiate a new key.
func (c *dialler) renegotiate() {
	c.session(func(s *session.Session) { s.Renegotiate(time.Now()) })
}

// hasKey waits until a client has a key.
func (c *dialler) hasKey(id uint8) {
	c.b.t.Helper()
	c.b.eventually(fmt.Sprintf("client at %s has key %d", c.at, id), func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.keys) > 0 && c.keys[len(c.keys)-1] == id
	})
}

// TestTokenOverRenegotiations: the command is asked once, and a wrong password later
// ends the session.
func TestTokenOverRenegotiations(t *testing.T) {
	count := filepath.Join(t.TempDir(), "count")
	b := newBed(t, passwords(t, "echo x >> "+count+"\n[ \"$(sed -n 2p \"$1\")\" = secret ]\n", "auth-gen-token 3600")...)
	var password atomic.Value
	password.Store("secret")
	c := b.dial(address(1), profile{login: func() (string, string) { return "joe", password.Load().(string) }})
	c.up()
	password.Store(c.option("auth-token"))
	for id := uint8(1); id <= 3; id++ {
		c.renegotiate()
		c.hasKey(id)
	}
	if asked := read(t, count); asked != "x\n" {
		t.Errorf("the command was asked %d times", len(asked)/2)
	}
	password.Store("guess")
	c.renegotiate()
	c.fails(keyex.AuthFailed)
	b.eventually("the client is out", func() bool { return b.peers.Len() == 0 })
}

// TestNameIsLocked: nobody becomes another one by renegotiating, even with a right password.
func TestNameIsLocked(t *testing.T) {
	b := newBed(t, passwords(t, "exit 0\n")...)
	var name atomic.Value
	name.Store("joe")
	c := b.dial(address(1), profile{login: func() (string, string) { return name.Load().(string), "x" }})
	c.up()
	name.Store("admin")
	c.renegotiate()
	b.eventually("the client is out", func() bool { return b.peers.Len() == 0 })
	b.logged("attempted to change its username")
}

// killed is a command that notes when it is ended early.
func killed(trace string) string {
	return "trap 'echo killed >> " + trace + "; exit 1' TERM\necho begins >> " + trace + "\nsleep 60 &\nwait\n"
}

// TestCommandTakesTooLong: its client is refused after hand-window, and it is ended.
func TestCommandTakesTooLong(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace")
	b := newBed(t, passwords(t, killed(trace), "hand-window 2")...)
	b.dial(address(1), login("joe", "x")).fails(keyex.AuthFailed)
	if got := read(t, trace); got != "begins\nkilled\n" {
		t.Errorf("the command wrote %q", got)
	}
}

// TestClientLeavesWhileAsked: the command that decides about it is ended.
func TestClientLeavesWhileAsked(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace")
	b := newBed(t, passwords(t, killed(trace))...)
	c := b.dial(address(1), login("joe", "x"))
	c.hasKey(0)
	b.eventually("the command runs", func() bool { return read(t, trace) != "" })
	c.say(keyex.Exit)
	b.eventually("the command is ended", func() bool { return strings.HasSuffix(read(t, trace), "killed\n") })
	b.eventually("nothing is left", func() bool { all, _ := b.sessions(); return all == 0 })
}

// TestCloseWaitsForCommands: those that decide are ended, client-disconnect ends by itself.
func TestCloseWaitsForCommands(t *testing.T) {
	dir := t.TempDir()
	trace, asked := filepath.Join(dir, "trace"), filepath.Join(dir, "asked")
	b := newBed(t, append(passwords(t, "[ \"$(sed -n 1p \"$1\")\" = quick ] && exit 0\n"+killed(asked)),
		"client-disconnect "+command(t, dir, "bye", "sleep 0.3; echo bye >> "+trace+"\n"))...)
	b.dial(address(1), login("quick", "x")).up()
	b.dial(address(2), login("slow", "x")).hasKey(0)
	b.eventually("the command runs", func() bool { return read(t, asked) != "" })
	b.svc.Close()
	if got := read(t, asked) + read(t, trace); got != "begins\nkilled\nbye\n" {
		t.Errorf("the commands wrote %q", got)
	}
}

// TestOrderOfLastCommands: who was told to come again is heard of first as gone and then as
// back, though its old session lives on for a while, and its address is nobody else's before.
func TestOrderOfLastCommands(t *testing.T) {
	dir := t.TempDir()
	trace := filepath.Join(dir, "trace")
	say := func(name string) string {
		return name + " " + command(t, dir, name, "[ "+name+" = client-connect ] || sleep 0.3\necho "+name+" $common_name $ifconfig_pool_remote_ip >> "+trace+"\n")
	}
	b := newBed(t, "script-security 2", say("client-connect"), say("client-disconnect"))
	c := b.dial(address(1), named("alice"))
	addr := c.up()
	if !b.svc.KillClient(0, Restart) {
		t.Fatal("there is no client 0")
	}
	c.fails(Restart)
	other := b.dial(address(2), named("bob")).up()
	again := b.dial(address(3), named("alice")).up()
	if again != addr || other == addr {
		t.Errorf("alice had %s and has %s, bob has %s", addr, again, other)
	}
	var alice []string
	for line := range strings.Lines(read(t, trace)) {
		if event, of, _ := strings.Cut(strings.TrimSpace(line), " "); of == "alice "+addr {
			alice = append(alice, event)
		}
	}
	if got := strings.Join(alice, " "); got != "client-connect client-disconnect client-connect" {
		t.Errorf("commands heard %q", got)
	}
}

// TestLearnAddress decides about each address.
func TestLearnAddress(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "site"), []byte("iroute 10.98.0.0 255.255.0.0\niroute 10.99.0.0 255.255.0.0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := newBed(t, "script-security 2", "client-config-dir "+dir,
		"learn-address "+command(t, t.TempDir(), "learn", "[ \"$1\" != add ] || [ \"$2\" != 10.99.0.0/16 ]\n"))
	c := b.dial(address(1), named("site"))
	addr := c.up()
	b.logged("learn-address refused an address")
	b.eventually("the other ones are there", func() bool { return b.peer(addr) != nil && b.peer("10.98.0.1") == b.peer(addr) })
	if b.peer("10.99.0.1") != nil || b.hasRoute("10.99.0.0/16") || !b.hasRoute("10.98.0.0/16") {
		t.Errorf("routes %v", b.routes)
	}
}

// TestNoSharedCipher: the client is told in the words that it knows, and what
// client-connect began client-disconnect ends, with times that make sense.
func TestNoSharedCipher(t *testing.T) {
	dir := t.TempDir()
	trace := filepath.Join(dir, "trace")
	b := newBed(t, "script-security 2", "client-connect "+command(t, dir, "hello", "echo \"connect $time_unix\" >> "+trace+"\n"),
		"client-disconnect "+command(t, dir, "bye", "echo \"disconnect $time_unix $time_duration\" >> "+trace+"\n"))
	p := named("alice")
	p.peerInfo = "IV_CIPHERS=AES-256-CBC\nIV_NCP=2\nIV_PROTO=990\n"
	b.dial(address(1), p).fails("AUTH_FAILED,Data channel cipher negotiation failed (no shared cipher)")
	b.eventually("client-disconnect has run", func() bool { return strings.Contains(read(t, trace), "disconnect") })
	if got := read(t, trace); !regexp.MustCompile(`^connect (\d{10})\ndisconnect (\d{10}) \d{1,2}\n$`).MatchString(got) {
		t.Errorf("ran %q", got)
	}
}

// TestExclusiveFiles: who has no file is not let in, whatever the name looks like.
func TestExclusiveFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"DEFAULT", "alice"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b := newBed(t, "client-config-dir "+dir, "ccd-exclusive")
	b.dial(address(1), named("alice")).up()
	for n, cn := range []string{"bob", "..", ".", "../" + filepath.Base(dir) + "/alice"} {
		b.dial(address(n+2), named(cn)).fails(keyex.AuthFailed)
	}
}

// TestFileOfConnectedClient: a renegotiation looks at the client's file again.
func TestFileOfConnectedClient(t *testing.T) {
	for what, spoil := range map[string]func(file string) error{
		"no file": os.Remove,
		"disable": func(file string) error { return os.WriteFile(file, []byte("disable\n"), 0o600) },
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, "alice")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		b := newBed(t, "client-config-dir "+dir, "ccd-exclusive")
		c := b.dial(address(1), named("alice"))
		addr := c.up()
		renegotiate := func() { c.session(func(s *session.Session) { s.Renegotiate(time.Now()) }) }
		renegotiate()
		b.eventually("the second key", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return len(c.keys) > 1 })
		if b.peer(addr) == nil {
			t.Fatal("the client is gone")
		}
		if err := spoil(file); err != nil {
			t.Fatal(err)
		}
		renegotiate()
		c.fails(keyex.AuthFailed)
		b.eventually(what+": the client is gone", func() bool { return b.peer(addr) == nil })
	}
}

// TestUsernameAsName: what a user types is no more trusted than a certificate's name.
func TestUsernameAsName(t *testing.T) {
	dir := t.TempDir()
	ccd, trace := filepath.Join(dir, "ccd"), filepath.Join(dir, "trace")
	if err := os.Mkdir(ccd, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "evil"), []byte("iroute 0.0.0.0 0.0.0.0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := newBed(t, append(passwords(t, "exit 0\n", "username-as-common-name"), "client-config-dir "+ccd,
		"client-connect "+command(t, dir, "hello", `printf '<%s|%s|%s>' "$common_name" "$UV_X" "$LD_PRELOAD$PATH_" >> `+trace+"\n"))...)
	p := login("../evil", "x")
	p.peerInfo = peerInfo26 + "UV_X=$(reboot) `id`\nLD_PRELOAD=/tmp/x.so\nPATH_=x\n"
	b.dial(address(1), p).up()
	b.dial(address(2), login("a\nb\x1b$(id)", "x")).up()
	if b.hasRoute("0.0.0.0/0") {
		t.Error("a file outside client-config-dir was read")
	}
	got := read(t, trace)
	if !strings.HasPrefix(got, "<../evil|__reboot)__id_|>") || strings.ContainsAny(got, "\n\x1b") {
		t.Errorf("environment %q", got)
	}
}

// TestUnnamedClients have no name in common: none replaces another.
func TestUnnamedClients(t *testing.T) {
	b := newBed(t, passwords(t, "exit 0\n", "auth-user-pass-optional")...)
	one, other := b.dial(address(1), profile{}).up(), b.dial(address(2), profile{}).up()
	if one == other || b.peers.Len() != 2 {
		t.Errorf("%s and %s, %d peers", one, other, b.peers.Len())
	}
}

// TestPersistedAddresses survive a restart, also those of names that a file with
// commas and lines cannot hold as they are.
func TestPersistedAddresses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ipp")
	names := []string{"plain", "a,b", "line\nbreak", "../up", "#hash", `quo"te`}
	run := func(order []string) map[string]string {
		b := newBed(t, "ifconfig-pool-persist "+file+" 1")
		got := map[string]string{}
		for n, cn := range order {
			got[cn] = b.dial(address(n+1), named(cn)).up()
		}
		b.svc.Close()
		if strings.Contains(b.log.String(), "skipped") {
			t.Errorf("the file cannot be read:\n%s", read(t, file))
		}
		return got
	}
	before := run(names)
	// In another order, so that chance does not give them the same ones. The file's own
	// signs are the ones that it cannot hold.
	after := run([]string{names[5], names[4], names[3], names[2], names[1], names[0]})
	for cn, addr := range before {
		if after[cn] != addr && !strings.ContainsAny(cn, ",#") {
			t.Errorf("%q had %s, has %s", cn, addr, after[cn])
		}
	}
}

// TestSessionTimeoutAndInactive end sessions, and say so.
func TestSessionTimeoutAndInactive(t *testing.T) {
	for option, said := range map[string]string{"session-timeout 1": "session-timeout is over", "inactive 1 1000": "client is inactive"} {
		b := newBed(t, option)
		c := b.dial(address(1), named("alice"))
		c.up()
		b.logged(said)
		c.fails(Restart)
		b.eventually("the client is out", func() bool { return b.peers.Len() == 0 })
	}
}

// TestServerRenegotiates with reneg-sec, and ends a session that does not follow.
func TestServerRenegotiates(t *testing.T) {
	b := newBed(t, "reneg-sec 2", "hand-window 2", "tran-window 1")
	c := b.dial(address(1), named("alice"))
	c.up()
	c.hasKey(1)
	c.hasKey(2)
	c.close()
	b.eventually("the client is out", func() bool { return b.peers.Len() == 0 })
}

// TestLateEvents of a peer that has gone find nobody.
func TestLateEvents(t *testing.T) {
	b := newBed(t)
	c := b.dial(address(1), named("alice"))
	p := b.peer(c.up())
	b.svc.KillClient(b.svc.Report().Clients[0].ClientID, "")
	b.eventually("the client is out", func() bool { return b.peers.Len() == 0 })
	for _, kind := range []peer.EventType{peer.Gone, peer.Floated, peer.Exited, peer.KeyWanted} {
		b.svc.PeerEvent(peer.Event{Type: kind, Peer: p, Remote: address(9)})
	}
	if name, _, _ := b.svc.Client(p); name != "" {
		t.Errorf("%q has the peer", name)
	}
	if b.svc.KillClient(1<<64-1, "") {
		t.Error("there is no such client")
	}
}
