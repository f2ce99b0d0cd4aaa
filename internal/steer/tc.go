// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"errors"
	"fmt"
	"hash/fnv"
	"runtime"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/internal/netdev"
)

// heartbeatLimit is the age from which a clsact filter takes its process for
// dead: four of the beats that Heartbeat wants at least every 250 ms.
const heartbeatLimit = time.Second

// pairMTU bounds the private pair. Without frags a veth takes native XDP up to
// one page less headroom, Ethernet header and skb_shared_info:
// 4096 - 258 - 14 - 320 = 3,504 bytes.
const pairMTU = 3500

// filterPriority puts the clsact filter first.
const filterPriority = 1

// filterName is what `tc filter show` says and what a stale filter is known by.
func filterName(gateway string) string { return "ovpn_tc:" + gateway }

// pairNames are the private pair's ends: 14 bytes, the same at each start, so
// that a leftover is found, and different for each gateway and device.
func pairNames(gateway, nic string) (near, far string) {
	h := fnv.New32a()
	fmt.Fprintf(h, "%s\x00%s", gateway, nic)
	stem := fmt.Sprintf("ovx-%08x-", h.Sum32())
	return stem + "n", stem + "f"
}

// attachTC lays the private pair, puts the handover program with its sockets on
// the far end and then the classifier on the device.
//
// The pair has as many queues as the device, since the kernel keeps the receive
// queue's number through the redirect and so the flows stay apart, but not more
// than there are CPUs: every queue means a socket and a worker.
func attachTC(o Options, l netdev.Link) (_ *Attachment, err error) {
	a := newAttachment(o, l)
	a.rung, a.copy, a.xdpMode = ModeTC, true, netdev.XDPNative
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	queues := max(1, min(l.RxQueues, runtime.NumCPU()))
	a.queues = upTo(queues)
	if o.Queues != nil {
		a.remarks = append(a.remarks, fmt.Sprintf("queues %s asked for: the tc rung sees all queues", queueList(slices.Sorted(slices.Values(o.Queues)))))
	}
	near, far, err := a.layPair(o, l, queues)
	if err != nil {
		return nil, err
	}
	a.chunk = chunkSize(netdev.Link{MTU: near.MTU})
	s := settings{
		frameLimit:      uint32(min(maxFrame(a.chunk), near.MTU+ethernetHeader)),
		heartbeatLimit:  heartbeatLimit,
		handoverIfindex: uint32(near.Index),
		peers:           uint32(o.Peers),
		queues:          uint32(queues),
	}
	if a.handover, _, err = load(loadHandover, s, true); err != nil {
		return nil, err
	}
	if err := nameHandover(a.handover.Maps[handoverMapHandover]); err != nil {
		return nil, err
	}
	if err := a.loadMain(loadTc, s, false); err != nil {
		return nil, err
	}
	if a.pins, err = makePins(o.PinDir, o.Gateway, o.NIC); err != nil {
		return nil, err
	}
	for _, coll := range []*ebpf.Collection{a.handover, a.main} {
		if err := a.pins.add(coll); err != nil {
			return nil, err
		}
	}

	a.farHook, err = link.AttachXDP(link.XDPOptions{
		Program: a.handover.Programs[handoverProgOvpnHandover], Interface: far.Index, Flags: link.XDPDriverMode,
	})
	if err != nil {
		return nil, fmt.Errorf("attach handover program to %s: %w", far.Name, explain(err))
	}
	if a.sockets, err = openSockets(far.Index, a.queues, o.RingSize, a.chunk, false); err != nil {
		return nil, err
	}
	if err := fillXSKMap(a.handover.Maps[handoverMapXsks], a.sockets); err != nil {
		return nil, err
	}
	if err := a.hookTC(o, l); err != nil {
		return nil, err
	}
	return a, nil
}

// layPair makes the private pair, quiet and up.
func (a *Attachment) layPair(o Options, l netdev.Link, queues int) (near, far netdev.Link, err error) {
	nearName, farName := pairNames(o.Gateway, o.NIC)
	mtu := min(max(l.MTU, 1500), pairMTU)
	if err := netdev.CreateVeth(nearName, farName, queues, mtu); err != nil {
		return near, far, explain(err)
	}
	a.pair = nearName
	if err := netdev.SetAlias(nearName, pairAlias(o.Gateway)); err != nil {
		return near, far, fmt.Errorf("prepare private pair: %w", explain(err))
	}
	for _, name := range []string{nearName, farName} {
		for _, step := range []func(string) error{
			netdev.DisableIPv6Autoconf,
			func(name string) error { return netdev.SetARP(name, false) },
			func(name string) error { return netdev.SetMulticast(name, false) },
			netdev.SetUp,
		} {
			if err := step(name); err != nil {
				return near, far, fmt.Errorf("prepare private pair: %w", explain(err))
			}
		}
	}
	if near, err = netdev.LinkByName(nearName); err != nil {
		return near, far, err
	}
	far, err = netdev.LinkByName(farName)
	return near, far, err
}

// hookTC takes tcx where the kernel has it, which ends with the process, else
// clsact. Ours goes to the head: what it does not steer it hands on to the
// filters behind it.
func (a *Attachment) hookTC(o Options, l netdev.Link) error {
	program := a.main.Programs["ovpn_tc"]
	if !o.withoutTCX {
		hook, err := link.AttachTCX(link.TCXOptions{
			Interface: l.Index, Program: program, Attach: ebpf.AttachTCXIngress, Anchor: link.Head(),
		})
		if err == nil {
			a.hook, a.tcHook = hook, "tcx"
			return nil
		}
		if !errors.Is(err, ebpf.ErrNotSupported) {
			return fmt.Errorf("attach tcx program: %w", explain(err))
		}
	}
	if err := netdev.AttachClsact(l.Index, program.FD(), filterName(o.Gateway), filterPriority); err != nil {
		return fmt.Errorf("attach tc program: %w", explain(err))
	}
	a.filter, a.tcHook = filterName(o.Gateway), "clsact"
	return nil
}

// handoverWait bounds how long settle waits for the pair to run empty. Its ring
// holds 256 frames per queue, which one NAPI poll or two take out.
const handoverWait = 200 * time.Millisecond

// settle returns when all that was redirected is in the sockets' rings.
func (a *Attachment) settle() error {
	if err := waitForReaders(); err != nil {
		return err
	}
	if a.handover == nil {
		return nil
	}
	// A frame handed to the pair still has to pass its far end's NAPI.
	for end := time.Now().Add(handoverWait); ; time.Sleep(time.Millisecond) {
		steered, arrived, err := a.handoverCounts()
		if err != nil {
			return err
		}
		if arrived+a.pairLost >= steered {
			break
		}
		if time.Now().After(end) {
			a.pairLost = steered - arrived
			break
		}
	}
	return waitForReaders()
}

// handoverCounts reads arrivals last, so that a frame on its way never counts
// as one more arrived than steered at a stop.
func (a *Attachment) handoverCounts() (steered, arrived uint64, err error) {
	verdicts, err := readVerdicts(a.main.Maps[ingressMapVerdicts])
	if err != nil {
		return 0, 0, err
	}
	arrived, a.refused, err = readHandover(a.handover.Maps[handoverMapHandover])
	return verdicts[0].Packets, arrived, err
}

// monotonic is the clock of bpf_ktime_get_ns.
func monotonic() (uint64, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0, fmt.Errorf("read clock: %w", err)
	}
	return uint64(now.Nano()), nil
}
