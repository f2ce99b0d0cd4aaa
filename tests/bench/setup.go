// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
)

// setup is one contender.
type setup struct {
	name, about string
	// onRequest: only measured when --only names it.
	onRequest bool
	// ablation: measured with one local flow only, for comparison with its like.
	ablation bool
	start    func(*environment, *bed) (*tunnel, error)
	needs    []string // programs
	prepare  func(*environment) error
}

// tunnel is a running contender.
type tunnel struct {
	// target is gateway b's address as seen through the tunnel.
	target netip.Addr
	// dev is b's device towards the host behind a; via: through a neighbour on it.
	dev string
	via netip.Addr
	// gateways are the processes whose time counts; nil without a tunnel.
	a, b *testlab.Process
}

// environment is what outlives one bed: files and programs.
type environment struct {
	dir       string // scratch, removed at the end
	binary    string // ovpn-xdp
	wireguard string // wireguard-go, built when it is needed
}

func (e *environment) path(name string) string { return filepath.Join(e.dir, name) }

func (e *environment) prepare(setups []setup) error {
	for _, program := range []string{"nsenter", "iperf3", "ip", "ping"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%w; run: hack/deps.sh bench", err)
		}
	}
	for _, s := range setups {
		for _, program := range s.needs {
			if _, err := exec.LookPath(program); err != nil {
				return fmt.Errorf("%w; run: hack/deps.sh bench", err)
			}
		}
		if s.prepare != nil {
			if err := s.prepare(e); err != nil {
				return fmt.Errorf("prepare %s: %w", s.name, err)
			}
		}
	}
	return nil
}

// withoutOffloads makes ovpn-xdp handle one record at a time, as the plain
// loop of a tunnel daemon does.
var withoutOffloads = []string{"--batch", "1", "--prefetch", "0", "--no-tun-offload", "--no-udp-gso", "--no-udp-gro"}

func allSetups() []setup {
	setups := []setup{
		{name: "none", about: "no tunnel", start: startNone},
		{name: "openvpn", about: "Debian's OpenVPN in user space, default buffers, AES-128-GCM", start: startOpenVPN,
			needs: []string{"openvpn"}, prepare: makeCertificates},
		{name: "wireguard-go", about: "wireguard-go " + wireguardVersion, start: startWireGuard,
			needs: []string{"wg"}, prepare: buildWireGuard},
	}
	for _, rung := range []string{"xdp", "tc", "socket", "xdp-generic"} {
		setups = append(setups, setup{name: "ovpn-xdp/" + rung, about: "ovpn-xdp --mode " + rung + ", AES-128-GCM",
			onRequest: rung == "xdp-generic", start: startGateways(rung), prepare: haveBinary})
	}
	for _, rung := range []string{"xdp", "socket"} {
		for _, step := range []struct {
			name, about string
			args        []string
		}{
			{"1-single", "one record at a time, no offload", withoutOffloads},
			{"2-coalesced", "coalescing and offloads, no prefetch", []string{"--prefetch", "0"}},
			{"3-prefetch", "coalescing, offloads and prefetch", []string{"--prefetch", "2"}},
		} {
			setups = append(setups, setup{name: "ablation/" + rung + "/" + step.name, about: "ovpn-xdp --mode " + rung + ", " + step.about,
				ablation: true, start: startGateways(rung, step.args...), prepare: haveBinary})
		}
	}
	return setups
}

// Values of a cell.
const (
	local, forwarded = "local", "forwarded"
	up, down         = "up", "down"
)

// cell is one measurement to take.
type cell struct {
	Topology  string `json:"topology"`
	Flows     int    `json:"flows"`
	Direction string `json:"direction"`
}

func cellsOf(s setup, o options) (cells []cell) {
	for _, topology := range o.topologies {
		for _, flows := range o.flows {
			for _, direction := range o.directions {
				c := cell{topology, flows, direction}
				if s.ablation && c != (cell{local, 1, up}) {
					continue
				}
				cells = append(cells, c)
			}
		}
	}
	if s.ablation && len(cells) == 0 {
		cells = append(cells, cell{local, 1, up})
	}
	return slices.Clip(cells)
}

func haveBinary(e *environment) error {
	info, err := os.Stat(e.binary)
	if err != nil {
		return fmt.Errorf("find ovpn-xdp: %w; run: make build", err)
	}
	if info.IsDir() || info.Mode()&0o111 == 0 {
		return errors.New(e.binary + " is not a program")
	}
	return nil
}
