// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"fmt"

	"github.com/ovpn-xdp/ovpn-xdp/internal/netdev"
)

// bounces are drivers that reset rings or take the carrier down for a moment
// (0.1 to 2 s) when an XDP program or an AF_XDP socket comes or goes. Traffic of
// that moment is lost, whatever order attach and detach keep.
var bounces = map[string]bool{
	"atlantic": true, "bnxt_en": true, "ena": true, "fec": true, "gve": true, "hv_netvsc": true,
	"i40e": true, "ice": true, "igb": true, "igc": true, "ixgbe": true, "ixgbevf": true,
	"mlx4_en": true, "mlx5_core": true, "nfp": true, "qede": true, "sfc": true, "st_gmac": true,
	"stmmac": true, "virtio_net": true,
}

// largestMTU is where drivers stop taking native XDP. ena: documented by
// Amazon. i40e: X710 blocks frames above 3 KB. veth: without the frags flag one
// page less headroom and skb_shared_info.
var largestMTU = map[string]int{"ena": 3502, "i40e": 3054, "veth": 3504}

// driverNotes are what an operator should know before attaching.
func driverNotes(l netdev.Link) []string {
	var notes []string
	if bounces[l.Driver] {
		notes = append(notes, fmt.Sprintf("driver %s resets its rings or link when a program comes or goes: traffic of that moment is lost", l.Driver))
	}
	if limit := largestMTU[l.Driver]; limit != 0 && l.MTU > limit {
		notes = append(notes, fmt.Sprintf("MTU %d: driver %s is known to refuse native XDP above %d (%s)", l.MTU, l.Driver, limit, fragsHint(l.Driver)))
	}
	switch l.Driver {
	case "ena":
		notes = append(notes, "driver ena before 2.17.0 needs half of its channels unused for native XDP: ethtool -L")
	case "veth":
		notes = append(notes, "veth has no zero-copy, and a native program switches its peer's TSO and UDP segmentation off")
	case "virtio_net":
		notes = append(notes, "virtio_net grants zero-copy only where the device uses the DMA API (iommu_platform=on in QEMU)")
	case "mlx5_core":
		notes = append(notes, "mlx5_core drops unknown VLAN tags before XDP while rx-vlan-filter is on")
	}
	if l.RxQueues > 1 {
		notes = append(notes, fmt.Sprintf("a peer's records arrive on one of %d receive queues: bind all of them", l.RxQueues))
	}
	return notes
}

func fragsHint(driver string) string {
	if driver == "veth" {
		return "from kernel 5.18 on it takes programs with the frags flag"
	}
	return "lower the MTU, or use --mode tc"
}

// isAggregate says whether frames of the device belong to queues of other
// devices. A native program on a bond runs on its members, whose frames an
// AF_XDP socket of the bond refuses: they would all be lost.
func isAggregate(l netdev.Link) bool { return l.Kind == "bond" || l.Kind == "team" }

func errAggregate(l netdev.Link) error {
	return fmt.Errorf("frames of a %s belong to its members: attach to those, or use tc", l.Kind)
}
