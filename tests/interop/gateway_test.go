// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/ovpn-xdp/ovpn-xdp/internal/admin"
	"github.com/ovpn-xdp/ovpn-xdp/internal/netdev"
)

// pinRoot is where gateways started without --pin-dir pin their maps.
const pinRoot = "/sys/fs/bpf/ovpn-xdp"

// gateway is the binary under test.
type gateway struct {
	serverProcess
	id    string // name of pins and socket
	ready string // file
}

func (d *bed) newGateway(base serverProcess) *gateway {
	// 15 bytes at most; a bed has no two gateways at the same time.
	g := &gateway{serverProcess: base, id: d.lab.ID() + "-g"}
	g.ready = filepath.Join(base.set.dir, "ready")
	d.t.Cleanup(func() { os.RemoveAll(filepath.Join(pinRoot, g.id)) })
	return g
}

func (g *gateway) start() {
	g.t.Helper()
	g.proc = g.ns.Start(mustProgram(g.t), "run", "--cd", g.set.dir, "--config", g.set.config, "--nic", "eth0", "--name", g.id,
		"--run-dir", g.set.dir, "--state-dir", g.set.dir, "--ready-file", g.ready)
	g.serverProcess.ready(func() bool {
		_, err := os.Stat(g.ready)
		return err == nil
	})
}

func (g *gateway) stop() {
	g.t.Helper()
	g.terminate()
	if err := g.proc.Wait(); err != nil {
		g.t.Errorf("%s ended with %v, want exit code 0", g.name, err)
	}
	if log := g.log(); strings.Contains(log, "DATA RACE") || strings.Contains(log, "panic") {
		g.t.Errorf("%s: race or panic:\n%s", g.name, log)
	}
	for _, path := range []string{filepath.Join(pinRoot, g.id), filepath.Join(g.set.dir, g.id+".sock"), g.ready} {
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			g.t.Errorf("%s left %s behind (%v)", g.name, path, err)
		}
	}
	g.ns.Do(func() {
		links, err := netdev.Links()
		if err != nil {
			g.t.Fatal(err)
		}
		for _, l := range links {
			if l.Name == "tun0" {
				g.t.Errorf("%s left device %s behind", g.name, l.Name)
			}
			if l.Name == "eth0" && l.XDP.Attached {
				g.t.Errorf("%s left XDP program %d on %s", g.name, l.XDP.ProgID, l.Name)
			}
		}
	})
}

// status is what `status --json` says at this moment.
func (g *gateway) status() *admin.Status {
	g.t.Helper()
	out, err := run(mustProgram(g.t), "status", "--json", "--name", g.id, "--run-dir", g.set.dir)
	if err != nil {
		g.t.Fatal(err)
	}
	s := new(admin.Status)
	if err := json.Unmarshal([]byte(out), s); err != nil {
		g.t.Fatalf("%v in %s", err, out)
	}
	return s
}

func (g *gateway) steered() (uint64, bool) { return g.status().Totals.In.Steered, true }
func (g *gateway) stock() bool             { return false }
