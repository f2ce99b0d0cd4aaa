// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
)

// Outer addresses of the gateways, their addresses in the tunnel, and the
// network of the host behind gateway a.
var (
	outerA = netip.MustParseAddr("192.0.2.1")
	outerB = netip.MustParseAddr("192.0.2.2")
	innerA = netip.MustParseAddr("10.9.0.1")
	innerB = netip.MustParseAddr("10.9.0.2")
	lan    = netip.MustParsePrefix("198.51.100.0/24")
	lanA   = netip.MustParsePrefix("198.51.100.1/24")
	lanH   = netip.MustParsePrefix("198.51.100.2/24")
)

// bed is what a set-up is measured in: host h, gateway a, gateway b, in a row.
//
//	h eth0 --- eth1 a eth0 --- eth0 b
type bed struct {
	lab     *testlab.Lab
	h, a, b *testlab.Namespace
}

func newBed() (_ *bed, err error) {
	lab, err := testlab.Open("ovx-bench")
	if err != nil {
		return nil, err
	}
	b := &bed{lab: lab}
	defer func() {
		if err != nil {
			err = errors.Join(err, lab.Close())
		}
	}()
	for name, ns := range map[string]**testlab.Namespace{"h": &b.h, "a": &b.a, "b": &b.b} {
		if *ns, err = lab.AddNamespace(name); err != nil {
			return nil, err
		}
	}
	if err := b.a.SetSysctl("net.ipv4.ip_forward", "1"); err != nil {
		return nil, err
	}
	wires := []testlab.Veth{
		{
			A: testlab.End{Namespace: b.a, Name: "eth0", Addresses: []netip.Prefix{netip.PrefixFrom(outerA, 24)}},
			B: testlab.End{Namespace: b.b, Name: "eth0", Addresses: []netip.Prefix{netip.PrefixFrom(outerB, 24)}},
			// As many as this machine has cores to serve them; a flow lands on the one its hash picks.
			Queues: 2, WireLike: true,
		},
		{
			A:      testlab.End{Namespace: b.h, Name: "eth0", Addresses: []netip.Prefix{lanH}},
			B:      testlab.End{Namespace: b.a, Name: "eth1", Addresses: []netip.Prefix{lanA}},
			Queues: 2, WireLike: true,
		},
	}
	for _, wire := range wires {
		if err := lab.AddVeth(wire); err != nil {
			return nil, err
		}
	}
	return b, command(b.h, "ip", "route", "add", "default", "via", lanA.Addr().String())
}

// reach routes b's answers to the host behind a and waits until both answer through the tunnel.
func (b *bed) reach(t *tunnel) error {
	route := []string{"route", "replace", lan.String(), "dev", t.dev}
	if t.via.IsValid() {
		route = append(route, "via", t.via.String())
	}
	if err := command(b.b, "ip", route...); err != nil {
		return err
	}
	for _, from := range []*testlab.Namespace{b.a, b.h} {
		if err := await(15*time.Second, func() error {
			return command(from, "ping", "-q", "-c", "1", "-W", "1", t.target.String())
		}); err != nil {
			return fmt.Errorf("reach %s: %w", t.target, err)
		}
	}
	return nil
}

// command runs a program in a namespace to its end; its error has what the program said.
func command(ns *testlab.Namespace, name string, args ...string) error {
	cmd := ns.Command(name, args...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, lastLines(said.String(), 3))
	}
	return nil
}

// start runs a program beside the measurement; the bed's lab ends it.
func start(ns *testlab.Namespace, name string, args ...string) (*testlab.Process, error) {
	return ns.StartCommand(ns.Command(name, args...))
}

// await tries until it works, at most for the given time.
func await(limit time.Duration, try func() error) error {
	deadline := time.Now().Add(limit)
	for {
		err := try()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// alive tells a process that ended from one that is not ready yet.
func alive(p *testlab.Process) error {
	select {
	case <-p.Done():
		return fmt.Errorf("ended: %v: %s", p.Wait(), lastLines(p.Output(), 5))
	default:
		return nil
	}
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "; ")
}
