// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"os/exec"
	"slices"
	"strconv"
	"testing"

	"github.com/ovpn-xdp/ovpn-xdp/internal/netdev"
	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
)

func (n *network) present(a *Attachment) (present bool) {
	n.t.Helper()
	n.host.Do(func() {
		var err error
		if present, err = a.Present(); err != nil {
			n.t.Error(err)
		}
	})
	return present
}

// takeOff detaches the programs of an attachment behind its back.
func (n *network) takeOff(a *Attachment) {
	n.t.Helper()
	if a.filter != "" {
		n.host.Do(func() {
			if err := netdev.DetachClsact(a.ifindex, a.filter); err != nil {
				n.t.Fatal(err)
			}
		})
		return
	}
	info, err := a.hook.Info()
	if err != nil {
		n.t.Fatal(err)
	}
	if out, err := exec.Command("bpftool", "link", "detach", "id", strconv.Itoa(int(info.ID))).CombinedOutput(); err != nil {
		n.t.Fatalf("bpftool link detach: %v: %s", err, out)
	}
}

func TestPresent(t *testing.T) {
	testlab.RequireTool(t, "bpftool")
	for name := range rungs(&network{}) {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t, testlab.Veth{})
			w := n.wire(remote4, local4)
			a := n.attach(rungs(n)[name])
			if !n.present(a) {
				t.Error("not present after attach")
			}
			n.takeOff(a)
			if n.present(a) {
				t.Error("present after its program was taken off")
			}
			w.write(numbered(testPeer4, 1, 100))
			w.fromListener(1)
			n.detach(a)
			n.mustBeClean()
			if n.present(a) {
				t.Error("present after close")
			}

			a = n.attach(rungs(n)[name])
			if !n.present(a) {
				t.Error("not present after the second attach")
			}
			n.host.Do(func() {
				if err := netdev.DeleteLink("eth0"); err != nil {
					t.Fatal(err)
				}
			})
			if n.present(a) {
				t.Error("present on a device that is gone")
			}
			n.detach(a)
		})
	}
}

// The far end of the private pair counts as well.
func TestPresentSeesThePair(t *testing.T) {
	n := newNetwork(t, testlab.Veth{})
	a := n.attach(n.options(ModeTC))
	if err := a.farHook.Detach(); err != nil {
		t.Fatal(err)
	}
	if n.present(a) {
		t.Error("present without the program behind the pair")
	}
}

func TestQueuesOnTC(t *testing.T) {
	n := newNetwork(t, testlab.Veth{Queues: 2})
	o := n.options(ModeTC)
	if a := n.attach(o); len(a.Notes()) != 0 {
		t.Errorf("notes %q", a.Notes())
	} else {
		n.detach(a)
	}
	o.Queues = []int{1, 0}
	a := n.attach(o)
	want := []string{"queues 0-1 asked for: the tc rung sees all queues"}
	if !slices.Equal(a.Notes(), want) {
		t.Errorf("notes %q, want %q", a.Notes(), want)
	}
	n.detach(a)

	// The same when auto ends there.
	foreign := passProgram(t, "someone")
	n.attachByNetlink(foreign.FD())
	defer n.attachByNetlink(-1)
	o.Mode = ModeAuto
	if a = n.attach(o); a.Rung() != "tc" || !slices.Equal(a.Notes(), want) {
		t.Errorf("rung %s, notes %q", a.Rung(), a.Notes())
	}
}
