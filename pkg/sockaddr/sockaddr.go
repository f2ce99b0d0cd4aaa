// SPDX-License-Identifier: Apache-2.0

// Package sockaddr turns netip addresses into the kernel's socket addresses and back.
package sockaddr

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"
)

// From returns an address as the kernel takes it. The error says that a zone is no link.
func From(addr netip.AddrPort) (unix.Sockaddr, error) {
	ip := addr.Addr()
	if ip.Is4() {
		return &unix.SockaddrInet4{Port: int(addr.Port()), Addr: ip.As4()}, nil
	}
	zone, err := Zone(ip.Zone())
	if err != nil {
		return nil, err
	}
	return &unix.SockaddrInet6{Port: int(addr.Port()), Addr: ip.As16(), ZoneId: zone}, nil
}

// Zone resolves an IPv6 zone, a link's name or index; no zone is 0.
func Zone(zone string) (uint32, error) {
	if zone == "" {
		return 0, nil
	}
	if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
		return uint32(n), nil
	}
	link, err := net.InterfaceByName(zone)
	if err != nil {
		return 0, fmt.Errorf("find zone %s: %w", zone, err)
	}
	return uint32(link.Index), nil
}

// AddrPort returns the address that the kernel gave, a link-local one with the link's
// index as zone; invalid: it is of another family than IP.
func AddrPort(sa unix.Sockaddr) netip.AddrPort {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		a := netip.AddrFrom16(sa.Addr)
		if sa.ZoneId != 0 && a.IsLinkLocalUnicast() {
			a = a.WithZone(strconv.FormatUint(uint64(sa.ZoneId), 10))
		}
		return netip.AddrPortFrom(a, uint16(sa.Port))
	}
	return netip.AddrPort{}
}
