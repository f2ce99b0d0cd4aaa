// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/internal/netdev"
)

func attachNative(o Options, l netdev.Link) (*Attachment, error) {
	return attachXDP(o, l, netdev.XDPNative, true, true)
}

func attachZeroCopy(o Options, l netdev.Link) (*Attachment, error) {
	return attachXDP(o, l, netdev.XDPNative, true, false)
}

func attachCopy(o Options, l netdev.Link) (*Attachment, error) {
	return attachXDP(o, l, netdev.XDPNative, false, true)
}

func attachGeneric(o Options, l netdev.Link) (*Attachment, error) {
	return attachXDP(o, l, netdev.XDPGeneric, false, true)
}

// attachXDP puts the program on the device and then binds the sockets, in
// zero-copy mode if that may be and works, else in copy mode if that may be.
// The program comes first: several drivers give a queue its AF_XDP pool only
// while one is loaded.
func attachXDP(o Options, l netdev.Link, mode netdev.XDPMode, zeroCopy, copyMode bool) (_ *Attachment, err error) {
	if h := slotHolder(l); h != nil {
		return nil, &SlotHeldError{NIC: l.Name, Holder: *h}
	}
	native := mode == netdev.XDPNative
	if native && isAggregate(l) {
		return nil, errAggregate(l)
	}
	a := newAttachment(o, l)
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	if a.queues, a.missing, err = pickQueues(l, o.Queues); err != nil {
		return nil, err
	}
	a.chunk = chunkSize(l)
	s := settings{
		frameLimit: uint32(maxFrame(a.chunk)),
		peers:      uint32(o.Peers),
		queues:     uint32(max(l.RxQueues, l.NumRxQueues)),
	}
	if !native {
		// A generic hook sees segmentation aggregates of local senders. What is
		// longer than the device's MTU can be nothing else.
		s.frameLimit = min(s.frameLimit, uint32(l.MTU+ethernetHeader+vlanTag))
	}
	// Never frags in generic mode: kernels from 6.3 on panic over it.
	if err := a.loadMain(loadIngress, s, native); err != nil {
		return nil, err
	}
	if a.pins, err = makePins(o.PinDir, o.Gateway, o.NIC); err != nil {
		return nil, err
	}
	if err := a.pins.add(a.main); err != nil {
		return nil, err
	}

	flags := link.XDPDriverMode
	if !native {
		flags = link.XDPGenericMode
	}
	a.hook, err = link.AttachXDP(link.XDPOptions{Program: a.main.Programs[ingressProgOvpnXdp], Interface: l.Index, Flags: flags})
	if err != nil {
		return nil, attachError(err, l)
	}
	a.xdpMode = mode

	if zeroCopy {
		a.rung = ModeZeroCopy
		a.sockets, err = openSockets(l.Index, a.queues, o.RingSize, a.chunk, true)
		if err != nil && !copyMode {
			return nil, err
		}
		if err != nil {
			a.notes = append(a.notes, "zero-copy: "+cause(err))
		}
	}
	if a.sockets == nil {
		a.rung, a.copy = ModeXDP, true
		if !native {
			a.rung = ModeXDPGeneric
		}
		if a.sockets, err = openSockets(l.Index, a.queues, o.RingSize, a.chunk, false); err != nil {
			return nil, err
		}
	}
	if err := fillXSKMap(a.main.Maps[ingressMapXsks], a.sockets); err != nil {
		return nil, err
	}
	return a, nil
}

// attachError explains a refused attach: somebody may have been faster, and
// drivers say no more than an errno about an MTU that is too large.
func attachError(err error, l netdev.Link) error {
	if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EEXIST) {
		if now, lookup := netdev.LinkByIndex(l.Index); lookup == nil {
			if h := slotHolder(now); h != nil {
				return &SlotHeldError{NIC: l.Name, Holder: *h}
			}
		}
	}
	if errors.Is(err, unix.ERANGE) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.E2BIG) {
		return fmt.Errorf("attach XDP program: %w (driver %s, MTU %d: many drivers limit the MTU for XDP)", err, l.Driver, l.MTU)
	}
	return fmt.Errorf("attach XDP program: %w", explain(err))
}
