// SPDX-License-Identifier: Apache-2.0

package netdev_test

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/internal/netdev"
	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
)

// expect reads events until one fits.
func expect(t *testing.T, events <-chan netdev.Event, what string, fits func(netdev.Event) bool) netdev.Event {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		select {
		case e := <-events:
			if e.Kind == netdev.Resync {
				t.Fatalf("resync while waiting for %s", what)
			}
			if fits(e) {
				return e
			}
		case <-deadline:
			t.Fatalf("no event: %s", what)
		}
	}
}

func TestWatch(t *testing.T) {
	ns := testlab.New(t).Namespace("x")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	events := make(chan netdev.Event, 1000)
	var done <-chan struct{}
	ns.Do(func() {
		var err error
		done, err = netdev.Watch(ctx, func(e netdev.Event) { events <- e })
		must(t, err)
		must(t, netdev.CreateVeth("ov0", "ov1", 1, 0))
	})
	e := expect(t, events, "created", func(e netdev.Event) bool { return e.Kind == netdev.LinkChanged && e.Link.Name == "ov0" })
	if e.Link.Up() || e.Link.MTU != 1500 || e.Ifindex != e.Link.Index {
		t.Errorf("created: %+v", e)
	}
	index := e.Ifindex
	same := func(e netdev.Event) bool { return e.Kind == netdev.LinkChanged && e.Ifindex == index }
	ns.Do(func() { must(t, netdev.SetUp("ov0")); must(t, netdev.SetUp("ov1")) })
	expect(t, events, "up", func(e netdev.Event) bool { return same(e) && e.Link.Running() })
	ns.Do(func() { must(t, netdev.SetMTU("ov0", 1400)) })
	expect(t, events, "mtu", func(e netdev.Event) bool { return same(e) && e.Link.MTU == 1400 })
	for _, p := range []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24"), netip.MustParsePrefix("2001:db8::1/64")} {
		is := func(kind netdev.EventKind) func(netdev.Event) bool {
			return func(e netdev.Event) bool { return e.Kind == kind && e.Address == p && e.Ifindex == index }
		}
		ns.Do(func() { must(t, netdev.AddAddress("ov0", p)) })
		expect(t, events, "address added", is(netdev.AddressAdded))
		ns.Do(func() { must(t, netdev.DelAddress("ov0", p)) })
		expect(t, events, "address removed", is(netdev.AddressRemoved))
	}
	ns.Do(func() { must(t, netdev.SetDown("ov0")) })
	expect(t, events, "down", func(e netdev.Event) bool { return same(e) && !e.Link.Up() })
	ns.Do(func() { must(t, netdev.DeleteLink("ov0")) })
	expect(t, events, "deleted", func(e netdev.Event) bool { return e.Kind == netdev.LinkDeleted && e.Ifindex == index })
	cancel()
	<-done
}

// A program that comes or goes by netlink is told; one by a bpf_link shows in
// the next event.
func TestWatchXDP(t *testing.T) {
	ns := testlab.New(t).Namespace("x")
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.XDP, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}, // XDP_PASS
	})
	must(t, err)
	defer prog.Close()
	info, err := prog.Info()
	must(t, err)
	id, _ := info.ID()
	want := netdev.XDP{Attached: true, ProgID: uint32(id), Mode: netdev.XDPNative}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	events := make(chan netdev.Event, 1000)
	var done <-chan struct{}
	var nl netlink.Link
	ns.Do(func() {
		must(t, netdev.CreateVeth("ov0", "ov1", 1, 0))
		must(t, netdev.SetUp("ov0")) // of a link that is down the kernel tells no such change
		nl, err = netlink.LinkByName("ov0")
		must(t, err)
		done, err = netdev.Watch(ctx, func(e netdev.Event) { events <- e })
		must(t, err)
	})
	ours := func(xdp netdev.XDP) func(netdev.Event) bool {
		return func(e netdev.Event) bool {
			return e.Kind == netdev.LinkChanged && e.Ifindex == nl.Attrs().Index && e.Link.XDP == xdp
		}
	}
	ns.Do(func() { must(t, netlink.LinkSetXdpFdWithFlags(nl, prog.FD(), unix.XDP_FLAGS_DRV_MODE)) })
	expect(t, events, "program attached by netlink", ours(want))
	ns.Do(func() { must(t, netlink.LinkSetXdpFdWithFlags(nl, -1, unix.XDP_FLAGS_DRV_MODE)) })
	expect(t, events, "program detached by netlink", ours(netdev.XDP{}))

	var l link.Link
	ns.Do(func() {
		l, err = link.AttachXDP(link.XDPOptions{Program: prog, Interface: nl.Attrs().Index, Flags: link.XDPDriverMode})
		must(t, err)
		must(t, netdev.SetMTU("ov0", 1400))
	})
	defer l.Close()
	expect(t, events, "change of a link with a program", ours(want))
	must(t, l.Close())
	ns.Do(func() { must(t, netdev.SetMTU("ov0", 1401)) })
	expect(t, events, "change of a link without one", ours(netdev.XDP{}))
	cancel()
	<-done
}

// A receiver that sleeps through more events than the socket holds is told so
// and hears of what follows.
func TestWatchOverrun(t *testing.T) {
	ns := testlab.New(t).Namespace("x")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	blocked, release := make(chan struct{}), make(chan struct{})
	events := make(chan netdev.Event, 100_000)
	var done <-chan struct{}
	ns.Do(func() {
		first := true
		var err error
		done, err = netdev.Watch(ctx, func(e netdev.Event) {
			if first {
				first = false
				close(blocked)
				<-release
			}
			events <- e
		})
		must(t, err)
		p := netip.MustParsePrefix("192.0.2.1/24")
		must(t, netdev.AddAddress("lo", p))
		<-blocked
		for range 5000 {
			must(t, netdev.DelAddress("lo", p))
			must(t, netdev.AddAddress("lo", p))
		}
		close(release)
	})
	for {
		select {
		case e := <-events:
			if e.Kind != netdev.Resync {
				continue
			}
		case <-time.After(10 * time.Second):
			t.Fatal("no resync")
		}
		break
	}
	// What is said while the buffer is still full is lost as well, so the
	// change is made again until it is heard of.
	again := netip.MustParsePrefix("192.0.2.77/32")
	for heard := false; !heard; {
		ns.Do(func() {
			must(t, netdev.AddAddress("lo", again))
			must(t, netdev.DelAddress("lo", again))
		})
		select {
		case e := <-events:
			heard = e.Kind == netdev.AddressAdded && e.Address == again
		case <-time.After(10 * time.Second):
			t.Fatal("silent after the overrun")
		}
	}
	cancel()
	<-done
}
