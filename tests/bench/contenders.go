// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
)

// wireguardVersion is pinned: other versions have other speeds.
const wireguardVersion = "v0.0.0-20260522210424-ecfc5a8d5446"

func startNone(*environment, *bed) (*tunnel, error) {
	return &tunnel{target: outerB, dev: "eth0", via: outerA}, nil
}

// startOpenVPN runs two OpenVPN point to point over TLS, in user space, with
// its default buffers and MTU.
func startOpenVPN(env *environment, b *bed) (*tunnel, error) {
	common := []string{
		"--dev", "tun0", "--dev-type", "tun", "--proto", "udp4", "--disable-dco",
		"--data-ciphers", "AES-128-GCM", "--ca", env.path("ca.pem"),
		"--auth-nocache", "--verb", "1",
	}
	side := func(ns *testlab.Namespace, own, other, outer, remote netip.Addr, role string, args ...string) (*testlab.Process, error) {
		args = append(args, "--local", outer.String(), "--lport", "1194",
			"--remote", remote.String(), "1194",
			"--cert", env.path(role+".pem"), "--key", env.path(role+".key"),
			"--ifconfig", own.String(), other.String())
		return start(ns, "openvpn", append(args, common...)...)
	}
	var t tunnel
	var err error
	if t.b, err = side(b.b, innerB, innerA, outerB, outerA, "server", "--tls-server", "--dh", "none"); err != nil {
		return nil, err
	}
	if t.a, err = side(b.a, innerA, innerB, outerA, outerB, "client", "--tls-client", "--remote-cert-tls", "server"); err != nil {
		return nil, err
	}
	for _, p := range []*testlab.Process{t.a, t.b} {
		err := await(20*time.Second, func() error {
			if err := alive(p); err != nil {
				return err
			}
			if !strings.Contains(p.Output(), "Initialization Sequence Completed") {
				return fmt.Errorf("wait for OpenVPN: %s", lastLines(p.Output(), 5))
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	t.target, t.dev = innerB, "tun0"
	return &t, nil
}

// buildWireGuard builds the pinned wireguard-go once, into the user's cache.
func buildWireGuard(env *environment) error {
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	dir := filepath.Join(cache, "ovpn-xdp", "wireguard-go-"+wireguardVersion)
	env.wireguard = filepath.Join(dir, "wireguard")
	if _, err := os.Stat(env.wireguard); err == nil {
		return nil
	}
	cmd := exec.Command("go", "install", "golang.zx2c4.com/wireguard@"+wireguardVersion)
	cmd.Env = append(os.Environ(), "GOBIN="+dir, "CGO_ENABLED=0")
	cmd.Dir = env.dir // outside of this module
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build wireguard-go: %w: %s", err, lastLines(string(out), 5))
	}
	return nil
}

// startWireGuard runs two wireguard-go, set up by wg(8), with its usual MTU of 1420.
func startWireGuard(env *environment, b *bed) (*tunnel, error) {
	t := &tunnel{target: innerB}
	type side struct {
		ns              *testlab.Namespace
		dev             string
		private, public string
		inner, outer    netip.Addr
		routes          []string
		process         **testlab.Process
	}
	// wireguard-go's socket is named after the device and seen from all namespaces.
	id := b.lab.ID()[strings.LastIndexByte(b.lab.ID(), '-')+1:]
	sides := []*side{
		{ns: b.a, dev: "wga" + id, inner: innerA, outer: outerA, routes: []string{innerB.String() + "/32"}, process: &t.a},
		{ns: b.b, dev: "wgb" + id, inner: innerB, outer: outerB, routes: []string{innerA.String() + "/32", lan.String()}, process: &t.b},
	}
	t.dev = sides[1].dev
	for _, s := range sides {
		cmd := s.ns.Command(env.wireguard, "--foreground", s.dev)
		cmd.Env = append(os.Environ(), "LOG_LEVEL=error")
		var err error
		if *s.process, err = s.ns.StartCommand(cmd); err != nil {
			return nil, err
		}
		key, err := exec.Command("wg", "genkey").Output()
		if err != nil {
			return nil, fmt.Errorf("wg genkey: %w", err)
		}
		s.private = env.path(s.dev + ".key")
		if err := os.WriteFile(s.private, key, 0o600); err != nil {
			return nil, err
		}
		derive := exec.Command("wg", "pubkey")
		derive.Stdin = bytes.NewReader(key)
		public, err := derive.Output()
		if err != nil {
			return nil, fmt.Errorf("wg pubkey: %w", err)
		}
		s.public = strings.TrimSpace(string(public))
	}
	for i, s := range sides {
		other := sides[1-i]
		if err := await(5*time.Second, func() error {
			if err := alive(*s.process); err != nil {
				return err
			}
			return command(s.ns, "wg", "set", s.dev, "private-key", s.private, "listen-port", "51820",
				"peer", other.public, "endpoint", other.outer.String()+":51820", "allowed-ips", strings.Join(s.routes, ","))
		}); err != nil {
			return nil, err
		}
		if err := errors.Join(
			command(s.ns, "ip", "address", "add", s.inner.String()+"/24", "dev", s.dev),
			command(s.ns, "ip", "link", "set", s.dev, "up"),
		); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// benchPeer is the peer id on both sides.
const benchPeer = "7"

// startGateways returns a function that runs two ovpn-xdp on a rung.
func startGateways(rung string, extra ...string) func(*environment, *bed) (*tunnel, error) {
	return func(env *environment, b *bed) (*tunnel, error) {
		id := b.lab.ID()[strings.LastIndexByte(b.lab.ID(), '-')+1:]
		a := gateway{env: env, ns: b.a, name: "ba-" + id, rung: rung, outer: outerA, inner: innerA}
		z := gateway{env: env, ns: b.b, name: "bb-" + id, rung: rung, outer: outerB, inner: innerB}
		for _, g := range []*gateway{&a, &z} {
			if err := g.start(extra); err != nil {
				return nil, err
			}
		}
		key, err := exec.Command(env.binary, "key", "generate").Output()
		if err != nil {
			return nil, fmt.Errorf("key generate: %w", err)
		}
		keyFile := env.path(id + ".key")
		if err := os.WriteFile(keyFile, key, 0o600); err != nil {
			return nil, err
		}
		if err := errors.Join(
			a.connect(outerB, keyFile, "server", innerB.String()+"/32"),
			z.connect(outerA, keyFile, "client", innerA.String()+"/32", lan.String()),
		); err != nil {
			return nil, err
		}
		return &tunnel{target: innerB, dev: "tun0", a: a.process, b: z.process}, nil
	}
}

type gateway struct {
	env          *environment
	ns           *testlab.Namespace
	name, rung   string
	outer, inner netip.Addr
	process      *testlab.Process
}

func (g *gateway) start(extra []string) (err error) {
	ready := g.env.path(g.name + ".ready")
	args := []string{"run", "--run-dir", g.env.path("run"), "--name", g.name, "--nic", "eth0", "--listen", g.outer.String() + ":1194",
		"--dev", "tun0", "--address", g.inner.String() + "/24", "--mode", g.rung,
		"--state-dir", g.env.path("state"), "--ready-file", ready}
	if g.process, err = start(g.ns, g.env.binary, append(args, extra...)...); err != nil {
		return err
	}
	if err := await(15*time.Second, func() error {
		if err := alive(g.process); err != nil {
			return err
		}
		_, err := os.Stat(ready)
		return err
	}); err != nil {
		return fmt.Errorf("wait for gateway %s: %w", g.name, err)
	}
	return g.onRung()
}

// onRung makes sure that the figures will be those of the rung they are reported under.
func (g *gateway) onRung() error {
	out, err := exec.Command(g.env.binary, "status", "--run-dir", g.env.path("run"), "--name", g.name, "--json").Output()
	if err != nil {
		return fmt.Errorf("status of %s: %w", g.name, err)
	}
	var status struct {
		NICs []struct {
			Rung string `json:"rung"`
			Why  string `json:"why_not_higher"`
		} `json:"nics"`
	}
	if err := json.Unmarshal(out, &status); err != nil {
		return fmt.Errorf("status of %s: %w", g.name, err)
	}
	for _, nic := range status.NICs {
		if nic.Rung != g.rung {
			return fmt.Errorf("gateway %s is on rung %s: %s", g.name, nic.Rung, nic.Why)
		}
	}
	return nil
}

func (g *gateway) connect(remote netip.Addr, keyFile, role string, routes ...string) error {
	args := []string{"peer", "add", benchPeer, "--run-dir", g.env.path("run"), "--name", g.name, "--remote", remote.String() + ":1194"}
	for _, r := range routes {
		args = append(args, "--route", r)
	}
	if err := command(g.ns, g.env.binary, args...); err != nil {
		return err
	}
	return command(g.ns, g.env.binary, "key", "add", benchPeer, "--run-dir", g.env.path("run"), "--name", g.name, "--slot", "primary",
		"--key-id", "0", "--cipher", "AES-128-GCM", "--key-file", keyFile, "--role", role)
}
