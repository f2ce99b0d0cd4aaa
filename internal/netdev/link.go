// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// ErrNotFound is what a lookup wraps when no link has that name or index.
var ErrNotFound = errors.New("no such network device")

// MaxName is the longest name of a link in bytes: IFNAMSIZ without its NUL.
const MaxName = unix.IFNAMSIZ - 1

// XDPMode says where a link runs its XDP program.
type XDPMode string

// Modes of an attached XDP program, from IFLA_XDP_ATTACHED.
const (
	XDPNone     XDPMode = ""
	XDPNative   XDPMode = "native"
	XDPGeneric  XDPMode = "generic"
	XDPOffload  XDPMode = "offload"
	XDPMultiple XDPMode = "multiple"
)

// XDP is the XDP slot of a link.
type XDP struct {
	Attached bool
	ProgID   uint32 // 0 when several modes are attached
	Mode     XDPMode
}

// Link is a snapshot of one network device.
type Link struct {
	Index       int
	Name        string
	Alias       string // IFLA_IFALIAS, free text of up to 255 bytes; empty: none
	Kind        string // IFLA_INFO_KIND: veth, bond, vlan...; "device" for hardware
	Driver      string // ethtool's name of the driver; empty when it has none, and in an Event
	MTU         int    // bytes, without the link layer header
	MAC         net.HardwareAddr
	RxQueues    int // receive queues in use; at least 1
	NumRxQueues int // receive queues allocated, IFLA_NUM_RX_QUEUES
	NumTxQueues int
	Flags       net.Flags
	RawFlags    uint32 // IFF_*
	Lower       int    // index of the link below (VLAN device) or of a veth's peer; 0: none
	Master      int    // index of the bridge or bond above; 0: none
	XDP         XDP
}

// Up reports whether the link is administratively up.
func (l Link) Up() bool { return l.RawFlags&unix.IFF_UP != 0 }

// Running reports whether the link is up and has a carrier.
func (l Link) Running() bool { return l.RawFlags&unix.IFF_RUNNING != 0 }

// LinkByName returns the link of that name, or an error wrapping ErrNotFound.
func LinkByName(name string) (Link, error) {
	nl, err := find(name)
	if err != nil {
		return Link{}, err
	}
	return complete(snapshot(nl)), nil
}

// LinkByIndex returns the link of that index, or an error wrapping ErrNotFound.
func LinkByIndex(index int) (Link, error) {
	nl, err := netlink.LinkByIndex(index)
	if err != nil {
		return Link{}, lookupError(fmt.Sprintf("index %d", index), err)
	}
	return complete(snapshot(nl)), nil
}

// Links returns every link of the namespace, in order of index.
func Links() ([]Link, error) {
	links, err := LinkDump()
	for i := range links {
		links[i] = complete(links[i])
	}
	return links, err
}

// LinkDump is Links with one netlink dump and nothing else: without Driver, and
// RxQueues as allocated.
func LinkDump() ([]Link, error) {
	found, err := retryDump(netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	links := make([]Link, 0, len(found))
	for _, nl := range found {
		links = append(links, snapshot(nl))
	}
	return links, nil
}

// SetUp brings the link up.
func SetUp(name string) error { return change(name, "set up", netlink.LinkSetUp) }

// SetDown takes the link down.
func SetDown(name string) error { return change(name, "set down", netlink.LinkSetDown) }

// SetMTU sets the MTU in bytes.
func SetMTU(name string, mtu int) error {
	return change(name, fmt.Sprintf("set mtu %d of", mtu), func(nl netlink.Link) error {
		return netlink.LinkSetMTU(nl, mtu)
	})
}

// SetARP turns address resolution (IPv4 ARP, IPv6 neighbour discovery) on or off.
func SetARP(name string, on bool) error {
	return change(name, "set arp of", func(nl netlink.Link) error {
		if on {
			return netlink.LinkSetARPOn(nl)
		}
		return netlink.LinkSetARPOff(nl)
	})
}

// SetMulticast sets the link's multicast flag. Without it the kernel joins no
// groups on the link by itself, which it otherwise announces, such as that of all
// routers when the host becomes one.
func SetMulticast(name string, on bool) error {
	return change(name, "set multicast flag of", func(nl netlink.Link) error {
		if on {
			return netlink.LinkSetMulticastOn(nl)
		}
		return netlink.LinkSetMulticastOff(nl)
	})
}

// AcceptLocalSource lets packets come in on the link whose IPv4 source is one
// of this host's own addresses, which the kernel drops otherwise. IPv6 knows no
// such check.
func AcceptLocalSource(name string) error {
	path := "/proc/sys/net/ipv4/conf/" + name + "/accept_local"
	if err := os.WriteFile(path, []byte("1"), 0); err != nil {
		return fmt.Errorf("accept local sources on %s: %w", name, err)
	}
	return nil
}

// SetAlias gives the link a text that `ip link` shows.
func SetAlias(name, alias string) error {
	return change(name, "set alias of", func(nl netlink.Link) error { return netlink.LinkSetAlias(nl, alias) })
}

// inet6AddrGenModeNone is IN6_ADDR_GEN_MODE_NONE: no link-local address is made.
const inet6AddrGenModeNone = 1

// DisableIPv6Autoconf stops the kernel from giving the link an IPv6 link-local
// address when it comes up. Without an address it sends neither router
// solicitations nor multicast listener reports. A kernel without IPv6 has
// nothing to stop, which is no error.
func DisableIPv6Autoconf(name string) error {
	return change(name, "set addrgenmode none of", func(nl netlink.Link) error {
		err := netlink.LinkSetIP6AddrGenMode(nl, inet6AddrGenModeNone)
		if errors.Is(err, unix.EAFNOSUPPORT) {
			return nil
		}
		return err
	})
}

// DeleteLink removes the link; one that is gone already is no error.
func DeleteLink(name string) error {
	err := change(name, "delete", netlink.LinkDel)
	if errors.Is(err, ErrNotFound) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

func find(name string) (netlink.Link, error) {
	if name == "" || len(name) > MaxName {
		return nil, fmt.Errorf("find link %q: %w", name, ErrNotFound)
	}
	nl, err := netlink.LinkByName(name)
	if err != nil {
		return nil, lookupError(name, err)
	}
	// A lookup by name also answers for alternative names. A caller that
	// asked for eth0 and means eth0 must not be given another device.
	if nl.Attrs().Name != name {
		return nil, fmt.Errorf("find link %s: is an alternative name of %s: %w", name, nl.Attrs().Name, ErrNotFound)
	}
	return nl, nil
}

func lookupError(what string, err error) error {
	var missing netlink.LinkNotFoundError
	if errors.As(err, &missing) || errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("find link %s: %w", what, ErrNotFound)
	}
	return fmt.Errorf("find link %s: %w", what, err)
}

func change(name, verb string, apply func(netlink.Link) error) error {
	nl, err := find(name)
	if err != nil {
		return err
	}
	if err := apply(nl); err != nil {
		return fmt.Errorf("%s link %s: %w", verb, name, err)
	}
	return nil
}

func snapshot(nl netlink.Link) Link {
	a := nl.Attrs()
	l := Link{
		Index:       a.Index,
		Name:        a.Name,
		Alias:       a.Alias,
		Kind:        nl.Type(),
		MTU:         a.MTU,
		MAC:         a.HardwareAddr,
		RxQueues:    max(a.NumRxQueues, 1),
		NumRxQueues: a.NumRxQueues,
		NumTxQueues: a.NumTxQueues,
		Flags:       a.Flags,
		RawFlags:    a.RawFlags,
		Lower:       a.ParentIndex,
		Master:      a.MasterIndex,
	}
	if a.Xdp != nil && a.Xdp.Attached {
		l.XDP = XDP{Attached: true, ProgID: a.Xdp.ProgId, Mode: xdpMode(a.Xdp.AttachMode)}
	}
	return l
}

// complete adds what only the ethtool ioctls tell. They go by name, so a
// device renamed meanwhile just stays without.
func complete(l Link) Link {
	l.Driver = driver(l.Name)
	if c, err := Channels(l.Name); err == nil && c.RxQueues() > 0 {
		l.RxQueues = c.RxQueues()
	}
	return l
}

func xdpMode(attached uint32) XDPMode {
	switch attached {
	case nlXDPAttachedDrv:
		return XDPNative
	case nlXDPAttachedSKB:
		return XDPGeneric
	case nlXDPAttachedHW:
		return XDPOffload
	case nlXDPAttachedMulti:
		return XDPMultiple
	}
	return XDPNone
}

// Values of IFLA_XDP_ATTACHED in linux/if_link.h.
const (
	nlXDPAttachedDrv   = 1
	nlXDPAttachedSKB   = 2
	nlXDPAttachedHW    = 3
	nlXDPAttachedMulti = 4
)

// retryDump repeats a dump that the kernel marked as interrupted by a change,
// since such a list may lack entries. Eight tries outlast any burst of changes
// that is not a loop.
func retryDump[T any](dump func() (T, error)) (T, error) {
	var out T
	var err error
	for range 8 {
		out, err = dump()
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return out, err
}
