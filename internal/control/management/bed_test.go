// SPDX-License-Identifier: Apache-2.0

package management

import (
	"bufio"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/status"
)

// moment is the clock of the tests.
var moment = time.Date(2026, 12, 1, 4, 12, 25, 0, time.UTC)

// source is a server with clients that can be killed.
type source struct {
	mu      sync.Mutex
	clients []status.Client
	killed  []string // message after client id
	signals []string
}

func (s *source) Report() status.Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	return status.Report{Title: "ovpn-xdp test", Time: moment, Clients: slices.Clone(s.clients), BytesReceived: 4237, BytesSent: 4301}
}

func (s *source) KillClient(cid uint64, message string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.clients, func(c status.Client) bool { return c.ClientID == cid })
	if i < 0 {
		return false
	}
	s.killed = append(s.killed, s.clients[i].CommonName+":"+message)
	s.clients = slices.Delete(s.clients, i, i+1)
	return true
}

func (s *source) Signal(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.signals = append(s.signals, name)
	return name != "SIGUSR1"
}

func client(cid uint64, cn, real string, tcp bool) status.Client {
	return status.Client{
		CommonName: cn, Real: netip.MustParseAddrPort(real), TCP: tcp, ClientID: cid, PeerID: uint32(cid), Since: moment,
		BytesReceived: 100 * cid, BytesSent: 200 * cid, Cipher: "AES-256-GCM",
	}
}

func someClients() []status.Client {
	return []status.Client{
		client(1, "alice", "10.99.0.2:41008", false),
		client(2, "bob, the b", "[fd99::2]:52852", false),
		client(3, "bob, the b", "[fd99::2]:52853", true),
		client(4, "carol", "[::ffff:10.99.0.2]:41008", true),
	}
}

// socketPath is short enough for a Unix socket wherever tests keep their files.
func socketPath(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ovx")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "m")
}

// serve starts a server, which ends with the test. Change may alter its fields first.
func serve(t *testing.T, cfg Config, change ...func(*Server)) *Server {
	t.Helper()
	if !cfg.Addr.IsValid() && cfg.Unix == "" {
		cfg.Unix = socketPath(t)
	}
	if cfg.Source == nil {
		cfg.Source = &source{clients: someClients()}
	}
	cfg.Title, cfg.Verb = "ovpn-xdp test", func() int { return 3 }
	cfg.Now = func() time.Time { return moment }
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, fn := range change {
		fn(s)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve() }()
	t.Cleanup(func() {
		s.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}

// caller is a client of the interface.
type caller struct {
	t    testing.TB
	conn net.Conn
	r    *bufio.Reader
}

func dial(t testing.TB, network, address string) *caller {
	t.Helper()
	conn, err := net.Dial(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	// No test waits that long; a hang is to say where.
	conn.SetDeadline(time.Now().Add(time.Minute))
	return &caller{t: t, conn: conn, r: bufio.NewReader(conn)}
}

// call connects to a server and reads the greeting.
func call(t testing.TB, s *Server) *caller {
	t.Helper()
	c := dial(t, s.Addr().Network(), s.Addr().String())
	c.expect(">INFO:OpenVPN Management Interface Version 5 -- type 'help' for more info")
	return c
}

func (c *caller) send(text string) {
	c.t.Helper()
	if _, err := c.conn.Write([]byte(text)); err != nil {
		c.t.Fatal(err)
	}
}

// line reads a line; "<end>" is the end of the connection.
func (c *caller) line() string {
	line, err := c.r.ReadString('\n')
	if err != nil {
		if line == "" {
			return "<end>"
		}
		return line
	}
	if !strings.HasSuffix(line, "\r\n") {
		c.t.Errorf("line %q does not end in CR and LF", line)
	}
	return strings.TrimRight(line, "\r\n")
}

func (c *caller) expect(lines ...string) {
	c.t.Helper()
	for _, want := range lines {
		if got := c.line(); got != want {
			c.t.Fatalf("got %q, want %q", got, want)
		}
	}
}

// ask sends a command and returns all that comes before the reply to another
// one, which is known by its error.
func (c *caller) ask(command string) (reply []string) {
	c.t.Helper()
	c.send(command + "\nsignal MARK\n")
	for {
		line := c.line()
		if line == "ERROR: signal 'MARK' is not a known signal type" {
			return reply
		}
		if line == "<end>" {
			return append(reply, line)
		}
		reply = append(reply, line)
	}
}

// empty is a server without clients.
type empty struct{ title string }

func (e empty) Report() status.Report { return status.Report{Title: e.title, Time: moment} }

func (empty) KillClient(uint64, string) bool { return false }

func (empty) Signal(string) bool { return false }
