// SPDX-License-Identifier: Apache-2.0

package netdev_test

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/ovpn-xdp/ovpn-xdp/internal/netdev"
	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
)

// classifier is a program that lets everything on to the next filter.
func classifier(t *testing.T) (fd, id int) {
	t.Helper()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type:         ebpf.SchedCLS,
		License:      "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { prog.Close() })
	info, err := prog.Info()
	if err != nil {
		t.Fatal(err)
	}
	n, _ := info.ID()
	return prog.FD(), int(n)
}

func TestClsact(t *testing.T) {
	testlab.New(t).Namespace("x").Do(func() {
		must(t, netdev.CreateVeth("ov0", "ov1", 1, 0))
		link, err := netdev.LinkByName("ov0")
		must(t, err)
		if filters, err := netdev.ClsactFilters(link.Index); err != nil || len(filters) != 0 {
			t.Errorf("no qdisc: %v, %v", filters, err)
		}
		must(t, netdev.DetachClsact(link.Index, "ours"))

		const priority = 1
		foreign, foreignID := classifier(t)
		first, firstID := classifier(t)
		second, secondID := classifier(t)
		must(t, netdev.AttachClsact(link.Index, foreign, "foreign", priority))
		must(t, netdev.AttachClsact(link.Index, first, "ours", priority))
		check := func(step string, want map[string]int) {
			t.Helper()
			filters, err := netdev.ClsactFilters(link.Index)
			must(t, err)
			if len(filters) != len(want) {
				t.Errorf("%s: %+v", step, filters)
			}
			for _, f := range filters {
				if f.ProgID != want[f.Name] || !f.Direct || f.Priority != priority {
					t.Errorf("%s: %+v, want program %d", step, f, want[f.Name])
				}
			}
		}
		check("attached", map[string]int{"foreign": foreignID, "ours": firstID})
		if with, err := netdev.ClsactLinks(); err != nil || len(with) != 1 || with[0] != link.Index {
			t.Errorf("links with clsact: %v, %v, want %d", with, err, link.Index)
		}
		must(t, netdev.AttachClsact(link.Index, second, "ours", priority))
		check("replaced", map[string]int{"foreign": foreignID, "ours": secondID})
		must(t, netdev.DetachClsact(link.Index, "ours"))
		must(t, netdev.DetachClsact(link.Index, "ours"))
		check("detached", map[string]int{"foreign": foreignID})
		must(t, netdev.DeleteLink("ov0"))
		must(t, netdev.DetachClsact(link.Index, "foreign"))
		if err := netdev.AttachClsact(link.Index, first, "ours", priority); err == nil {
			t.Error("attached to a link that is gone")
		}
	})
}
