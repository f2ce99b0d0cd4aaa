// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// EventKind says what happened.
type EventKind uint8

// Kinds of events.
const (
	// LinkChanged: a link was created, or its name, flags, MTU or another
	// attribute changed. Event.Link is its state when that happened, which may
	// be out of date when the event is handled; a new Index under a known Name
	// is another device. An XDP program that comes or goes by netlink is such a
	// change; one that does by a bpf_link is not told.
	LinkChanged EventKind = iota + 1
	// LinkDeleted: the link is gone from the namespace.
	LinkDeleted
	// AddressAdded: a link got an address, or the address left its tentative state.
	AddressAdded
	// AddressRemoved: a link lost an address.
	AddressRemoved
	// Resync: events were lost. The receiver has to read links and
	// addresses again.
	Resync
)

// String names the kind as logs show it.
func (k EventKind) String() string {
	switch k {
	case LinkChanged:
		return "link_changed"
	case LinkDeleted:
		return "link_deleted"
	case AddressAdded:
		return "address_added"
	case AddressRemoved:
		return "address_removed"
	case Resync:
		return "resync"
	}
	return "unknown"
}

// Event is one change of links or addresses.
type Event struct {
	Kind    EventKind
	Link    Link         // LinkChanged, LinkDeleted; without Driver, RxQueues as allocated
	Ifindex int          // of the link, for address events too
	Address netip.Prefix // AddressAdded, AddressRemoved
}

// watchBuffer is the receive buffer of a Watch in bytes. A link event is about
// 1.5 KiB and is charged at twice that, so this holds over 300 of them; more
// end in a Resync.
const watchBuffer = 1 << 20

// Watch subscribes to changes of links and addresses in the namespace of the
// calling thread and returns once it is subscribed, so that what a caller lists
// afterwards together with the events is complete. One goroutine calls fn with
// one event after the other, in the kernel's order, until ctx ends; fn may take
// its time, since what overruns the socket's buffer is reported as Resync.
// The channel is closed after the last call of fn.
func Watch(ctx context.Context, fn func(Event)) (<-chan struct{}, error) {
	socket, err := nl.Subscribe(unix.NETLINK_ROUTE,
		unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR)
	if err != nil {
		return nil, fmt.Errorf("subscribe to link and address changes: %w", err)
	}
	// Without CAP_NET_ADMIN the default buffer has to do; overruns are handled anyway.
	if socket.SetReceiveBufferSize(watchBuffer, true) != nil {
		_ = socket.SetReceiveBufferSize(watchBuffer, false)
	}
	stop := context.AfterFunc(ctx, socket.Close)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer socket.Close()
		defer stop()
		watch(ctx, socket, fn)
	}()
	return done, nil
}

func watch(ctx context.Context, socket *nl.NetlinkSocket, fn func(Event)) {
	for ctx.Err() == nil {
		messages, from, err := socket.Receive()
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
			continue
		case err != nil:
			// ENOBUFS is an overrun and the socket goes on; a message that
			// can't be parsed is lost just the same. Either way the subscription
			// stands, and only the state has to be read again.
			fn(Event{Kind: Resync})
			continue
		case from.Pid != 0: // not from the kernel
			continue
		}
		for i := range messages {
			if e, ok := parseEvent(&messages[i]); ok {
				fn(e)
			}
		}
	}
}

func parseEvent(m *syscall.NetlinkMessage) (Event, bool) {
	switch m.Header.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		return parseLinkEvent(m)
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		return parseAddressEvent(m)
	}
	return Event{}, false
}

func parseLinkEvent(m *syscall.NetlinkMessage) (Event, bool) {
	// A bridge announces its ports' coming and going as links of family
	// AF_BRIDGE: the device itself stays.
	if len(m.Data) < unix.SizeofIfInfomsg || nl.DeserializeIfInfomsg(m.Data).Family == unix.AF_BRIDGE {
		return Event{}, false
	}
	link, err := netlink.LinkDeserialize((*unix.NlMsghdr)(&m.Header), m.Data)
	if err != nil {
		return Event{Kind: Resync}, true
	}
	e := Event{Kind: LinkChanged, Link: snapshot(link), Ifindex: link.Attrs().Index}
	if m.Header.Type == unix.RTM_DELLINK {
		e.Kind = LinkDeleted
	}
	return e, true
}

func parseAddressEvent(m *syscall.NetlinkMessage) (Event, bool) {
	if len(m.Data) < unix.SizeofIfAddrmsg {
		return Event{}, false
	}
	msg := nl.DeserializeIfAddrmsg(m.Data)
	attrs, err := nl.ParseRouteAttr(m.Data[msg.Len():])
	if err != nil {
		return Event{Kind: Resync}, true
	}
	// IFA_LOCAL is the address of this end; IPv6 leaves it out unless the link
	// is point to point, and then IFA_ADDRESS is the local one.
	var local, address netip.Addr
	for _, a := range attrs {
		switch a.Attr.Type {
		case unix.IFA_LOCAL:
			local, _ = netip.AddrFromSlice(a.Value)
		case unix.IFA_ADDRESS:
			address, _ = netip.AddrFromSlice(a.Value)
		}
	}
	if !local.IsValid() {
		local = address
	}
	if !local.IsValid() {
		return Event{}, false
	}
	e := Event{
		Kind:    AddressAdded,
		Ifindex: int(msg.Index),
		Address: netip.PrefixFrom(local, int(msg.Prefixlen)),
	}
	if m.Header.Type == unix.RTM_DELADDR {
		e.Kind = AddressRemoved
	}
	return e, true
}
