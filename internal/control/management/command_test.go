// SPDX-License-Identifier: Apache-2.0

package management

import (
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/status"
)

func TestReplies(t *testing.T) {
	const twoParts = "1796098345,CONNECTING,,,,,,\n1796098345,CONNECTED,SUCCESS,10.8.0.1,,,,,fd08::1\n"
	for command, want := range map[string]string{
		"":                        "",
		"  \t":                    "",
		"foo":                     "ERROR: unknown command, enter 'help' for more options",
		"STATUS":                  "ERROR: unknown command, enter 'help' for more options",
		"foo\x1b[2J":              "ERROR: unknown command, enter 'help' for more options",
		"client-auth 1 1":         "ERROR: the 'client-auth' command is not supported by this server",
		"pid":                     "SUCCESS: pid=" + strconv.Itoa(os.Getpid()),
		"version":                 "OpenVPN Version: ovpn-xdp test\nManagement Version: 5\nEND",
		"version 5":               "",
		"nclients":                "SUCCESS: nclients=4",
		"load-stats":              "SUCCESS: nclients=4,bytesin=4237,bytesout=4301",
		"verb":                    "SUCCESS: verb=3",
		"verb 4":                  "ERROR: verb is set in the configuration; change it there and reload",
		"mute":                    "SUCCESS: mute=0",
		"mute 3":                  "ERROR: log lines are not muted",
		"hold":                    "SUCCESS: hold=0",
		"hold off":                "SUCCESS: hold flag set to OFF",
		"hold release":            "SUCCESS: hold release succeeded",
		"hold on":                 "ERROR: the server cannot be held",
		"status 4":                "ERROR: bad status format version number",
		"status -1":               "ERROR: bad status format version number",
		"state":                   "1796098345,CONNECTED,SUCCESS,10.8.0.1,,,,,fd08::1\nEND",
		"state all":               twoParts + "END",
		"state 5 on":              twoParts + "END\nSUCCESS: real-time state notification set to ON",
		"state on 1 2":            "SUCCESS: real-time state notification set to ON\n1796098345,CONNECTED,SUCCESS,10.8.0.1,,,,,fd08::1\nEND",
		"state 0":                 "ERROR: state parameter must be 'on' or 'off' or some number n or 'all'",
		"state off x":             "SUCCESS: real-time state notification set to OFF\nERROR: state parameter must be 'on' or 'off' or some number n or 'all'",
		"log":                     "ERROR: the 'log' command requires at least 1 parameter",
		"log all":                 "END",
		"log 99999999999":         "END",
		"log -3":                  "ERROR: log parameter must be 'on' or 'off' or some number n or 'all'",
		"echo on all":             "SUCCESS: real-time echo notification set to ON\nEND",
		"bytecount":               "ERROR: the 'bytecount' command requires 1 parameter",
		"bytecount 0 x":           "SUCCESS: bytecount interval changed",
		"bytecount x":             "ERROR: bytecount parameter must be a number of seconds, at most 86400",
		"bytecount 100000":        "ERROR: bytecount parameter must be a number of seconds, at most 86400",
		"signal":                  "ERROR: the 'signal' command requires 1 parameter",
		"signal SIGHUP":           "SUCCESS: signal SIGHUP thrown",
		"signal SIGUSR1":          "ERROR: signal 'SIGUSR1' is currently ignored",
		"signal sigterm":          "ERROR: signal 'sigterm' is not a known signal type",
		"signal SIGKILL":          "ERROR: signal 'SIGKILL' is not a known signal type",
		"kill \"x":                `ERROR: split command "kill \"x": a double quote is not closed`,
		strings.Repeat("x ", 600): "ERROR: a command has at most 1024 bytes",
		"client-kill 1 " + strings.Repeat("y", 256): "ERROR: the message has to be at most 255 bytes of ASCII",
		"client-kill 1 H\u00e4lt":                   "ERROR: the message has to be at most 255 bytes of ASCII",
		"client-kill":                               "ERROR: the 'client-kill' command requires at least 1 parameter",
		"client-kill x":                             "ERROR: cannot parse CID",
		"client-kill -1":                            "ERROR: cannot parse CID",
		"client-kill 99":                            "ERROR: client-kill command failed",
		strings.Repeat("x", maxLine):                "ERROR: unknown command, enter 'help' for more options",
		strings.Repeat("x", maxLine+1):              "ERROR: a command has at most 1024 bytes",
		strings.Repeat("x", 100000) + "\r":          "ERROR: a command has at most 1024 bytes",
		"pid\r":                                     "SUCCESS: pid=" + strconv.Itoa(os.Getpid()),
		"kill " + strings.Repeat("'a' ", 40):        `ERROR: split command "kill ` + strings.Repeat("'a' ", 24)[:95] + `...": it has 41 words, and OpenVPN reads 16`,
		"kill":                                      "ERROR: the 'kill' command requires 1 parameter",
		"quit":                                      "<end>",
		"exit":                                      "<end>",
	} {
		name, _, _ := strings.Cut(command, "\n")
		t.Run(name[:min(len(name), 40)], func(t *testing.T) {
			s := serve(t, Config{})
			s.SetState(State{Time: moment, Name: "CONNECTING"})
			connected(s)
			got := strings.Join(call(t, s).ask(command), "\n")
			if got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestStatusIsTheFile(t *testing.T) {
	s := serve(t, Config{})
	c := call(t, s)
	for command, version := range map[string]int{"status": 1, "status x": 1, "status 1": 1, "status 2": 2, "status 3 9": 3} {
		want, err := status.Append(nil, version, s.cfg.Source.Report())
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(c.ask(command), "\n") + "\n"; got != string(want) {
			t.Errorf("%s:\n%s\nwant\n%s", command, got, want)
		}
	}
}

func TestHelpNamesEveryCommand(t *testing.T) {
	reply := call(t, serve(t, Config{})).ask("help")
	if reply[0] != "Management Interface for ovpn-xdp test" || reply[len(reply)-1] != "END" {
		t.Errorf("help is %q", reply)
	}
	for _, k := range commands {
		if !slices.ContainsFunc(reply, func(line string) bool { return strings.HasPrefix(line, k.name+" ") }) {
			t.Errorf("help doesn't know %s", k.name)
		}
		if slices.Contains(unsupported, k.name) {
			t.Errorf("%s is answered and unsupported", k.name)
		}
	}
}

func TestKill(t *testing.T) {
	for _, test := range []struct {
		command, reply string
		killed         []string
	}{
		{"kill alice", "SUCCESS: common name 'alice' found, 1 client(s) killed", []string{"alice:"}},
		{`kill "bob, the b"`, "SUCCESS: common name 'bob, the b' found, 2 client(s) killed", []string{"bob, the b:", "bob, the b:"}},
		{"kill bob", "ERROR: common name 'bob' not found", nil},
		{"kill 'a\x01b'", "ERROR: common name 'a_b' not found", nil},
		{"kill 10.99.0.2", "ERROR: common name '10.99.0.2' not found", nil},
		{"kill 10.99.0.2:41008", "SUCCESS: 2 client(s) at address 10.99.0.2:41008 killed", []string{"alice:", "carol:"}},
		{"kill udp:10.99.0.2:41008", "SUCCESS: 1 client(s) at address udp:10.99.0.2:41008 killed", []string{"alice:"}},
		{"kill tcp-server:10.99.0.2:41008", "SUCCESS: 1 client(s) at address tcp-server:10.99.0.2:41008 killed", []string{"carol:"}},
		{"kill 10.99.0.2:41009", "ERROR: client at address 10.99.0.2:41009 not found", nil},
		{"kill [fd99::2]:52853", "SUCCESS: 1 client(s) at address [fd99::2]:52853 killed", []string{"bob, the b:"}},
		{"kill udp6:[fd99::2]:52853", "ERROR: client at address udp6:[fd99::2]:52853 not found", nil},
		{"kill fd99::2", "SUCCESS: 2 client(s) at address fd99::2 killed", []string{"bob, the b:", "bob, the b:"}},
		{"kill fd99::3", "ERROR: client at address fd99::3 not found", nil},
		{"kill 10.99.0.2:x", "ERROR: common name '10.99.0.2:x' not found", nil},
		{"client-kill 1", "SUCCESS: client-kill command succeeded", []string{"alice:RESTART"}},
		{"client-kill 4 HALT", "SUCCESS: client-kill command succeeded", []string{"carol:HALT"}},
		{"client-kill 4 RESTART,[N] x", "SUCCESS: client-kill command succeeded", []string{"carol:RESTART,[N]"}},
	} {
		src := &source{clients: someClients()}
		reply := call(t, serve(t, Config{Source: src})).ask(test.command)
		if len(reply) != 1 || reply[0] != test.reply || !slices.Equal(src.killed, test.killed) {
			t.Errorf("%s: reply %q, killed %q; want %q, %q", test.command, reply, src.killed, test.reply, test.killed)
		}
	}
}

func TestByteCount(t *testing.T) {
	src := &source{clients: someClients()[:2]}
	c := call(t, serve(t, Config{Source: src}))
	c.send("bytecount 1\n")
	c.expect("SUCCESS: bytecount interval changed", ">BYTECOUNT_CLI:1,100,200", ">BYTECOUNT_CLI:2,200,400", ">BYTECOUNT_CLI:1,100,200")
}

// Nothing that is typed can make a reply that is not lines of printable text.
func FuzzCommand(f *testing.F) {
	for _, seed := range []string{"status 3", "kill 'x", "kill \xff", "log on all", "state 9 off", "bytecount 1", "client-kill 1 \x00", "help", `kill "a\`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		out := &recorder{}
		s := &Server{cfg: Config{Source: &source{clients: someClients()}, Title: "t", Log: NewLog(1), Now: func() time.Time { return moment }}, log: quiet, patience: time.Second}
		c := newConversation(s, out)
		c.command(request{text: text})
		if c.tick != nil {
			c.tick.Stop()
		}
		if out.text == "" {
			return
		}
		lines := strings.Split(out.text, "\r\n")
		if lines[len(lines)-1] != "" {
			t.Fatalf("reply %q does not end in a line end", out.text)
		}
		for _, line := range lines {
			if printed := strings.ReplaceAll(line, "\t", " "); printed != visible(printed) { // version 3 has tabs
				t.Fatalf("line %q is not printable", line)
			}
		}
	})
}

// recorder is a connection that keeps what is written.
type recorder struct {
	net.Conn
	text string
}

func (r *recorder) Write(b []byte) (int, error) {
	r.text += string(b)
	return len(b), nil
}

func (r *recorder) SetWriteDeadline(time.Time) error { return nil }
