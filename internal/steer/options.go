// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"fmt"
	"regexp"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/xsk"
)

// Mode is what the operator asks for: the name of a rung, or auto.
type Mode string

// Rungs, best first, and auto, which takes the first that works of the first
// three. Generic XDP is never chosen by itself: it makes the kernel linearise
// all traffic of the device. Socket asks for no attachment at all.
const (
	ModeAuto       Mode = "auto"
	ModeZeroCopy   Mode = "xdp-zerocopy"
	ModeXDP        Mode = "xdp"
	ModeTC         Mode = "tc"
	ModeSocket     Mode = "socket"
	ModeXDPGeneric Mode = "xdp-generic"
)

// DefaultPinDir is where bpffs belongs. It is the only place where Attach
// mounts one if there is none.
const DefaultPinDir = "/sys/fs/bpf"

// DefaultPeers is the number of peers that the maps have room for. They are not
// preallocated, so that room costs only the hash buckets: 16 bytes each.
const DefaultPeers = 16384

// Options say what to attach and how.
type Options struct {
	// Gateway is the instance's name, 1 to 15 of letters, digits, - and _. It
	// tells pins, veth pairs and filters of several gateways apart.
	Gateway string
	// NIC is the name of the network device.
	NIC string
	// Mode is the rung, or auto; empty: auto.
	Mode Mode
	// Queues are the receive queues to bind, nil: all. The tc rung, which sees
	// the traffic of all queues, has no use for it and says so in Notes.
	Queues []int
	// RingSize is the receive ring of each socket in frames: a power of two
	// from xsk.MinRingSize to xsk.MaxRingSize.
	RingSize int
	// PinDir is a mounted bpffs; empty: DefaultPinDir, mounted if need be.
	PinDir string
	// Peers is how many peers the maps have room for; 0: DefaultPeers.
	Peers int

	// withoutTCX makes the tc rung use clsact, as on kernels before 6.6.
	withoutTCX bool
}

var gatewayName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,15}$`)

func (o Options) withDefaults() (Options, error) {
	if !gatewayName.MatchString(o.Gateway) {
		return o, fmt.Errorf("gateway name %q: want 1 to 15 of letters, digits, - and _", o.Gateway)
	}
	switch o.Mode {
	case "":
		o.Mode = ModeAuto
	case ModeAuto, ModeZeroCopy, ModeXDP, ModeTC, ModeSocket, ModeXDPGeneric:
	default:
		return o, fmt.Errorf("mode %q: want auto, xdp-zerocopy, xdp, tc, socket or xdp-generic", o.Mode)
	}
	if o.RingSize < xsk.MinRingSize || o.RingSize > xsk.MaxRingSize || o.RingSize&(o.RingSize-1) != 0 {
		return o, fmt.Errorf("ring size %d: want a power of two from %d to %d", o.RingSize, xsk.MinRingSize, xsk.MaxRingSize)
	}
	if o.Peers == 0 {
		o.Peers = DefaultPeers
	}
	if o.Peers < 0 || o.Peers > 1<<24 {
		return o, fmt.Errorf("room for %d peers: want 1 to %d, the number of peer ids", o.Peers, 1<<24)
	}
	if o.PinDir == "" {
		o.PinDir = DefaultPinDir
	}
	return o, nil
}
