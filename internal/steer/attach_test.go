// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/internal/netdev"
	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/xsk"
)

// rungs are the ones that veth has, with clsact forced beside what the kernel has.
func rungs(n *network) map[string]Options {
	clsact := n.options(ModeTC)
	clsact.withoutTCX = true
	return map[string]Options{
		"xdp": n.options(ModeXDP), "tc": n.options(ModeTC), "clsact": clsact, "xdp-generic": n.options(ModeXDPGeneric),
	}
}

func TestRungs(t *testing.T) {
	for name := range rungs(&network{}) {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t, testlab.Veth{Queues: 2, WireLike: true})
			w4, w6 := n.wire(remote4, local4), n.wire(remote6, local6)
			a := n.attach(rungs(n)[name])

			const count = 200
			for i := range uint32(count) {
				w4.write(numbered(testPeer4, i, 1400))
				w6.write(numbered(testPeer6, i, 100))
			}
			seen := map[[8]byte]int{}
			for _, p := range fromSockets(t, a.Sockets(), 2*count) {
				seen[[8]byte(p)]++
				if size := map[byte]int{0x00: 1400, 0xf2: 100}[p[1]]; len(p) != size {
					t.Errorf("record of %d bytes, want %d", len(p), size)
				}
			}
			for key, times := range seen {
				if times != 1 {
					t.Errorf("record %x came %d times", key, times)
				}
			}
			if len(seen) != 2*count {
				t.Errorf("%d different records, want %d", len(seen), 2*count)
			}

			// What passes reaches the listener; what is dropped does not.
			control := []byte{7 << 3, 1, 2, 3}
			w4.write(control, record(9, testKey, 100), record(testPeer4, 0, 100), record(testPeer4, testKey, 20))
			for i, p := range w4.fromListener(3) {
				if want := []int{4, 100, 20}[i]; len(p) != want {
					t.Errorf("datagram %d has %d bytes, want %d", i, len(p), want)
				}
			}
			w4.nothingMore()
			w6.nothingMore()
			got := packets(t, a)
			for label, want := range map[string]uint64{
				"steered": 2 * count, "unknown_peer": 1, "not_data_v2": 1, "other_key": 1, "short_record": 1, "no_socket": 0, "malformed": 0,
			} {
				if got[label] != want {
					t.Errorf("%s: %d frames, want %d", label, got[label], want)
				}
			}
			for id, frame := range map[uint32]uint64{testPeer4: 42 + 1400, testPeer6: 62 + 100} {
				if got, ok := peerTraffic(t, a, id); !ok || got != (traffic{count, count * frame}) {
					t.Errorf("peer %d: %+v, %v, want %d frames of %d bytes", id, got, ok, count, frame)
				}
			}

			// After Accept(false) the rings stay as they are and the stack has the rest.
			w4.write(numbered(testPeer4, 1000, 64))
			fromSockets(t, a.Sockets(), 1)
			if err := errors.Join(a.Accept(false), a.Settle()); err != nil {
				t.Fatal(err)
			}
			w4.write(numbered(testPeer4, 1001, 64), record(9, testKey, 64))
			w4.fromListener(2)
			for _, s := range a.Sockets() {
				if s.Pending() {
					t.Error("a record was steered after Accept(false)")
				}
			}
			if lost, err := a.HandoverLost(); lost != 0 || err != nil {
				t.Errorf("lost in the private pair: %d, %v", lost, err)
			}
			n.checkPins(a)
			n.detach(a)
			n.mustBeClean()
			w4.write(numbered(testPeer4, 1002, 64))
			w4.fromListener(1)
			if got := packets(t, a); got["steered"] != 2*count+1 || got["not_accepting"] != 2 {
				t.Errorf("counters after close: %v", got)
			}
			if err := a.Heartbeat(); !errors.Is(err, ErrClosed) {
				t.Errorf("heartbeat after close: %v", err)
			}
		})
	}
}

// checkPins looks for the maps and programs under their names.
func (n *network) checkPins(a *Attachment) {
	n.t.Helper()
	if want := filepath.Join(n.pinDir, "ovpn-xdp", "gw", "eth0"); a.PinPath() != want {
		n.t.Errorf("pins at %s, want %s", a.PinPath(), want)
	}
	want := []string{"listeners", "peers", "peer_stats", "endpoints", "xsks", "verdicts", "control", "prog_ovpn_xdp"}
	if a.Rung() == "tc" {
		want[len(want)-1] = "prog_ovpn_tc"
		want = append(want, "handover", "prog_ovpn_handover")
	}
	found, err := os.ReadDir(a.PinPath())
	if err != nil || len(found) != len(want) {
		n.t.Errorf("pins: %v, %v, want %v", found, err, want)
	}
	for _, name := range want {
		if _, err := os.Stat(filepath.Join(a.PinPath(), name)); err != nil {
			n.t.Error(err)
		}
	}
}

// A gateway with more peers than the maps hold attaches all the same, and the
// peers that found no room take the UDP socket.
func TestMorePeersThanTheMapsHold(t *testing.T) {
	for name := range rungs(&network{}) {
		n := newNetwork(t, testlab.Veth{})
		w4, w6 := n.wire(remote4, local4), n.wire(remote6, local6)
		o := rungs(n)[name]
		o.Peers = 1
		a := n.attach(o)
		if !a.Incomplete() {
			t.Errorf("%s: complete", name)
		}
		w4.write(numbered(testPeer4, 1, 100))
		fromSockets(t, a.Sockets(), 1)
		w6.write(numbered(testPeer6, 1, 100))
		w6.fromListener(1)
		if got := packets(t, a); got["steered"] != 1 || got["unknown_passed"] != 1 || got["unknown_peer"] != 0 {
			t.Errorf("%s: counters %v", name, got)
		}
		n.detach(a)
	}
}

func TestGrantedModes(t *testing.T) {
	n := newNetwork(t, testlab.Veth{Queues: 3})
	_, err := n.tryAttach(n.options(ModeZeroCopy))
	if !errors.Is(err, unix.EOPNOTSUPP) {
		t.Errorf("zero-copy on veth: %v, want EOPNOTSUPP", err)
	}
	n.mustBeClean()

	a := n.attach(n.options(ModeAuto))
	if a.Rung() != "xdp" || a.XDPMode() != "native" || !a.Copy() || a.ChunkSize() != 2048 {
		t.Errorf("rung %s, mode %s, copy %v, chunk %d", a.Rung(), a.XDPMode(), a.Copy(), a.ChunkSize())
	}
	if want := "zero-copy: operation not supported"; a.WhyNotHigher() != want {
		t.Errorf("why not higher: %q, want %q", a.WhyNotHigher(), want)
	}
	if len(a.Queues()) != 3 || len(a.Sockets()) != 3 || len(a.Missing()) != 0 {
		t.Errorf("queues %v, missing %v", a.Queues(), a.Missing())
	}
	if l := n.host.Link("eth0"); l.XDP.Mode != netdev.XDPNative {
		t.Errorf("kernel says mode %q", l.XDP.Mode)
	}
	n.detach(a)

	o := n.options(ModeXDP)
	o.Queues = []int{0, 2}
	a = n.attach(o)
	if got := queueList(a.Queues()) + " without " + queueList(a.Missing()); got != "0,2 without 1" {
		t.Errorf("queues %s", got)
	}
	n.detach(a)
	o.Queues = []int{3}
	if _, err := n.tryAttach(o); err == nil || !strings.Contains(err.Error(), "receive queues 0-2, not 3") {
		t.Errorf("queue that is not there: %v", err)
	}
	n.mustBeClean()

	a = n.attach(n.options(ModeXDPGeneric))
	if a.XDPMode() != "generic" || n.host.Link("eth0").XDP.Mode != netdev.XDPGeneric {
		t.Errorf("mode %s, kernel says %s", a.XDPMode(), n.host.Link("eth0").XDP.Mode)
	}
}

func TestRefusedOptions(t *testing.T) {
	n := newNetwork(t, testlab.Veth{})
	for _, ring := range []int{0, 1, 32, 511, 1022, 1 << 20, -1} {
		o := n.options(ModeAuto)
		o.RingSize = ring
		if _, err := n.tryAttach(o); err == nil || !strings.Contains(err.Error(), "ring size") {
			t.Errorf("ring size %d: %v", ring, err)
		}
	}
	for _, name := range []string{"", "a.b", "a/b", "sixteen-letters-", "ü"} {
		o := n.options(ModeAuto)
		o.Gateway = name
		if _, err := n.tryAttach(o); err == nil || !strings.Contains(err.Error(), "gateway name") {
			t.Errorf("name %q: %v", name, err)
		}
	}
	o := n.options("fast")
	if _, err := n.tryAttach(o); err == nil || !strings.Contains(err.Error(), `mode "fast"`) {
		t.Errorf("unknown mode: %v", err)
	}
	o = n.options(ModeAuto)
	o.NIC = "eth9"
	if _, err := n.tryAttach(o); !errors.Is(err, netdev.ErrNotFound) {
		t.Errorf("unknown device: %v", err)
	}
	var declined *Declined
	if _, err := n.tryAttach(n.options(ModeSocket)); !errors.As(err, &declined) {
		t.Errorf("mode socket: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	n.host.Do(func() {
		if _, err := Attach(ctx, n.options(ModeAuto)); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	})
	n.mustBeClean()
}

func TestNeverEvicts(t *testing.T) {
	n := newNetwork(t, testlab.Veth{})
	w := n.wire(remote4, local4)
	l := n.host.Link("eth0")
	foreign := passProgram(t, "xdp_dispatcher")
	var held link.Link
	n.host.Do(func() {
		var err error
		held, err = link.AttachXDP(link.XDPOptions{Program: foreign, Interface: l.Index, Flags: link.XDPDriverMode})
		if err != nil {
			t.Fatal(err)
		}
	})
	defer held.Close()
	mine := n.host.Link("eth0").XDP.ProgID

	for _, mode := range []Mode{ModeXDP, ModeZeroCopy, ModeXDPGeneric} {
		_, err := n.tryAttach(n.options(mode))
		var slot *SlotHeldError
		if !errors.As(err, &slot) {
			t.Fatalf("%s: %v", mode, err)
		}
		info, infoErr := held.Info()
		if infoErr != nil {
			t.Fatal(infoErr)
		}
		if slot.Holder.ProgID != mine || slot.Holder.LinkID != uint32(info.ID) {
			t.Errorf("%s: holder %+v, want program %d, link %d", mode, slot.Holder, mine, info.ID)
		}
		for _, part := range []string{"eth0: XDP slot held by program ", "`xdp_dispatcher` (link ", "use --mode tc"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q lacks %q", mode, err, part)
			}
		}
	}
	a := n.attach(n.options(ModeAuto))
	if a.Rung() != "tc" || !strings.Contains(a.WhyNotHigher(), "xdp: slot held by program") {
		t.Errorf("rung %s, because %q", a.Rung(), a.WhyNotHigher())
	}
	w.write(numbered(testPeer4, 1, 1000))
	fromSockets(t, a.Sockets(), 1)
	n.detach(a)
	if now := n.host.Link("eth0").XDP.ProgID; now != mine {
		t.Errorf("XDP program is %d after detach, was %d", now, mine)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	n.mustBeClean()

	// By netlink: no link to name.
	n.attachByNetlink(foreign.FD())
	if _, err := n.tryAttach(n.options(ModeXDP)); err == nil || !strings.Contains(err.Error(), "(attached by netlink)") {
		t.Errorf("held by netlink: %v", err)
	}
	n.attachByNetlink(-1)
	n.mustBeClean()
}

func TestTwoGatewaysOnOneDevice(t *testing.T) {
	n := newNetwork(t, testlab.Veth{})
	first := n.attach(n.options(ModeXDP))
	second := n.options(ModeXDP)
	second.Gateway = "other"
	if _, err := n.tryAttach(second); err == nil || !strings.Contains(err.Error(), "`ovpn_xdp`") {
		t.Errorf("second gateway: %v", err)
	}
	n.detach(first)
	// tc has room for both, on either hook.
	for _, withoutTCX := range []bool{false, true} {
		o := n.options(ModeTC)
		o.withoutTCX, second.withoutTCX = withoutTCX, withoutTCX
		second.Mode = ModeTC
		first := n.attach(o)
		other, err := n.tryAttach(second)
		if err != nil {
			t.Fatal(err)
		}
		w := n.wire(remote4, local4)
		w.write(numbered(testPeer4, 1, 100))
		fromSockets(t, first.Sockets(), 1)
		n.detach(other)
		w.write(numbered(testPeer4, 2, 100))
		fromSockets(t, first.Sockets(), 1)
		n.detach(first)
		w.send.Close()
		w.listen.Close()
	}
	n.mustBeClean()
}

// Numbered records arrive at a fixed pace while the device is attached and
// detached again and again: each must come exactly once, by either way.
func TestAttachDetachLosesNothing(t *testing.T) {
	for name := range rungs(&network{}) {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t, testlab.Veth{Queues: 2, WireLike: true})
			w := n.wire(remote4, local4)
			var sent uint32
			stop, done := make(chan struct{}), make(chan error, 1)
			go func() {
				var err error
				for err == nil {
					select {
					case <-stop:
						done <- nil
						return
					default:
					}
					_, err = w.send.Write(numbered(testPeer4, sent, 200))
					sent++
					if sent%8 == 0 {
						time.Sleep(time.Millisecond)
					}
				}
				done <- err
			}()
			counts := map[uint32]int{}
			take := func(payloads [][]byte) {
				for _, p := range payloads {
					counts[binary.BigEndian.Uint32(p[4:])]++
				}
			}
			steered := 0
			for range 5 {
				a := n.attach(rungs(n)[name])
				// A slow machine must not fill the ring meanwhile.
				got := 0
				for end := time.Now().Add(20 * time.Millisecond); time.Now().Before(end) || got == 0; {
					some := pending(t, a)
					got += len(some)
					take(some)
				}
				if err := errors.Join(a.Accept(false), a.Settle()); err != nil {
					t.Fatal(err)
				}
				all := int(packets(t, a)["steered"])
				take(fromSockets(t, a.Sockets(), all-got))
				steered += all
				n.detach(a)
			}
			close(stop)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if steered == 0 || steered == int(sent) {
				t.Errorf("%d of %d records steered: no mix of both ways", steered, sent)
			}
			take(w.fromListener(int(sent) - steered))
			w.nothingMore()
			wrong := 0
			for id := range sent {
				if counts[id] != 1 {
					if wrong++; wrong <= 10 {
						t.Errorf("record %d of %d came %d times", id, sent, counts[id])
					}
				}
			}
			n.mustBeClean()
		})
	}
}

// pending leases what is there.
func pending(t *testing.T, a *Attachment) (out [][]byte) {
	t.Helper()
	frames := make([]xsk.Frame, 64)
	for _, s := range a.Sockets() {
		n := s.Lease(frames)
		for _, f := range frames[:n] {
			out = append(out, payloadOf(f.Data))
		}
		if err := s.GiveBack(frames[:n]); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// A device that is deleted takes nothing else with it.
func TestDeviceDeleted(t *testing.T) {
	for name := range rungs(&network{}) {
		n := newNetwork(t, testlab.Veth{})
		a := n.attach(rungs(n)[name])
		n.host.Do(func() {
			if err := netdev.DeleteLink("eth0"); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(a.Accept(false), a.Settle()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if err := a.Close(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
		n.mustBeUnpinned()
	}
}
