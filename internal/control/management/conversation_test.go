// SPDX-License-Identifier: Apache-2.0

package management

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
)

var quiet = slog.New(slog.DiscardHandler)

func connected(s *Server) {
	s.SetState(State{Time: moment, Name: "CONNECTED", Detail: "SUCCESS", Tunnel4: netip.MustParseAddr("10.8.0.1"), Tunnel6: netip.MustParseAddr("fd08::1")})
}

// record gives a log a line at the tests' time.
func record(l *Log, message string, attrs ...any) {
	r := slog.NewRecord(moment, slog.LevelWarn, message, 0)
	r.Add(attrs...)
	_ = l.Handler(slog.DiscardHandler).Handle(context.Background(), r)
}

func TestRealTimeLines(t *testing.T) {
	log := NewLog(0)
	s := serve(t, Config{Log: log})
	c := call(t, s)
	record(log, "before")
	c.send("state on\nlog on all\n")
	c.expect("SUCCESS: real-time state notification set to ON", "SUCCESS: real-time log notification set to ON", "1796098345,W,before", "END")
	record(log, "after", "client", "a b")
	c.expect(`>LOG:1796098345,W,after client="a b"`)
	connected(s)
	c.expect(">STATE:1796098345,CONNECTED,SUCCESS,10.8.0.1,,,,,fd08::1")
	c.send("log off\nstate off\n")
	c.expect("SUCCESS: real-time log notification set to OFF", "SUCCESS: real-time state notification set to OFF")
	record(log, "unheard")
	connected(s)
	c.send("log 1\n")
	c.expect("1796098345,W,unheard", "END")
}

// What one client asked to be told does not go on for the next.
func TestNextClientStartsAnew(t *testing.T) {
	log := NewLog(0)
	s := serve(t, Config{Log: log})
	first := call(t, s)
	first.send("log on\nstate on\nquit\n")
	first.expect("SUCCESS: real-time log notification set to ON", "SUCCESS: real-time state notification set to ON", "<end>")
	second := call(t, s)
	record(log, "line")
	connected(s)
	second.send("pid\n")
	second.expect(fmt.Sprintf("SUCCESS: pid=%d", os.Getpid()))
}

func TestOneAtATime(t *testing.T) {
	s := serve(t, Config{})
	first := call(t, s)
	second := dial(t, "unix", s.Addr().String())
	second.send("nclients\n")
	first.send("nclients\nquit\n")
	first.expect("SUCCESS: nclients=4", "<end>")
	second.expect(">INFO:OpenVPN Management Interface Version 5 -- type 'help' for more info", "SUCCESS: nclients=4")
}

func TestPassword(t *testing.T) {
	s := serve(t, Config{Password: "secret"}, func(s *Server) { s.pause = 0 })
	c := dial(t, "unix", s.Addr().String())
	c.send("wrong\n\n" + strings.Repeat("x", 5000) + "\nsecret\npid\n")
	c.expect(strings.Repeat("ENTER PASSWORD:", 3))

	c = dial(t, "unix", s.Addr().String())
	c.send("secretx\nsecret\r\nnclients\n")
	c.expect("ENTER PASSWORD:ENTER PASSWORD:SUCCESS: password is correct",
		">INFO:OpenVPN Management Interface Version 5 -- type 'help' for more info", "SUCCESS: nclients=4")
}

func TestReadPassword(t *testing.T) {
	for content, want := range map[string]string{
		"secret": "secret", "secret\nmore\n": "secret", "two words\r\n": "two words",
		"": "", "\nsecret": "", strings.Repeat("x", maxPassword+1): "", strings.Repeat("x", maxPassword): strings.Repeat("x", maxPassword),
	} {
		path := filepath.Join(t.TempDir(), "pw")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := ReadPassword(path)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%.20q: %.20q, %v", content, got, err)
		}
	}
	if _, err := ReadPassword("/nonexistent"); err == nil {
		t.Error("no error for a file that is not there")
	}
}

// A client that asks and does not read loses its connection, and the next is served.
func TestClientThatDoesNotRead(t *testing.T) {
	src := &source{}
	for i := range 20000 {
		src.clients = append(src.clients, client(uint64(i), fmt.Sprint("client", i), "192.0.2.1:1194", false))
	}
	s := serve(t, Config{Source: src}, func(s *Server) { s.patience = 50 * time.Millisecond })
	c := call(t, s)
	c.send("status 3\n")
	call(t, s).ask("nclients")
	for c.line() != "END" {
		if _, err := c.r.Peek(1); err != nil {
			return
		}
	}
	t.Error("2 MB were kept for a client that didn't read")
}

// Lines that come faster than they are read are counted and left out.
func TestTooManyLines(t *testing.T) {
	out := &recorder{}
	c := newConversation(&Server{cfg: Config{Now: func() time.Time { return moment }}, patience: time.Second}, out)
	for i := range maxNotes + 7 {
		c.note(fmt.Sprint(">LOG:", i))
	}
	c.flush()
	lines := strings.Split(out.text, "\r\n")
	if len(lines) != maxNotes+2 || lines[maxNotes-1] != fmt.Sprint(">LOG:", maxNotes-1) ||
		lines[maxNotes] != ">LOG:1796098345,W,7 lines were left out, since they were read too slowly" {
		t.Errorf("%d lines, the last %q", len(lines), lines[len(lines)-3:])
	}
}

func TestCloseEndsConversation(t *testing.T) {
	s := serve(t, Config{Password: "secret"})
	c := dial(t, "unix", s.Addr().String())
	if _, err := c.r.Peek(len("ENTER PASSWORD:")); err != nil {
		t.Fatal(err)
	}
	s.Close()
	s.Close()
	c.expect("ENTER PASSWORD:", "<end>")
	if _, err := os.Stat(s.Addr().String()); !os.IsNotExist(err) {
		t.Errorf("socket is still there: %v", err)
	}
}

func TestCloseWithoutServe(t *testing.T) {
	s, err := New(Config{Unix: socketPath(t), Source: &source{}})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if err := s.Serve(); err != nil {
		t.Errorf("serve after close: %v", err)
	}
}

func TestTCP(t *testing.T) {
	ns := testlab.New(t).Namespace("m")
	var s *Server
	var c *caller
	ns.Do(func() {
		s = serve(t, Config{Addr: netip.MustParseAddrPort("127.0.0.1:0")})
		c = dial(t, "tcp", s.Addr().String())
	})
	c.expect(">INFO:OpenVPN Management Interface Version 5 -- type 'help' for more info")
	if got := c.ask("nclients"); len(got) != 1 || got[0] != "SUCCESS: nclients=4" {
		t.Errorf("reply is %q", got)
	}
}
