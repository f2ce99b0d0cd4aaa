// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/internal/netdev"
	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
)

// onThread runs fn on a thread that is thrown away, since fn changes what the
// thread may do or sees.
func onThread(t *testing.T, fn func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		done <- fn()
	}()
	return <-done
}

func TestBPFFSIsMountedAtItsPlaceOnly(t *testing.T) {
	testlab.RequireRoot(t)
	err := onThread(t, func() error {
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return err
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return err
		}
		for { // take off what others mounted, in this thread's view
			is, err := isBPFFS(DefaultPinDir)
			if err != nil {
				return err
			}
			if !is {
				break
			}
			if err := unix.Unmount(DefaultPinDir, unix.MNT_DETACH); err != nil {
				return err
			}
		}
		for range 2 {
			p, err := makePins(DefaultPinDir, "steer-test", "eth0.1")
			if err != nil {
				return err
			}
			if _, err := os.Stat("/sys/fs/bpf/ovpn-xdp/steer-test/eth0_1"); err != nil {
				return err
			}
			if err := p.remove(); err != nil {
				return err
			}
		}
		if is, err := isBPFFS(DefaultPinDir); !is {
			return errors.Join(errors.New("no bpffs was mounted"), err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	plain := t.TempDir()
	if _, err := makePins(plain, "gw", "eth0"); err == nil || !strings.Contains(err.Error(), "mount -t bpf bpf "+plain) {
		t.Errorf("folder without bpffs: %v", err)
	}
	missing := filepath.Join(plain, "missing")
	if _, err := makePins(missing, "gw", "eth0"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing folder: %v", err)
	}
}

func TestAttachFailsWholeWithoutBPFFS(t *testing.T) {
	n := newNetwork(t, testlab.Veth{})
	for _, mode := range []Mode{ModeXDP, ModeTC, ModeAuto} {
		o := n.options(mode)
		o.PinDir = t.TempDir()
		_, err := n.tryAttach(o)
		if err == nil || !strings.Contains(err.Error(), "is not on a bpffs") {
			t.Errorf("%s: %v", mode, err)
		}
		n.mustBeClean()
	}
}

func TestGatewaysShareOneBPFFS(t *testing.T) {
	n := newNetwork(t, testlab.Veth{})
	m := newNetwork(t, testlab.Veth{})
	m.pinDir = n.pinDir
	other := m.options(ModeXDP)
	other.Gateway = "other"
	a, b := n.attach(n.options(ModeXDP)), m.attach(other)
	if a.PinPath() == b.PinPath() {
		t.Errorf("both pin at %s", a.PinPath())
	}
	n.detach(a)
	if _, err := os.Stat(filepath.Join(b.PinPath(), "peers")); err != nil {
		t.Errorf("the other's pins went along: %v", err)
	}
	m.detach(b)
	n.mustBeClean()
}

func TestMissingCapabilityIsNamed(t *testing.T) {
	n := newNetwork(t, testlab.Veth{})
	for _, c := range []struct {
		drop  []int
		named []string
	}{
		{[]int{unix.CAP_NET_RAW}, []string{"CAP_NET_RAW"}},
		// The kernel takes CAP_SYS_ADMIN for loading networking programs, too.
		{[]int{unix.CAP_NET_ADMIN, unix.CAP_SYS_ADMIN}, []string{"CAP_NET_ADMIN"}},
		{[]int{unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_SYS_ADMIN}, []string{"CAP_BPF", "CAP_PERFMON"}},
	} {
		for _, mode := range []Mode{ModeXDP, ModeTC, ModeAuto} {
			err := onThread(t, func() error {
				if err := unix.Setns(n.host.FD(), unix.CLONE_NEWNET); err != nil {
					return err
				}
				if err := dropCapabilities(c.drop...); err != nil {
					return err
				}
				a, err := Attach(context.Background(), n.options(mode))
				if err == nil {
					return errors.Join(errors.New("attached"), a.Close())
				}
				return err
			})
			for _, name := range c.named {
				if !strings.Contains(err.Error(), "missing "+strings.Join(c.named, ", ")) && !strings.Contains(err.Error(), "needs "+name) {
					t.Errorf("%s without %v: %v", mode, c.named, err)
				}
			}
			n.mustBeClean()
		}
	}
}

func dropCapabilities(caps ...int) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err
	}
	for _, c := range caps {
		data[c/32].Effective &^= 1 << (c % 32)
		data[c/32].Permitted &^= 1 << (c % 32)
	}
	return unix.Capset(&header, &data[0])
}

func TestParseMissing(t *testing.T) {
	for status, want := range map[string][]string{
		"CapEff:\t0000000000000000\n":           {"CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_BPF", "CAP_PERFMON"},
		"CapEff:\t000001ffffffffff\n":           nil,
		"Name:\tx\nCapEff:\t0000000000203000\n": nil, // SYS_ADMIN stands for the two
		"CapEff:\t000000c000002000\n":           {"CAP_NET_ADMIN"},
		"CapPrm:\t0000000000000000\n":           nil,
		"CapEff:\tnonsense\n":                   nil,
	} {
		if got := parseMissing(status); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", status, got, want)
		}
	}
}

func TestProbe(t *testing.T) {
	n := newNetwork(t, testlab.Veth{Queues: 2})
	probe := func() (r Report) {
		t.Helper()
		n.host.Do(func() {
			var err error
			if r, err = Probe("eth0"); err != nil {
				t.Fatal(err)
			}
		})
		return r
	}
	r := probe()
	if r.Driver != "veth" || r.RxQueues != 2 || r.MTU != 1500 || !r.Up || r.XDP != nil || len(r.TC) != 0 || len(r.Missing) != 0 {
		t.Errorf("report %+v", r)
	}
	if r.Auto != ModeXDP || len(r.Why) != 1 || !strings.HasPrefix(r.Why[0], "zero-copy: ") {
		t.Errorf("auto %s, because %v", r.Auto, r.Why)
	}
	if !r.Kernel.XSKMap {
		t.Errorf("kernel %+v", r.Kernel)
	}
	// Kernels tell features from 6.3 on, so one with tcx, from 6.6 on, must.
	if f := r.Features; f == nil && r.Kernel.TCX {
		t.Errorf("no features: %v", r.Notes)
	} else if f != nil && (!f.Basic || !f.Redirect || f.ZeroCopy) {
		t.Errorf("features of veth: %+v", f)
	}
	l := n.host.Link("eth0")
	foreign := passProgram(t, "someone")
	var held link.Link
	n.host.Do(func() {
		var err error
		if held, err = link.AttachXDP(link.XDPOptions{Program: foreign, Interface: l.Index, Flags: link.XDPGenericMode}); err != nil {
			t.Fatal(err)
		}
	})
	defer held.Close()
	o := n.options(ModeTC)
	a := n.attach(o)
	r = probe()
	if r.XDP == nil || r.XDP.Name != "someone" || r.XDP.Attached != "link" || r.XDP.Mode != "generic" || r.XDP.Tag == "" {
		t.Errorf("slot %+v", r.XDP)
	}
	if r.Auto != ModeTC || !strings.Contains(strings.Join(r.Why, ";"), "xdp: slot held by program") {
		t.Errorf("auto %s, because %v", r.Auto, r.Why)
	}
	if len(r.TC) != 1 || r.TC[0].Name != "ovpn_tc" || r.TC[0].Mode != a.TCHook() {
		t.Errorf("tc %+v, hook %s", r.TC, a.TCHook())
	}
	n.detach(a)
	o.withoutTCX = true
	a = n.attach(o)
	if r = probe(); len(r.TC) != 1 || r.TC[0].Name != "ovpn_tc" || r.TC[0].Mode != "clsact" || a.TCHook() != "clsact" {
		t.Errorf("tc %+v, hook %s", r.TC, a.TCHook())
	}
	if _, err := json.Marshal(r); err != nil {
		t.Error(err)
	}
	n.detach(a)
	if now := n.host.Link("eth0").XDP; !now.Attached {
		t.Error("the foreign program is gone")
	}
	n.host.Do(func() {
		if _, err := Probe("eth9"); !errors.Is(err, netdev.ErrNotFound) {
			t.Errorf("unknown device: %v", err)
		}
	})
}

func TestChunkSize(t *testing.T) {
	for _, c := range []struct {
		l    netdev.Link
		want int
	}{
		{netdev.Link{MTU: 1500}, 2048},
		{netdev.Link{MTU: 1758}, 2048}, // 1758 + 14 + 4 = 2048 - 256 - 16
		{netdev.Link{MTU: 1759}, 4096},
		{netdev.Link{MTU: 9000}, 4096},
		{netdev.Link{MTU: 1500, Driver: "ena"}, 4096},
	} {
		if got := chunkSize(c.l); got != c.want {
			t.Errorf("%+v: chunk %d, want %d", c.l, got, c.want)
		}
	}
	if got := queueList([]int{0, 1, 2, 5, 7, 8}); got != "0-2,5,7-8" {
		t.Errorf("queues %s", got)
	}
}

// Members' frames never reach a socket of their bond, so it is refused natively.
func TestAggregateDevicesTakeTC(t *testing.T) {
	for kind, want := range map[string]bool{"bond": true, "team": true, "veth": false, "device": false, "bridge": false} {
		l := netdev.Link{Kind: kind, Index: 1, RxQueues: 1}
		if isAggregate(l) != want {
			t.Errorf("%s: aggregate %v", kind, !want)
		}
		if want {
			if _, err := attachNative(Options{}, l); err == nil || !strings.Contains(err.Error(), "belong to its members") {
				t.Errorf("%s: %v", kind, err)
			}
		}
	}
}
