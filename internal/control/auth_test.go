// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/keyex"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/session"
)

// command writes an executable shell script.
func command(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(b)
}

// passwords is a configuration that asks a script.
func passwords(t *testing.T, text string, more ...string) []string {
	return append([]string{"script-security 3", "verify-client-cert none",
		"auth-user-pass-verify " + command(t, t.TempDir(), "verify", text) + " via-file"}, more...)
}

func login(user, password string) profile { return profile{username: user, password: password} }

func TestUserAndPassword(t *testing.T) {
	dir := t.TempDir()
	b := newBed(t, passwords(t, `[ "$(sed -n 2p "$1")" = 'pa$(ss)"' ] && exit 0
echo "try again, $username" > "$auth_failed_reason_file"; exit 1
`)...)
	good := b.dial(address(1), login("joe", `pa$(ss)"`))
	good.up()
	if r := b.svc.Report(); r.Clients[0].CommonName != "joe" || r.Clients[0].Username != "joe" {
		t.Errorf("%+v", r.Clients)
	}
	b.dial(address(2), login("eve", "x")).fails("AUTH_FAILED,try again, eve")
	b.dial(address(3), login("long", strings.Repeat("x", 3000))).fails("AUTH_FAILED")
	none := b.dial(address(4), profile{})
	none.fails("AUTH_FAILED")
	b.logged("sent no username and password")
	_ = dir
}

// TestNobodyWaitsForAnother: a command that takes its time delays its own client alone.
func TestNobodyWaitsForAnother(t *testing.T) {
	dir := t.TempDir()
	gate := filepath.Join(dir, "open")
	b := newBed(t, passwords(t, fmt.Sprintf(`[ "$(sed -n 1p "$1")" = slow ] || exit 0
while [ ! -e %s ]; do sleep 0.05; done
exit 0
`, gate))...)
	slow := b.dial(address(1), login("slow", "x"))
	b.logged("session begins")
	for n := 2; n < 6; n++ {
		b.dial(address(n), login(fmt.Sprint("quick", n), "x")).up()
	}
	if slow.option("peer-id") != "" {
		t.Fatal("the slow one is connected already")
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	slow.up()
}

// TestDeferredAnswer: the script ends and answers later.
func TestDeferredAnswer(t *testing.T) {
	b := newBed(t, passwords(t, `printf '60\nopenurl\nOPEN_URL::https://login.example\n' > "$auth_pending_file"
(sleep 0.5; [ "$(sed -n 1p "$1" 2>/dev/null; echo "$username")" ] ; case $username in yes) echo 1;; *) echo 0;; esac > "$auth_control_file") >/dev/null 2>&1 &
exit 2
`)...)
	yes, no := b.dial(address(1), login("yes", "x")), b.dial(address(2), login("no", "x"))
	yes.up()
	if !yes.heard("AUTH_PENDING,timeout 60") || !yes.heard("INFO_PRE,OPEN_URL::https://login.example") {
		t.Errorf("said %q", yes.said)
	}
	no.fails("AUTH_FAILED")
}

func TestTokenReplacesPassword(t *testing.T) {
	count := filepath.Join(t.TempDir(), "count")
	b := newBed(t, passwords(t, "echo x >> "+count+"\nexit 0\n", "auth-gen-token 3600")...)
	c := b.dial(address(1), login("joe", "secret"))
	c.up()
	token := c.option("auth-token")
	if !keyex.IsToken(token) {
		t.Fatalf("pushed %q", c.pushed)
	}
	again := b.dial(address(2), login("joe", token))
	again.up()
	if asked := read(t, count); asked != "x\n" {
		t.Errorf("the script was asked %d times", len(asked)/2)
	}
	b.dial(address(3), login("eve", token)).fails("AUTH_FAILED")
}

// TestIdentityIsLocked: nobody becomes another one by renegotiating.
func TestIdentityIsLocked(t *testing.T) {
	b := newBed(t, passwords(t, "exit 0\n")...)
	c := b.dial(address(1), login("joe", "x"))
	c.up()
	i := b.svc.clients()[0]
	i.mu.Lock()
	i.client.username = "somebody else"
	i.mu.Unlock()
	c.session(func(s *session.Session) { s.Renegotiate(time.Now()) })
	b.eventually("the client is out", func() bool { return b.peer("10.8.0.2") == nil })
	b.logged("attempted to change its username")
}

// TestClientScripts: connect and disconnect come in order, also when a new session
// replaces an old one, and what connect writes counts.
func TestClientScripts(t *testing.T) {
	dir := t.TempDir()
	trace := filepath.Join(dir, "trace")
	b := newBed(t, "script-security 2",
		"client-connect "+command(t, dir, "connect", `echo "connect $common_name $ifconfig_pool_remote_ip" >> `+trace+`
case $common_name in
no) exit 1;;
off) echo disable > "$1";;
*) echo 'push "dhcp-option DNS 10.8.0.53"' > "$1"; echo 'ifconfig-push 10.8.0.40 255.255.255.0' >> "$1";;
esac
`),
		"client-disconnect "+command(t, dir, "disconnect", "sleep 0.2; echo \"disconnect $common_name $ifconfig_pool_remote_ip ${time_duration:+t} ${bytes_received:+b}\" >> "+trace+"\n"),
		"learn-address "+command(t, dir, "learn", "echo \"learn $*\" >> "+trace+"\n"))
	c := b.dial(address(1), named("alice"))
	if addr := c.up(); addr != "10.8.0.40" || c.option("dhcp-option") != "DNS 10.8.0.53" {
		t.Errorf("%s, %q", addr, c.pushed)
	}
	b.dial(address(2), named("alice")).up()
	b.eventually("all have run", func() bool { return strings.Count(read(t, trace), "learn add") == 2 })
	got := strings.Split(strings.TrimSpace(read(t, trace)), "\n")
	want := []string{"connect alice 10.8.0.2", "learn add 10.8.0.40 alice", "disconnect alice 10.8.0.40 t b", "learn delete 10.8.0.40", "connect alice 10.8.0.2", "learn add 10.8.0.40 alice"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("ran\n%s", strings.Join(got, "\n"))
	}
	b.dial(address(3), named("no")).fails("AUTH_FAILED")
	b.dial(address(4), named("off")).fails("AUTH_FAILED")
	if n := b.svc.books.count(); n != 1 {
		t.Errorf("%d leases, want one", n)
	}
}

// TestClientLeavesWhileScriptRuns: what it would have got is not lost.
func TestClientLeavesWhileScriptRuns(t *testing.T) {
	dir := t.TempDir()
	trace := filepath.Join(dir, "trace")
	b := newBed(t, "script-security 2", "hand-window 3",
		"client-connect "+command(t, dir, "connect", "echo begins >> "+trace+"; sleep 30\n"))
	c := b.dial(address(1), named("alice"))
	b.eventually("client-connect runs", func() bool { return read(t, trace) != "" })
	c.say(keyex.Exit)
	b.eventually("the address is free", func() bool { return b.svc.books.count() == 0 })
}

// TestLateVerdict: the answer about an exchange that has failed meanwhile is about
// nothing, and the client goes on with the key it has.
func TestLateVerdict(t *testing.T) {
	dir := t.TempDir()
	first, open := filepath.Join(dir, "first"), filepath.Join(dir, "open")
	b := newBed(t, passwords(t, fmt.Sprintf(`[ -e %[1]s ] || { touch %[1]s; exit 0; }
printf '600\nwebauth\n' > "$auth_pending_file"
(while [ -e %[1]s ] && [ ! -e %[2]s ]; do sleep 0.05; done; printf 1 > "$auth_control_file") >/dev/null 2>&1 &
exit 2
`, first, open), "hand-window 2")...)
	p := login("joe", "x")
	p.window = 2 * time.Second
	c := b.dial(address(1), p)
	addr := c.up()
	c.session(func(s *session.Session) { s.Renegotiate(time.Now()) })
	b.logged("renegotiation failed")
	if err := os.WriteFile(open, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b.eventually("a later renegotiation succeeds", func() bool {
		p := b.peer(addr)
		if p == nil {
			t.Fatal("the client was thrown out")
		}
		k := p.PrimaryKey()
		c.session(func(s *session.Session) { s.Renegotiate(time.Now()) })
		return k != nil && k.ID > 0
	})
}

// TestReloadWithoutTokens: who has a token still is no trouble to a gateway that gives
// none any more.
func TestReloadWithoutTokens(t *testing.T) {
	options := passwords(t, "exit 0\n")
	b := newBed(t, append(options, "auth-gen-token 3600")...)
	c := b.dial(address(1), login("joe", "x"))
	c.up()
	if err := b.svc.Reload(configuration(t, options...)); err != nil {
		t.Fatal(err)
	}
	i := b.svc.clients()[0]
	done := make(chan struct{})
	i.post(func(now time.Time) { i.renewToken(now); close(done) })
	<-done
	if b.peer("10.8.0.2") == nil {
		t.Error("the client is gone")
	}
}

// TestReloadOfTokenTimes: a token from before is good, for as long as is now said.
func TestReloadOfTokenTimes(t *testing.T) {
	options := passwords(t, "exit 0\n")
	b := newBed(t, append(options, "auth-gen-token 3600")...)
	c := b.dial(address(1), login("joe", "x"))
	c.up()
	before, token := b.svc.set.Load().tokens, c.option("auth-token")
	if err := b.svc.Reload(configuration(t, append(options, "auth-gen-token 60")...)); err != nil {
		t.Fatal(err)
	}
	after, now := b.svc.set.Load().tokens, time.Now()
	if _, err := after.Check("joe", token, now); err != nil {
		t.Errorf("a token from before: %v", err)
	}
	if _, err := before.Check("joe", token, now.Add(2*time.Minute)); err != nil {
		t.Errorf("before, after two minutes: %v", err)
	}
	if _, err := after.Check("joe", token, now.Add(2*time.Minute)); err != keyex.ErrTokenExpired {
		t.Errorf("now, after two minutes: %v", err)
	}
}

// TestUnfitUsernames are names that the command would hear otherwise than others
// read them, and such as are too long: with username-as-common-name nobody, else nameless.
func TestUnfitUsernames(t *testing.T) {
	strict := newBed(t, passwords(t, "exit 0\n", "username-as-common-name")...)
	lax := newBed(t, passwords(t, "exit 0\n")...)
	for n, user := range []string{"jo\xffe", "jo\u0085e", strings.Repeat("j", 65), strings.Repeat("j", 4000)} {
		strict.dial(address(n+1), login(user, "x")).fails(keyex.AuthFailed)
		lax.dial(address(n+1), login(user, "x")).up()
	}
	strict.dial(address(10), login(strings.Repeat("j", 64), "x")).up()
	for _, c := range lax.svc.Report().Clients {
		if c.CommonName != unnamed {
			t.Errorf("client is called %q", c.CommonName)
		}
	}
}

// TestNoUsername: a password alone is nobody's.
func TestNoUsername(t *testing.T) {
	b := newBed(t, passwords(t, "exit 0\n")...)
	b.dial(address(1), login("", "x")).fails("AUTH_FAILED")
}
