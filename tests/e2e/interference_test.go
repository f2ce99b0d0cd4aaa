// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/admin"
	"github.com/ovpn-xdp/ovpn-xdp/internal/netdev"
	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
)

// TestTunDeleted takes the TUN from under a gateway: without it there is
// nothing to carry on with.
func TestTunDeleted(t *testing.T) {
	long(t)
	for _, rung := range []string{"xdp", "tc", "socket"} {
		t.Run(rung, func(t *testing.T) {
			t.Parallel()
			d := newBed(t, testlab.Veth{})
			g := d.runA(rung).start()
			to := newSink(t, d.a, netip.AddrPortFrom(innerA4, sinkPort))
			x := d.inject(g, 7, outerB4, innerB4, to)
			sendTo(t, listenUDP(t, d.b, x.src), x.dst, x.good())
			to.exactly(t, 0, 1)
			d.a.Output("ip", "link", "del", g.dev)
			select {
			case <-g.proc.Done():
			case <-time.After(limit):
				t.Fatal("the gateway goes on without its TUN")
			}
			exit, isExit := errors.AsType[*exec.ExitError](g.proc.Wait())
			out := g.proc.Output()
			if !isExit || exit.ExitCode() != 1 {
				t.Errorf("ended with %v, want exit code 1", g.proc.Wait())
			}
			if lines := strings.Split(strings.TrimSpace(out), "\n"); !strings.Contains(lines[len(lines)-1], g.dev) {
				t.Errorf("the last line does not name %s: %s", g.dev, lines[len(lines)-1])
			}
			if strings.Contains(out, "panic") || strings.Contains(out, "DATA RACE") {
				t.Errorf("panic or race:\n%s", out)
			}
			g.nothingLeft()
		})
	}
}

// TestKilledThenOnAnotherRung kills a gateway and starts it where it has no
// use for what it left: on the socket rung, and without a NIC.
func TestKilledThenOnAnotherRung(t *testing.T) {
	long(t)
	for _, tc := range []struct{ name, rung string }{
		{"tc then socket", "tc"}, {"tc then no NIC", "tc"}, {"xdp then socket", "xdp"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d := newBed(t, testlab.Veth{WireLike: true})
			first := d.runA(tc.rung).start()
			pins := first.nic(first.status(), "eth0").Pins
			first.kill()
			if _, err := os.Stat(filepath.Join(pins, "peers")); err != nil {
				t.Errorf("a killed gateway was to leave its pins, or this tests nothing: %v", err)
			}
			pairs := d.privateLinks()
			if want := map[string]int{"tc": 2}[tc.rung]; len(pairs) != want {
				t.Errorf("links %v are left, want %d", pairs, want)
			}
			second := d.runA("socket")
			if tc.name == "tc then no NIC" {
				second.nics = nil
			}
			second.start()
			if pairs := d.privateLinks(); len(pairs) > 0 {
				t.Errorf("links %v are still there", pairs)
			}
			if _, err := os.Stat(pins); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("pins are still at %s: %v", pins, err)
			}
			b := d.runB("socket").start()
			d.connect(second, b, tunnel{id: 1})
			mustPing(t, d.b, innerA4, 3)
			second.nics = []string{"eth0"}
			second.stop()
			b.stop()
		})
	}
}

// privateLinks are the ends of gateways' private pairs in namespace A.
func (d *bed) privateLinks() (names []string) {
	d.t.Helper()
	d.a.Do(func() {
		links, err := netdev.Links()
		if err != nil {
			d.t.Fatal(err)
		}
		for _, l := range links {
			if strings.HasPrefix(l.Name, "ovx-") {
				names = append(names, l.Name)
			}
		}
	})
	return names
}

// TestRefusedAttach asks for rungs that are not to be had: everything stays as
// it was, also the mode that a later attach without one goes by.
func TestRefusedAttach(t *testing.T) {
	long(t)
	for _, rung := range []string{"xdp", "tc"} {
		t.Run(rung, func(t *testing.T) {
			d := newBed(t, testlab.Veth{})
			a, b := d.runA(rung).start(), d.runB("socket").start()
			d.connect(a, b, tunnel{id: 1})
			unchanged := func(what string, before *admin.NIC) {
				t.Helper()
				after := a.nic(a.status(), "eth0")
				if after.State != before.State || after.Rung != before.Rung || after.WhyNotHigher != before.WhyNotHigher || after.Pins != before.Pins {
					t.Errorf("%s: eth0 was %+v and is %+v", what, before, after)
				}
			}
			attached := a.nic(a.status(), "eth0")
			for _, mode := range []string{"xdp-zerocopy", "xdp", "tc", "auto"} {
				a.deny("attached already, on rung "+rung, "attach", "eth0", "--mode", mode)
				unchanged(mode+" while attached", attached)
			}
			a.steersNow(d.b, innerA4)

			a.do("detach", "eth0")
			detached := a.nic(a.status(), "eth0")
			if detached.State != admin.NICDetached || detached.Rung != "socket" {
				t.Errorf("after detach: %+v", detached)
			}
			a.deny("eth0", "attach", "eth0", "--mode", "xdp-zerocopy")
			unchanged("zero-copy on a veth", detached)
			a.deny("eth9", "attach", "eth9")
			a.deny("eth9", "detach", "eth9")
			if n := len(a.status().NICs); n != 1 {
				t.Errorf("%d NICs after one that does not exist was asked for", n)
			}
			if _, _, code := a.try("attach", "eth0", "--mode", "best"); code != 2 {
				t.Errorf("attach --mode best: exit code %d, want 2", code)
			}
			if rung == "xdp" {
				foreign(t, d.a, false)
				a.deny("XDP slot held by program", "attach", "eth0")
				unchanged("slot taken", detached)
				d.a.Output("ip", "link", "set", "dev", "eth0", "xdpdrv", "off")
			}
			mustPing(t, d.b, innerA4, 3)
			unchanged("traffic by socket", detached)

			// The mode is still the one of the command line, also for what comes round by itself.
			a.do("attach", "eth0")
			a.onRung("eth0", rung)
			a.steersNow(d.b, innerA4)
			d.a.Output("ip", "link", "set", "eth0", "mtu", "1400")
			eventually(t, "attached anew", func() bool { return strings.Count(a.proc.Output(), "msg=attached") == 3 })
			a.awaitNIC(admin.NICAttached, rung)
			a.stop()
			b.stop()
		})
	}
}

// linkID is the id of the BPF link that holds a pinned program on its device.
func linkID(t *testing.T, pins, program string) string {
	t.Helper()
	out, err := run("bpftool", "-j", "prog", "show", "pinned", filepath.Join(pins, program))
	if err != nil {
		t.Fatal(err)
	}
	id := decode[struct{ ID int }](t, out).ID
	if out, err = run("bpftool", "-j", "link", "list"); err != nil {
		t.Fatal(err)
	}
	for _, l := range *decode[[]struct {
		ID     int
		ProgID int `json:"prog_id"`
	}](t, out) {
		if l.ProgID == id {
			return fmt.Sprint(l.ID)
		}
	}
	t.Fatalf("no link holds program %d: %s", id, out)
	return ""
}

// TestProgramTakenOff takes the gateway's program off the NIC by force while
// numbered records arrive. It has to be noticed and put back, and what came
// meanwhile takes the socket.
func TestProgramTakenOff(t *testing.T) {
	long(t)
	testlab.RequireTool(t, "bpftool")
	for _, tc := range []struct{ rung, program string }{
		{"xdp", "prog_ovpn_xdp"}, {"xdp-generic", "prog_ovpn_xdp"}, {"tc", "prog_ovpn_tc"},
	} {
		t.Run(tc.rung, func(t *testing.T) {
			d := newBed(t, testlab.Veth{WireLike: true})
			g := d.runA(tc.rung).start()
			e := g.watch()
			to := newSink(t, d.a, netip.AddrPortFrom(innerA4, sinkPort))
			x := d.inject(g, 7, outerB4, innerB4, to)
			records := x.stream(t, d)
			eventually(t, "records steered", func() bool { return g.status().Totals.In.Steered > 100 })

			// iproute2 takes off what was attached by netlink, not what a link holds.
			held := d.a.Link("eth0").XDP
			if err := d.a.Command("ip", "link", "set", "dev", "eth0", "xdp", "off").Run(); tc.rung == "xdp" && err == nil {
				t.Error("iproute2 took the program off")
			}
			if now := d.a.Link("eth0").XDP; now != held {
				t.Errorf("XDP was %+v and is %+v", held, now)
			}

			for round := range 3 {
				before := g.nic(g.status(), "eth0")
				id := linkID(t, before.Pins, tc.program)
				if out, err := run("bpftool", "link", "detach", "id", id); err != nil {
					t.Fatal(out, err)
				}
				eventually(t, "program attached anew", func() bool {
					return strings.Count(g.proc.Output(), "msg=attached") == round+2
				})
				g.onRung("eth0", tc.rung)
				steered := g.status().Totals.In.Steered
				eventually(t, "records steered again", func() bool { return g.status().Totals.In.Steered > steered+100 })
			}
			sent := records.stop(t)
			to.exactly(t, 0, sent)
			s := g.settled()
			if s.Totals.In.Delivered != sent || s.Totals.In.Socket == 0 || len(s.Totals.In.Drops) > 0 {
				t.Errorf("sent %d records: %+v", sent, s.Totals.In)
			}
			if n := len(e.of(admin.EventNIC)); n < 6 {
				t.Errorf("%d events of the NIC, want two for each time", n)
			}
			g.stop()
		})
	}
}
