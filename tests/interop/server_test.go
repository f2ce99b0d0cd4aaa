// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
)

// server is a process that reads a server.conf and serves stock clients. Its
// device is tun0. It can be started again after it ended.
type server interface {
	// start runs it and returns when clients can connect.
	start()
	// stop ends it by SIGTERM and checks that it ended as it should.
	stop()
	// log is what it wrote since its last start.
	log() string
	// process is the running one.
	process() *testlab.Process
	// settings is what it was configured with.
	settings() *settings
	// steered is how many data records came by AF_XDP; ok: it counts them.
	steered() (n uint64, ok bool)
	// stock says that it is a stock OpenVPN, whose known faults are its own.
	stock() bool
}

// kinds of server, as OVPN_XDP_SERVER names them.
const (
	ovpnXDP = "ovpn-xdp"
	stock26 = "stock-2.6"
	stock27 = "stock-2.7"
)

// serverKind is the one to test.
func serverKind(t *testing.T) string {
	t.Helper()
	kind := os.Getenv("OVPN_XDP_SERVER")
	if kind == "" {
		return ovpnXDP
	}
	if !slices.Contains([]string{ovpnXDP, stock26, stock27}, kind) {
		t.Fatalf("OVPN_XDP_SERVER=%q: want %s, %s or %s", kind, ovpnXDP, stock26, stock27)
	}
	return kind
}

// settings are a server's configuration and where it lies.
type settings struct {
	dir    string
	config string // file
	status string // file
}

// configure writes a server.conf that all kinds of server read, with a
// certificate of the authority. lines are added to it; files, by name, are put
// beside it and found by relative paths.
func (d *bed) configure(a *authority, n transport, files map[string]string, lines ...string) *settings {
	d.t.Helper()
	s := &settings{dir: folder(d.t, fmt.Sprintf("%s-s%d", d.lab.ID(), serial.Add(1)))}
	s.status = filepath.Join(s.dir, "status")
	id := a.server(d.t)
	write(d.t, s.dir, "ca.crt", a.pem)
	write(d.t, s.dir, "server.crt", id.cert)
	write(d.t, s.dir, "server.key", id.key)
	for name, text := range files {
		path := write(d.t, s.dir, name, text)
		if strings.HasPrefix(text, "#!") {
			if err := os.Chmod(path, 0o755); err != nil {
				d.t.Fatal(err)
			}
		}
	}
	proto := map[string]string{"udp4": "udp4", "udp6": "udp6", "tcp4": "tcp4-server", "tcp6": "tcp6-server"}[n.String()]
	config := []string{
		"port " + fmt.Sprint(port), "proto " + proto, "dev tun0", "topology subnet",
		"ca ca.crt", "cert server.crt", "key server.key", "dh none",
		"server 10.8.0.0 255.255.255.0", "server-ipv6 fd00:8::/64",
		"status status 1", "status-version 2", "verb 4",
		// Options of the gateway that OpenVPN is told not to mind.
		"ignore-unknown-option xdp-mode xdp-ring-size", "xdp-mode auto", "xdp-ring-size 512",
	}
	if !strings.Contains(strings.Join(lines, "\n"), "keepalive ") {
		config = append(config, "keepalive 10 60")
	}
	s.config = write(d.t, s.dir, "server.conf", strings.Join(append(config, lines...), "\n")+"\n")
	return s
}

// newServer is a server of the kind under test.
func (d *bed) newServer(s *settings) server {
	d.t.Helper()
	return d.newServerOf(serverKind(d.t), s)
}

func (d *bed) newServerOf(kind string, s *settings) server {
	d.t.Helper()
	base := serverProcess{t: d.t, ns: d.server, set: s, name: kind}
	var made server
	if kind == ovpnXDP {
		made = d.newGateway(base)
	} else {
		release := strings.TrimPrefix(kind, "stock-")
		made = &stockServer{serverProcess: base, openvpn: testlab.RequireStockOpenVPN(d.t, release)}
	}
	d.t.Cleanup(func() {
		if made.process() == nil {
			return
		}
		made.process().Stop()
		keep(d.t, kind, made.log())
	})
	return made
}

// serverProcess is what both implementations share.
type serverProcess struct {
	t    *testing.T
	ns   *testlab.Namespace
	name string
	set  *settings
	proc *testlab.Process
}

func (s *serverProcess) log() string               { return s.proc.Output() }
func (s *serverProcess) process() *testlab.Process { return s.proc }
func (s *serverProcess) settings() *settings       { return s.set }

// ready waits until ok, while the process lives.
func (s *serverProcess) ready(ok func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(10 * time.Millisecond) {
		select {
		case <-s.proc.Done():
			s.t.Fatalf("%s ended: %v\n%s", s.name, s.proc.Wait(), s.proc.Output())
		default:
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%s was not ready in %s", s.name, limit)
		}
	}
}

// terminate sends SIGTERM and waits.
func (s *serverProcess) terminate() {
	s.t.Helper()
	s.proc.Signal(unix.SIGTERM)
	select {
	case <-s.proc.Done():
	case <-time.After(limit):
		s.t.Fatalf("%s did not end after SIGTERM", s.name)
	}
}

// stockServer is a stock OpenVPN.
type stockServer struct {
	serverProcess
	openvpn string
}

func (s *stockServer) start() {
	s.t.Helper()
	s.proc = s.ns.Start(s.openvpn, "--cd", s.set.dir, "--config", s.set.config)
	s.ready(func() bool { return strings.Contains(s.log(), connected) })
}

func (s *stockServer) stop() {
	s.t.Helper()
	s.terminate()
	if err := s.proc.Wait(); err != nil {
		s.t.Errorf("%s ended with %v", s.name, err)
	}
}

func (s *stockServer) steered() (uint64, bool) { return 0, false }
func (s *stockServer) stock() bool             { return true }

// session is a client as the server's status file has it.
type session struct {
	name           string // common name, or UNDEF before authentication
	remote         string
	address        netip.Addr
	address6       netip.Addr
	received, sent string // bytes
	user           string
}

// sessions reads the status file (version 2: comma-separated, rows named in the
// first column), which is at most a second old.
func sessions(t *testing.T, s server) (list []session) {
	t.Helper()
	text, err := os.ReadFile(s.settings().status)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSpace(line), ",")
		if f[0] != "CLIENT_LIST" {
			continue
		}
		if len(f) < 10 {
			continue // cut off: the file is being written
		}
		c := session{name: f[1], remote: f[2], received: f[5], sent: f[6], user: f[9]}
		c.address, _ = netip.ParseAddr(f[3])
		c.address6, _ = netip.ParseAddr(f[4])
		list = append(list, c)
	}
	return list
}

// names are the sorted common names of the status file's clients.
func names(t *testing.T, s server) (list []string) {
	t.Helper()
	for _, c := range sessions(t, s) {
		list = append(list, c.name)
	}
	slices.Sort(list)
	return list
}
