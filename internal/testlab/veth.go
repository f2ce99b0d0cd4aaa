// SPDX-License-Identifier: Apache-2.0

package testlab

import (
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/netdev"
)

// End is one end of a veth pair.
type End struct {
	Namespace *Namespace
	Name      string         // 1 to 15 bytes
	Addresses []netip.Prefix // of the VLAN device, if there is one
	MAC       net.HardwareAddr
}

// Veth is a wire between two namespaces.
type Veth struct {
	A, B   End
	Queues int // receive and transmit queues of each end; 0: 1
	MTU    int // bytes; 0: 1500
	// VLAN is the id of 802.1Q devices <name>.<id> on both ends; 0: none.
	VLAN int
	// WireLike makes the pair carry frames of at most the MTU, as a wire
	// does: no end takes segmentation work from the stack (TSO, GSO and UDP
	// segmentation off), and GRO is on. Otherwise aggregates of up to 64 KiB
	// cross a veth whole.
	WireLike bool
	// NoNeighbours leaves out the permanent neighbour entries, so that
	// addresses are resolved by ARP and neighbour discovery.
	NoNeighbours bool
}

// Veth lays a pair or fails the test.
func (l *Lab) Veth(v Veth) {
	if l.t != nil {
		l.t.Helper()
	}
	l.check(l.AddVeth(v))
}

// AddVeth lays a pair: both ends up, addressed without duplicate address
// detection, and each knowing the other's MAC for all its addresses.
func (l *Lab) AddVeth(v Veth) error {
	err := v.A.Namespace.Run(func() error {
		return netdev.Veth{
			A:             netdev.VethEnd{Name: v.A.Name, MAC: v.A.MAC},
			B:             netdev.VethEnd{Name: v.B.Name, MAC: v.B.MAC},
			Queues:        v.Queues,
			MTU:           v.MTU,
			PeerNamespace: v.B.Namespace.FD(),
		}.Create()
	})
	if err != nil {
		return err
	}
	// Both ends first: neither has a carrier before.
	if err := v.A.raise(v); err != nil {
		return err
	}
	if err := v.B.raise(v); err != nil {
		return err
	}
	macA, err := v.A.setUp(v)
	if err != nil {
		return err
	}
	macB, err := v.B.setUp(v)
	if err != nil || v.NoNeighbours {
		return err
	}
	if err := v.A.learn(v, v.B, macB); err != nil {
		return err
	}
	return v.B.learn(v, v.A, macA)
}

// device is the name of the device that carries the addresses.
func (e End) device(v Veth) string {
	if v.VLAN == 0 {
		return e.Name
	}
	return fmt.Sprintf("%s.%d", e.Name, v.VLAN)
}

// raise brings the end up.
func (e End) raise(v Veth) error {
	err := e.Namespace.Run(func() error {
		if v.WireLike {
			if err := netdev.SetFeatures(e.Name, wireLike); err != nil {
				return err
			}
		}
		return netdev.SetUp(e.Name)
	})
	if err != nil {
		return fmt.Errorf("set up %s in %s: %w", e.Name, e.Namespace.Name(), err)
	}
	return nil
}

// setUp gives the end its VLAN device and addresses, and returns the MAC of what
// carries them.
func (e End) setUp(v Veth) (mac net.HardwareAddr, err error) {
	err = e.Namespace.Run(func() error {
		if err := awaitRunning(e.Name); err != nil {
			return err
		}
		device := e.device(v)
		if v.VLAN != 0 {
			if err := netdev.CreateVLAN(device, e.Name, v.VLAN); err != nil {
				return err
			}
			if v.WireLike {
				if err := netdev.SetFeatures(device, wireLike); err != nil {
					return err
				}
			}
			if err := netdev.SetUp(device); err != nil {
				return err
			}
			if err := awaitRunning(device); err != nil {
				return err
			}
		}
		for _, a := range e.Addresses {
			if err := netdev.AddAddress(device, a); err != nil {
				return err
			}
			if err := awaitLocal(a.Addr()); err != nil {
				return err
			}
		}
		link, err := netdev.LinkByName(device)
		mac = link.MAC
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("set up %s in %s: %w", e.Name, e.Namespace.Name(), err)
	}
	return mac, nil
}

// awaitRunning waits until the kernel has noticed the carrier. It does so in a
// work queue, and until then the device silently drops what is sent.
func awaitRunning(name string) error {
	return await("carrier of "+name, func() (bool, error) {
		link, err := netdev.LinkByName(name)
		return link.Running(), err
	})
}

// awaitLocal waits until packets to the address are delivered.
func awaitLocal(addr netip.Addr) error {
	return await("local route to "+addr.String(), func() (bool, error) { return netdev.IsLocal(addr) })
}

func await(what string, done func() (bool, error)) error {
	deadline := time.Now().Add(10 * time.Second)
	for {
		ok, err := done()
		if err != nil || ok {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("wait for %s: not there after 10 s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func (e End) learn(v Veth, other End, mac net.HardwareAddr) error {
	return e.Namespace.Run(func() error {
		for _, a := range other.Addresses {
			if err := netdev.AddNeighbour(e.device(v), a.Addr(), mac); err != nil {
				return err
			}
		}
		return nil
	})
}

// wireLike is `ethtool -K <dev> tso off gso off tx-udp-segmentation off gro on`.
var wireLike = map[string]bool{
	netdev.FeatureTSO4:      false,
	netdev.FeatureTSO6:      false,
	netdev.FeatureTSOECN:    false,
	netdev.FeatureTSOMangle: false,
	netdev.FeatureGSO:       false,
	netdev.FeatureUSO:       false,
	netdev.FeatureGRO:       true,
}
