// SPDX-License-Identifier: Apache-2.0

package udp

import (
	"encoding/binary"
	"net/netip"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/sockaddr"
)

// This file holds all the package's unsafe code: the kernel's structures of a
// message, kept in arrays that point into each other and live as long as their
// owner.

// mmsghdr is struct mmsghdr.
type mmsghdr struct {
	hdr unix.Msghdr
	len uint32 // set by the kernel: bytes received or sent
}

// controlSize holds what a received message may have, in6_pktinfo and the
// segment size, with the room of one more int for an option that the kernel adds.
const controlSize = 128

// slot is what one mmsghdr points at.
type slot struct {
	name    unix.RawSockaddrInet6 // also holds a RawSockaddrInet4
	iov     unix.Iovec
	control [controlSize / 8]uint64 // words, for cmsghdr's alignment
}

// messages is an array for recvmmsg or sendmmsg. It must not be copied.
type messages struct {
	hdrs  []mmsghdr
	slots []slot
}

func newMessages(n int) messages {
	m := messages{hdrs: make([]mmsghdr, n), slots: make([]slot, n)}
	for i := range m.hdrs {
		h, s := &m.hdrs[i].hdr, &m.slots[i]
		h.Name = (*byte)(unsafe.Pointer(&s.name))
		h.Iov = &s.iov
		h.SetIovlen(1)
		h.Control = (*byte)(unsafe.Pointer(&s.control))
	}
	return m
}

// recvmmsg and sendmmsg return how many messages were moved, or the errno of
// the first.
func (m *messages) recvmmsg(fd int, first, n int) (int, unix.Errno) {
	return mmsg(unix.SYS_RECVMMSG, fd, m.hdrs[first:first+n])
}

func sendmmsg(fd int, hdrs []mmsghdr) (int, unix.Errno) {
	return mmsg(unix.SYS_SENDMMSG, fd, hdrs)
}

func mmsg(call uintptr, fd int, hdrs []mmsghdr) (int, unix.Errno) {
	for {
		n, _, errno := unix.Syscall6(call, uintptr(fd),
			uintptr(unsafe.Pointer(unsafe.SliceData(hdrs))), uintptr(len(hdrs)), unix.MSG_DONTWAIT, 0, 0)
		if errno != unix.EINTR {
			return int(n), errno
		}
	}
}

// setData points message i at the bytes.
func (m *messages) setData(i int, b []byte) {
	s := &m.slots[i]
	s.iov.Base = unsafe.SliceData(b)
	s.iov.SetLen(len(b))
}

// clear makes message i ready to be received into again.
func (m *messages) clear(i int) {
	h := &m.hdrs[i].hdr
	h.Namelen = unix.SizeofSockaddrInet6
	h.SetControllen(controlSize)
	h.Flags = 0
}

// setDestination addresses message i.
func (m *messages) setDestination(i int, to netip.AddrPort, scope uint32) {
	h, s := &m.hdrs[i].hdr, &m.slots[i]
	if to.Addr().Is4() {
		sa := (*unix.RawSockaddrInet4)(unsafe.Pointer(&s.name))
		sa.Family = unix.AF_INET
		sa.Addr = to.Addr().As4()
		putPort(&sa.Port, to.Port())
		h.Namelen = unix.SizeofSockaddrInet4
		return
	}
	s.name = unix.RawSockaddrInet6{Family: unix.AF_INET6, Addr: to.Addr().As16(), Scope_id: scope}
	putPort(&s.name.Port, to.Port())
	h.Namelen = unix.SizeofSockaddrInet6
}

// source is the sender of message i, and its scope if it is link-local.
func (m *messages) source(i int) (from netip.AddrPort, scope uint32) {
	s := &m.slots[i]
	switch s.name.Family {
	case unix.AF_INET:
		sa := (*unix.RawSockaddrInet4)(unsafe.Pointer(&s.name))
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), port(&sa.Port)), 0
	case unix.AF_INET6:
		return netip.AddrPortFrom(netip.AddrFrom16(s.name.Addr), port(&s.name.Port)), s.name.Scope_id
	}
	return netip.AddrPort{}, 0
}

// Ports are in network byte order inside a native uint16.
func putPort(field *uint16, port uint16) {
	binary.BigEndian.PutUint16((*[2]byte)(unsafe.Pointer(field))[:], port)
}

func port(field *uint16) uint16 {
	return binary.BigEndian.Uint16((*[2]byte)(unsafe.Pointer(field))[:])
}

// setControl gives message i the local address to leave from, unless it is
// invalid, and the segment size, unless it is 0.
func (m *messages) setControl(i int, local netip.Addr, scope uint32, segment int) {
	buf := m.slots[i].bytes()
	used := 0
	switch {
	case local.Is4():
		b := putCmsg(buf, unix.IPPROTO_IP, unix.IP_PKTINFO, unix.SizeofInet4Pktinfo)
		info := (*unix.Inet4Pktinfo)(unsafe.Pointer(&b[0]))
		*info = unix.Inet4Pktinfo{Spec_dst: local.As4()}
		used = unix.CmsgSpace(unix.SizeofInet4Pktinfo)
	case local.Is6():
		b := putCmsg(buf, unix.IPPROTO_IPV6, unix.IPV6_PKTINFO, unix.SizeofInet6Pktinfo)
		info := (*unix.Inet6Pktinfo)(unsafe.Pointer(&b[0]))
		*info = unix.Inet6Pktinfo{Addr: local.As16(), Ifindex: scope}
		used = unix.CmsgSpace(unix.SizeofInet6Pktinfo)
	}
	if segment != 0 {
		b := putCmsg(buf[used:], unix.IPPROTO_UDP, unix.UDP_SEGMENT, 2)
		binary.NativeEndian.PutUint16(b, uint16(segment))
		used += unix.CmsgSpace(2)
	}
	h := &m.hdrs[i].hdr
	h.SetControllen(used)
	// With a length of 0 the kernel must not be given a pointer to care about.
	h.Control = nil
	if used > 0 {
		h.Control = (*byte)(unsafe.Pointer(&m.slots[i].control))
	}
}

// control reads the local address and the segment size (0: one datagram).
func (m *messages) control(i int) (local netip.Addr, segment int) {
	buf := m.slots[i].bytes()
	buf = buf[:min(uint64(m.hdrs[i].hdr.Controllen), controlSize)]
	for len(buf) >= unix.SizeofCmsghdr {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&buf[0]))
		size := uint64(h.Len)
		if size < unix.SizeofCmsghdr || size > uint64(len(buf)) {
			break
		}
		data := buf[unix.CmsgLen(0):size]
		switch {
		case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_PKTINFO && len(data) >= unix.SizeofInet4Pktinfo:
			// The address to answer from, which is the destination unless
			// that was a broadcast or multicast address.
			local = netip.AddrFrom4((*unix.Inet4Pktinfo)(unsafe.Pointer(&data[0])).Spec_dst)
		case h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_PKTINFO && len(data) >= unix.SizeofInet6Pktinfo:
			local = netip.AddrFrom16((*unix.Inet6Pktinfo)(unsafe.Pointer(&data[0])).Addr)
		case h.Level == unix.IPPROTO_UDP && h.Type == unix.UDP_GRO && len(data) >= 4:
			segment = int(int32(binary.NativeEndian.Uint32(data)))
		}
		buf = buf[min(uint64(unix.CmsgSpace(len(data))), uint64(len(buf))):]
	}
	return local, segment
}

func (s *slot) bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&s.control)), controlSize)
}

// putCmsg writes a header into buf and returns the room for its data.
func putCmsg(buf []byte, level, typ int32, size int) []byte {
	h := (*unix.Cmsghdr)(unsafe.Pointer(&buf[0]))
	h.Level, h.Type = level, typ
	h.SetLen(unix.CmsgLen(size))
	return buf[unix.CmsgLen(0):unix.CmsgLen(size)]
}

// zoneCache turns scope ids into zones and back without allocating while the
// link stays the same. It belongs to one goroutine.
type zoneCache struct {
	scope uint32
	zone  string
}

func (z *zoneCache) with(addr netip.Addr, scope uint32) netip.Addr {
	if scope == 0 || !addr.IsLinkLocalUnicast() {
		return addr
	}
	if scope != z.scope {
		z.scope, z.zone = scope, strconv.FormatUint(uint64(scope), 10)
	}
	return addr.WithZone(z.zone)
}

// scopeOf is the scope id of an address that needs one; a zone that is no link is 0.
func (z *zoneCache) scopeOf(addr netip.Addr) uint32 {
	zone := addr.Zone()
	if zone == "" {
		return 0
	}
	if zone != z.zone {
		scope, err := sockaddr.Zone(zone)
		if err != nil {
			return 0
		}
		z.scope, z.zone = scope, zone
	}
	return z.scope
}
