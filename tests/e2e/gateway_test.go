// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/internal/admin"
	"github.com/ovpn-xdp/ovpn-xdp/internal/netdev"
	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
)

// pinRoot is where gateways started without --pin-dir pin their maps.
const pinRoot = "/sys/fs/bpf/ovpn-xdp"

// gateway is one `ovpn-xdp run` in a namespace.
type gateway struct {
	t     *testing.T
	ns    *testlab.Namespace
	name  string
	dir   string // run and state folder, kept across restarts
	dev   string
	nics  []string
	args  []string
	wrap  []string // command in front of the binary
	ready string
	proc  *testlab.Process
}

// newGateway describes a gateway named <lab>-<suffix>; start runs it. nics may
// be empty. args are further arguments of run.
func newGateway(t *testing.T, lab *testlab.Lab, ns *testlab.Namespace, suffix string, nics []string, args ...string) *gateway {
	t.Helper()
	g := &gateway{t: t, ns: ns, name: lab.ID() + "-" + suffix, dev: "tun0", nics: nics, args: args}
	g.dir = filepath.Join(scratch, g.name)
	g.ready = filepath.Join(g.dir, "ready")
	if err := os.MkdirAll(g.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() && g.proc != nil {
			t.Logf("log of %s:\n%s", g.name, tail(g.proc.Output(), 6000))
		}
		// The process ends with the lab, which was made before and is closed later.
		if g.proc != nil {
			g.proc.Stop()
		}
		os.RemoveAll(filepath.Join(pinRoot, g.name))
		os.RemoveAll(g.dir)
	})
	return g
}

func tail(s string, n int) string {
	if len(s) > n {
		return "..." + s[len(s)-n:]
	}
	return s
}

// command is the whole command line of run, without nsenter.
func (g *gateway) command() []string {
	g.t.Helper()
	args := append([]string{}, g.wrap...)
	args = append(args, mustProgram(g.t), "run", "--name", g.name, "--run-dir", g.dir, "--state-dir", g.dir,
		"--ready-file", g.ready, "--dev", g.dev, "--log-level", "debug")
	for _, nic := range g.nics {
		args = append(args, "--nic", nic)
	}
	return append(args, g.args...)
}

// start runs the gateway and returns when traffic can flow.
func (g *gateway) start() *gateway {
	g.t.Helper()
	args := g.command()
	g.proc = g.ns.Start(args[0], args[1:]...)
	for deadline := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(g.ready); err == nil {
			return g
		}
		select {
		case <-g.proc.Done():
			g.t.Fatalf("%s ended: %v\n%s", g.name, g.proc.Wait(), g.proc.Output())
		default:
		}
		if time.Now().After(deadline) {
			g.t.Fatalf("%s did not become ready in %s", g.name, limit)
		}
	}
}

// refused runs a gateway that must not start, and returns its exit code and
// what it wrote. Nothing of it may be left.
func (g *gateway) refused() (code int, text string) {
	g.t.Helper()
	args := g.command()
	proc := g.ns.Start(args[0], args[1:]...)
	select {
	case <-proc.Done():
	case <-time.After(limit):
		g.t.Fatalf("%s neither refused nor ended:\n%s", g.name, proc.Output())
	}
	exit, isExit := errors.AsType[*exec.ExitError](proc.Wait())
	if !isExit {
		g.t.Fatalf("%s was to be refused and ended with %v:\n%s", g.name, proc.Wait(), proc.Output())
	}
	if strings.Contains(proc.Output(), "panic") || strings.Contains(proc.Output(), "goroutine ") {
		g.t.Errorf("%s panicked:\n%s", g.name, proc.Output())
	}
	return exit.ExitCode(), proc.Output()
}

// kill ends the gateway as a crash does.
func (g *gateway) kill() {
	g.t.Helper()
	g.proc.Signal(unix.SIGKILL)
	<-g.proc.Done()
	os.Remove(g.ready)
}

// stop ends the gateway in order: exit code 0, no data race seen, and nothing left.
func (g *gateway) stop() {
	g.t.Helper()
	g.proc.Signal(unix.SIGTERM)
	select {
	case <-g.proc.Done():
	case <-time.After(limit):
		g.t.Fatalf("%s did not end after SIGTERM", g.name)
	}
	if err := g.proc.Wait(); err != nil {
		g.t.Errorf("%s ended with %v, want exit code 0", g.name, err)
	}
	if out := g.proc.Output(); strings.Contains(out, "DATA RACE") || strings.Contains(out, "panic") {
		g.t.Errorf("%s: race or panic:\n%s", g.name, out)
	}
	g.nothingLeft()
}

// nothingLeft checks everything that a gateway makes outside its process.
func (g *gateway) nothingLeft() {
	g.t.Helper()
	for _, path := range []string{filepath.Join(pinRoot, g.name), filepath.Join(g.dir, g.name+".sock"), g.ready} {
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			g.t.Errorf("%s left %s behind (%v)", g.name, path, err)
		}
	}
	g.noDevicesLeft()
}

func (g *gateway) noDevicesLeft() {
	g.t.Helper()
	g.ns.Do(func() {
		links, err := netdev.Links()
		if err != nil {
			g.t.Fatal(err)
		}
		for _, l := range links {
			if l.Name == g.dev || strings.HasPrefix(l.Name, "ovx-") {
				g.t.Errorf("%s left device %s behind", g.name, l.Name)
			}
			for _, nic := range g.nics {
				if l.Name != nic {
					continue
				}
				if l.XDP.Attached {
					g.t.Errorf("%s left XDP program %d on %s", g.name, l.XDP.ProgID, nic)
				}
				if filters, err := netdev.ClsactFilters(l.Index); err != nil || len(filters) > 0 {
					g.t.Errorf("%s left filters on %s: %v, %v", g.name, nic, filters, err)
				}
			}
		}
	})
}

// try runs a command that asks the gateway.
func (g *gateway) try(args ...string) (stdout, stderr string, code int) {
	g.t.Helper()
	cmd := exec.Command(mustProgram(g.t), append(args, "--name", g.name, "--run-dir", g.dir)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if _, isExit := errors.AsType[*exec.ExitError](err); err != nil && !isExit {
		g.t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// do runs a command that must succeed, and returns its stdout.
func (g *gateway) do(args ...string) string {
	g.t.Helper()
	out, errs, code := g.try(args...)
	if code != 0 {
		g.t.Fatalf("%s: ovpn-xdp %s: exit code %d\n%s", g.name, strings.Join(args, " "), code, errs)
	}
	return out
}

// deny runs a command that must fail with exit code 1, a message that has
// part in it, and no effect on the gateway's life.
func (g *gateway) deny(part string, args ...string) {
	g.t.Helper()
	_, errs, code := g.try(args...)
	if code != 1 || !strings.Contains(errs, part) {
		g.t.Errorf("%s: ovpn-xdp %s: exit code %d, %q; want 1 and %q", g.name, strings.Join(args, " "), code, errs, part)
	}
}

func decode[T any](t *testing.T, text string) *T {
	t.Helper()
	v := new(T)
	if err := json.Unmarshal([]byte(text), v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

// status is what `status --json` says at this moment.
func (g *gateway) status() *admin.Status {
	g.t.Helper()
	s := decode[admin.Status](g.t, g.do("status", "--json"))
	if s.Version != 1 {
		g.t.Fatalf("status has version %d", s.Version)
	}
	return s
}

// nic is the gateway's NIC of that name.
func (g *gateway) nic(s *admin.Status, name string) *admin.NIC {
	g.t.Helper()
	for i := range s.NICs {
		if s.NICs[i].Name == name {
			return &s.NICs[i]
		}
	}
	g.t.Fatalf("status of %s has no NIC %s", g.name, name)
	return nil
}

// peer is `peer get --json`.
func (g *gateway) peer(id string) *admin.Peer {
	g.t.Helper()
	return &decode[struct{ Peer admin.Peer }](g.t, g.do("peer", "get", id, "--json")).Peer
}

// outward are the reasons for which packets from the TUN are dropped; all
// others in `drops` are about records.
var outward = map[string]bool{
	"no_route": true, "no_peer_key": true, "id_exhausted": true, "bad_gso": true,
	"send_error": true, "message_size": true, "no_endpoint": true,
}

// imbalance is what a status' inward counters lack to add up: records that
// came less those that met an end.
func imbalance(s *admin.Status) int64 {
	in := &s.Totals.In
	n := int64(in.Steered) + int64(in.Socket) - int64(in.Delivered) - int64(in.Keepalive) - int64(in.InFlight)
	for reason, drops := range s.Totals.Drops {
		if !outward[reason] {
			n -= int64(drops)
		}
	}
	return n
}

// settled waits until no record is in flight and returns a status in which
// every record has met exactly one end.
func (g *gateway) settled() *admin.Status {
	g.t.Helper()
	var s *admin.Status
	for deadline := time.Now().Add(limit / 6); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if s = g.status(); s.Totals.In.InFlight == 0 && imbalance(s) == 0 {
			return s
		}
	}
	text, _ := json.MarshalIndent(s.Totals, "", " ")
	g.t.Fatalf("%s: counters do not add up: %d in flight, %d unaccounted for\n%s", g.name, s.Totals.In.InFlight, imbalance(s), text)
	return nil
}
