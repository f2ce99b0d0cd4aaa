// SPDX-License-Identifier: Apache-2.0

package tun_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/internal/netdev"
	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/tun"
)

// open makes a device in the namespace, up and without IPv6 chatter.
func open(t *testing.T, ns *testlab.Namespace, cfg tun.Config, addresses ...string) *tun.Device {
	t.Helper()
	testlab.RequireFile(t, "/dev/net/tun")
	var d *tun.Device
	ns.Do(func() {
		var err error
		if d, err = tun.Open(cfg); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
		if err := netdev.DisableIPv6Autoconf(d.Name()); err != nil {
			t.Fatal(err)
		}
		if err := netdev.SetUp(d.Name()); err != nil {
			t.Fatal(err)
		}
	})
	for _, a := range addresses {
		ns.Address(d.Name(), netip.MustParsePrefix(a))
	}
	return d
}

func TestOpen(t *testing.T) {
	lab := testlab.New(t)
	ns := lab.Namespace("x")
	d := open(t, ns, tun.Config{Name: "tun7", Queues: 3})
	link := ns.Link("tun7")
	if d.Name() != "tun7" || link.Kind != "tuntap" && link.Kind != "tun" || len(d.Queues()) != 3 {
		t.Errorf("%s of kind %s with %d queues", d.Name(), link.Kind, len(d.Queues()))
	}
	for i, q := range d.Queues() {
		flags, err := unix.FcntlInt(uintptr(q.FD()), unix.F_GETFL, 0)
		if err != nil || flags&unix.O_NONBLOCK == 0 || q.Index() != i {
			t.Errorf("queue %d: index %d, flags %#x, %v", i, q.Index(), flags, err)
		}
	}
	if !d.Offload().TSO {
		t.Error("no TSO")
	}
	unnamed := open(t, ns, tun.Config{})
	if !strings.HasPrefix(unnamed.Name(), "tun") || len(unnamed.Queues()) != 1 {
		t.Errorf("%q with %d queues", unnamed.Name(), len(unnamed.Queues()))
	}
	if d := open(t, lab.Namespace("y"), tun.Config{Name: "tun7"}); d.Name() != "tun7" {
		t.Errorf("%q in another namespace", d.Name())
	}
	if err := unnamed.Close(); err != nil {
		t.Fatal(err)
	}
	ns.Do(func() {
		if _, err := netdev.LinkByName(unnamed.Name()); !errors.Is(err, netdev.ErrNotFound) {
			t.Errorf("closed device: %v", err)
		}
	})
}

func TestOpenErrors(t *testing.T) {
	ns := testlab.New(t).Namespace("x")
	open(t, ns, tun.Config{Name: "mine", Queues: 1})
	ns.Do(func() {
		if err := netdev.CreateVeth("veth0", "veth1", 1, 0); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			cfg  tun.Config
			want error
		}{
			{tun.Config{Name: "mine"}, tun.ErrNameInUse},
			{tun.Config{Name: "mine", Queues: 2}, tun.ErrNameInUse},
			{tun.Config{Name: "veth0"}, tun.ErrNameInUse},
			{tun.Config{Name: "lo"}, tun.ErrNameInUse},
			{tun.Config{Name: "a/b"}, unix.EINVAL},
			{tun.Config{Name: "sixteen-bytes-16"}, nil},
			{tun.Config{Name: "many", Queues: tun.MaxQueues + 1}, nil},
		} {
			d, err := tun.Open(c.cfg)
			if err == nil {
				d.Close()
				t.Errorf("%+v was opened", c.cfg)
				continue
			}
			if c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.cfg.Name) {
				t.Errorf("%+v: %v, want %v and the name", c.cfg, err, c.want)
			}
		}
		links, err := netdev.Links()
		if err != nil || len(links) != 4 {
			t.Errorf("failed opens left %v, %v", links, err)
		}
	})
}

func TestDownAndDeletedDevice(t *testing.T) {
	ns := testlab.New(t).Namespace("x")
	d := open(t, ns, tun.Config{Name: "tun0"}, "10.9.0.1/24")
	w, q := d.NewWriter(0), d.Queues()[0]
	packet := udp4("10.9.0.2", "10.9.0.1", 1000, 2000, []byte("x"))
	buf := make([]byte, tun.MaxRead)
	if err := w.Write([][]byte{plain[:], packet}); err != nil {
		t.Errorf("device up: %v", err)
	}
	if _, err := q.Read(buf); err != unix.EAGAIN {
		// The kernel answers with an ICMP error, since nobody listens.
		if err != nil {
			t.Errorf("device up: %v", err)
		}
	}
	ns.Do(func() {
		if err := netdev.SetDown("tun0"); err != nil {
			t.Fatal(err)
		}
	})
	if err := w.Write([][]byte{plain[:], packet}); err != unix.EIO {
		t.Errorf("device down: %v, want EIO", err)
	}
	ns.Do(func() {
		if err := netdev.DeleteLink("tun0"); err != nil {
			t.Fatal(err)
		}
	})
	if err := w.Write([][]byte{plain[:], packet}); err != unix.EBADFD {
		t.Errorf("device deleted: %v, want EBADFD", err)
	}
	for {
		_, err := q.Read(buf)
		if err == nil {
			continue
		}
		if err != unix.EBADFD {
			t.Errorf("device deleted: %v, want EBADFD", err)
		}
		break
	}
}

func TestSteering(t *testing.T) {
	ns := testlab.New(t).Namespace("x")
	d := open(t, ns, tun.Config{Name: "tun0", Queues: 3}, "10.9.0.1/24")
	for want := range 3 {
		prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
			Type:    ebpf.SocketFilter,
			License: "GPL",
			Instructions: asm.Instructions{
				asm.Mov.Imm(asm.R0, int32(want)),
				asm.Return(),
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		err = d.SetSteering(prog.FD())
		prog.Close() // the device has its own reference
		if err != nil {
			t.Fatal(err)
		}
		for range 20 { // flows that the hash would spread
			sendUDP(t, ns, "10.9.0.2", []byte("x"))
		}
		buf := make([]byte, tun.MaxRead)
		for i, q := range d.Queues() {
			n := 0
			for {
				if _, err := q.Read(buf); err != nil {
					break
				}
				n++
			}
			if i == want && n != 20 || i != want && n != 0 {
				t.Errorf("steered to %d: queue %d got %d", want, i, n)
			}
		}
	}
	if err := d.SetSteering(-1); err != nil {
		t.Error(err)
	}
	if err := d.SetSteering(d.Queues()[0].FD()); err == nil {
		t.Error("a descriptor that is no program was taken")
	}
}
