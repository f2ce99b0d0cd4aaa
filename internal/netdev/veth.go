// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
)

// VethEnd is one end of a veth pair to be created.
type VethEnd struct {
	Name string           // 1 to MaxName bytes
	MAC  net.HardwareAddr // nil: the kernel's choice
}

// Veth describes a veth pair to be created. Both ends have the same shape.
type Veth struct {
	A, B VethEnd
	// Queues is the number of receive and of transmit queues of each end; 0: 1.
	Queues int
	// MTU in bytes; 0: 1500.
	MTU int
	// PeerNamespace is a descriptor of the network namespace that B is
	// created in; 0: the calling thread's.
	PeerNamespace int
}

// CreateVeth makes a veth pair a-b in the namespace of the calling thread, both
// ends down, with the given number of receive and transmit queues each.
func CreateVeth(a, b string, queues, mtu int) error {
	return Veth{A: VethEnd{Name: a}, B: VethEnd{Name: b}, Queues: queues, MTU: mtu}.Create()
}

// Create makes the pair, both ends down. An end whose name is taken leaves nothing behind.
func (v Veth) Create() error {
	for _, name := range []string{v.A.Name, v.B.Name} {
		if name == "" || len(name) > MaxName {
			return fmt.Errorf("create veth %s-%s: name %q is not of 1 to %d bytes", v.A.Name, v.B.Name, name, MaxName)
		}
	}
	queues := max(v.Queues, 1)
	attrs := netlink.NewLinkAttrs()
	attrs.Name = v.A.Name
	attrs.MTU = v.MTU
	attrs.HardwareAddr = v.A.MAC
	attrs.NumRxQueues = queues
	attrs.NumTxQueues = queues
	pair := netlink.NewVeth(attrs)
	pair.PeerName = v.B.Name
	pair.PeerHardwareAddr = v.B.MAC
	pair.PeerNumRxQueues = uint32(queues)
	pair.PeerNumTxQueues = uint32(queues)
	pair.PeerMTU = uint32(v.MTU)
	if v.PeerNamespace > 0 {
		pair.PeerNamespace = netlink.NsFd(v.PeerNamespace)
	}
	if err := netlink.LinkAdd(pair); err != nil {
		return fmt.Errorf("create veth %s-%s: %w", v.A.Name, v.B.Name, err)
	}
	return nil
}

// CreateVLAN makes an 802.1Q device of that name above lower, with VLAN id 1 to 4094.
func CreateVLAN(name, lower string, id int) error {
	if id < 1 || id > 4094 {
		return fmt.Errorf("create vlan %s: id %d is not from 1 to 4094", name, id)
	}
	below, err := find(lower)
	if err != nil {
		return fmt.Errorf("create vlan %s: %w", name, err)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	attrs.ParentIndex = below.Attrs().Index
	if err := netlink.LinkAdd(&netlink.Vlan{LinkAttrs: attrs, VlanId: id}); err != nil {
		return fmt.Errorf("create vlan %s: %w", name, err)
	}
	return nil
}
