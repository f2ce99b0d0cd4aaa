// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
)

const serverAddr = "192.0.2.1:1194"

// conf is both servers' server.conf: limits are out of the way, and several
// clients may have one certificate.
const conf = `port 1194
proto udp
dev tun0
ca ca.pem
cert server.pem
key server.key
dh none
tls-crypt tc.key
topology subnet
server 10.128.0.0 255.255.0.0
keepalive 10 120
duplicate-cn
max-clients 60000
connect-freq-initial 1000000 1
verb 1
`

// holdParallel is how many clients at once connect to stay.
const holdParallel = 32

// servers are what is compared.
var servers = []string{"ovpn-xdp", "openvpn"}

func measure(o options) (_ *report, err error) {
	if o.binary, err = filepath.Abs(o.binary); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "ovpn-xdp-handshake-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := makeFiles(dir); err != nil {
		return nil, err
	}
	lab, err := testlab.Open("ovx-shake")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lab.Close()) }()
	b := &bed{o: o, dir: dir, id: lab.ID()}
	for name, ns := range map[string]**testlab.Namespace{"s": &b.server, "c": &b.client} {
		if *ns, err = lab.AddNamespace(name); err != nil {
			return nil, err
		}
	}
	if err := lab.AddVeth(testlab.Veth{
		A: testlab.End{Namespace: b.server, Name: "eth0", Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24")}},
		B: testlab.End{Namespace: b.client, Name: "eth0", Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.2/24")}},
	}); err != nil {
		return nil, err
	}
	r := &report{Version: 2, Cores: runtime.NumCPU(), Servers: servers, Rounds: map[string][]cell{}}
	for range o.reps {
		for _, name := range servers {
			c, err := b.round(name)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			r.Rounds[name] = append(r.Rounds[name], c)
		}
	}
	return r, nil
}

// bed is where the servers run.
type bed struct {
	o              options
	dir, id        string
	server, client *testlab.Namespace
}

// start starts a server and waits until it listens.
func (b *bed) start(name string) (*testlab.Process, error) {
	args := []string{"openvpn", "--disable-dco", "--config", "server.conf"}
	if name == "ovpn-xdp" {
		args = []string{b.o.binary, "run", "--config", "server.conf", "--name", "shake" + b.id[strings.LastIndexByte(b.id, '-')+1:], "--run-dir", filepath.Join(b.dir, "run"), "--state-dir", filepath.Join(b.dir, "state")}
	}
	cmd := b.server.Command(args[0], args[1:]...)
	cmd.Dir = b.dir
	p, err := b.server.StartCommand(cmd)
	if err != nil {
		return nil, err
	}
	for range 100 {
		var out bytes.Buffer
		ss := b.server.Command("ss", "-Huln", "sport = :1194")
		ss.Stdout = &out
		if err := ss.Run(); err == nil && out.Len() > 0 {
			time.Sleep(300 * time.Millisecond)
			return p, nil
		}
		select {
		case <-p.Done():
			return nil, fmt.Errorf("did not start: %s", p.Output())
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil, errors.New("does not listen")
}

// clients runs this program as the clients.
func (b *bed) clients(parallel int, args ...string) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return append([]string{self, "--load", serverAddr, "--dir", b.dir, "--parallel", strconv.Itoa(parallel)}, args...), nil
}

// round measures a server once.
func (b *bed) round(name string) (c cell, err error) {
	for _, n := range b.o.parallel {
		l, err := b.load(name, n)
		if err != nil {
			return c, err
		}
		c.Loads = append(c.Loads, l)
	}
	return c, b.memory(name, &c)
}

// load measures a fresh server with so many handshakes at once.
func (b *bed) load(name string, parallel int) (l loadCell, err error) {
	p, err := b.start(name)
	if err != nil {
		return l, err
	}
	defer p.Stop()
	args, err := b.clients(parallel, "--seconds", fmt.Sprint(b.o.seconds))
	if err != nil {
		return l, err
	}
	before, err := processSeconds(p.PID())
	if err != nil {
		return l, err
	}
	out, err := b.client.Command(args[0], args[1:]...).Output()
	if err != nil {
		return l, fmt.Errorf("clients: %w", err)
	}
	var r loadResult
	if err := json.Unmarshal(out, &r); err != nil {
		return l, err
	}
	after, err := processSeconds(p.PID())
	if err != nil {
		return l, err
	}
	if r.Handshakes == 0 {
		return l, fmt.Errorf("no handshake came to its end: %s", p.Output())
	}
	return loadCell{Parallel: parallel, PerSecond: float64(r.Handshakes) / r.Seconds, Failures: r.Failures,
		ServerMillis: (after - before) * 1000 / float64(r.Handshakes)}, nil
}

// memory measures what idle clients take of a fresh server.
func (b *bed) memory(name string, c *cell) error {
	p, err := b.start(name)
	if err != nil {
		return err
	}
	defer p.Stop()
	before, err := resident(p.PID())
	if err != nil {
		return err
	}
	args, err := b.clients(holdParallel, "--hold", strconv.Itoa(b.o.idle))
	if err != nil {
		return err
	}
	cmd := b.client.Command(args[0], args[1:]...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() { in.Close(); _ = cmd.Wait() }()
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("clients: %w", err)
	}
	var r loadResult
	if err := json.Unmarshal(line, &r); err != nil {
		return err
	}
	if r.Handshakes == 0 {
		return errors.New("no idle client connected")
	}
	// What handshakes needed for a moment is given back a few seconds later.
	time.Sleep(8 * time.Second)
	after, err := resident(p.PID())
	if err != nil {
		return err
	}
	c.IdleConnected = r.Handshakes
	c.KiBPerClient = (after - before) / float64(r.Handshakes)
	return nil
}

// resident is a process's resident memory in KiB.
func resident(pid int) (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			return strconv.ParseFloat(strings.Fields(rest)[0], 64)
		}
	}
	return 0, errors.New("no VmRSS")
}

// processSeconds is the processor time of all threads of a process.
func processSeconds(pid int) (float64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("read /proc/%d/stat: %q", pid, stat)
	}
	user, err1 := strconv.ParseFloat(string(fields[11]), 64)
	system, err2 := strconv.ParseFloat(string(fields[12]), 64)
	return (user + system) / 100, errors.Join(err1, err2) // USER_HZ
}
