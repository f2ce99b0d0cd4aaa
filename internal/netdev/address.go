// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// AddAddress gives the link an address with its prefix length. IPv6 addresses
// are added without duplicate address detection, so that they can be bound at
// once; the kernel delivers to them a moment later (see IsLocal). An address the
// link has already is no error.
func AddAddress(link string, prefix netip.Prefix) error {
	return change(link, fmt.Sprintf("add address %s to", prefix), func(nl netlink.Link) error {
		addr := &netlink.Addr{IPNet: ipNet(prefix)}
		if prefix.Addr().Is6() {
			addr.Flags = unix.IFA_F_NODAD
		}
		err := netlink.AddrAdd(nl, addr)
		if errors.Is(err, unix.EEXIST) {
			return nil
		}
		return err
	})
}

// DelAddress takes an address from the link; one it doesn't have is no error.
func DelAddress(link string, prefix netip.Prefix) error {
	return change(link, fmt.Sprintf("delete address %s from", prefix), func(nl netlink.Link) error {
		err := netlink.AddrDel(nl, &netlink.Addr{IPNet: ipNet(prefix)})
		if errors.Is(err, unix.EADDRNOTAVAIL) {
			return nil
		}
		return err
	})
}

// IsLocal reports whether the kernel delivers what is addressed to addr to this
// host. For a new IPv6 address it takes until a work queue has run, and until the
// link is up.
func IsLocal(addr netip.Addr) (bool, error) {
	routes, err := netlink.RouteGet(addr.WithZone("").AsSlice())
	switch {
	case errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EHOSTUNREACH):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("get route to %s: %w", addr, err)
	}
	return len(routes) > 0 && routes[0].Type == unix.RTN_LOCAL, nil
}

// Addresses returns the local addresses of the namespace, of all links, sorted
// and each once, IPv6 without zone. Tentative addresses are among them.
func Addresses() ([]netip.Addr, error) { return addresses(nil) }

// LinkAddresses returns the local addresses of one link, as Addresses does.
func LinkAddresses(link string) ([]netip.Addr, error) {
	nl, err := find(link)
	if err != nil {
		return nil, err
	}
	return addresses(nl)
}

// LocalAddresses returns what the namespace takes for itself: Addresses and the
// IPv4 broadcast addresses that belong to them, given ones and those with all host
// bits set. Nobody else can have one of them. Sorted, each once.
func LocalAddresses() ([]netip.Addr, error) {
	list, err := dumpAddresses(nil)
	if err != nil {
		return nil, err
	}
	out := make([]netip.Addr, 0, 2*len(list))
	for _, a := range list {
		out = append(out, a.local)
		for _, b := range []netip.Addr{a.broadcast, lastAddress(a.subnet)} {
			if b.IsValid() {
				out = append(out, b)
			}
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out), nil
}

// lastAddress is the IPv4 subnet's address with all host bits set, not valid
// where that is no broadcast address: up to 2 addresses have none (RFC 3021).
func lastAddress(subnet netip.Prefix) netip.Addr {
	if !subnet.Addr().Is4() || subnet.Bits() > 30 {
		return netip.Addr{}
	}
	b := subnet.Addr().As4()
	host := uint32(1)<<(32-subnet.Bits()) - 1
	binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(b[:])|host)
	return netip.AddrFrom4(b)
}

func addresses(nl netlink.Link) ([]netip.Addr, error) {
	list, err := dumpAddresses(nl)
	if err != nil {
		return nil, err
	}
	out := make([]netip.Addr, 0, len(list))
	for _, a := range list {
		out = append(out, a.local)
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out), nil
}

type address struct {
	local     netip.Addr
	subnet    netip.Prefix // on the link; of the other end where that was given
	broadcast netip.Addr   // IFA_BROADCAST; not valid: none was given
}

func dumpAddresses(nl netlink.Link) ([]address, error) {
	list, err := retryDump(func() ([]netlink.Addr, error) { return netlink.AddrList(nl, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	out := make([]address, 0, len(list))
	for _, a := range list {
		if a.IPNet == nil {
			continue
		}
		local, ok := netip.AddrFromSlice(a.IP)
		if !ok {
			continue
		}
		subnet := a.IPNet
		if a.Peer != nil {
			subnet = a.Peer
		}
		entry := address{local: local.Unmap()}
		if addr, ok := netip.AddrFromSlice(subnet.IP); ok {
			bits, _ := subnet.Mask.Size()
			entry.subnet = netip.PrefixFrom(addr.Unmap(), bits)
		}
		if b, ok := netip.AddrFromSlice(a.Broadcast); ok && !b.IsUnspecified() {
			entry.broadcast = b.Unmap()
		}
		out = append(out, entry)
	}
	return out, nil
}

// AddNeighbour makes a permanent neighbour entry: the address is at that MAC,
// and is never asked for. An entry that is there is replaced.
func AddNeighbour(link string, addr netip.Addr, mac net.HardwareAddr) error {
	return change(link, fmt.Sprintf("add neighbour %s on", addr), func(nl netlink.Link) error {
		family := netlink.FAMILY_V4
		if addr.Is6() {
			family = netlink.FAMILY_V6
		}
		return netlink.NeighSet(&netlink.Neigh{
			LinkIndex:    nl.Attrs().Index,
			Family:       family,
			State:        netlink.NUD_PERMANENT,
			IP:           addr.AsSlice(),
			HardwareAddr: mac,
		})
	})
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
