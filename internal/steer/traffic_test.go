// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"encoding/binary"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/internal/netdev"
	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
)

func TestJumboFrames(t *testing.T) {
	testlab.RequireFeature(t, "frags flag", probeFrags)
	n := newNetwork(t, testlab.Veth{MTU: 9000, WireLike: true})
	w := n.wire(remote4, local4)
	a := n.attach(n.options(ModeXDP))
	if a.ChunkSize() != 4096 {
		t.Errorf("chunk %d, want 4096", a.ChunkSize())
	}
	// 3,300 bytes stay in one page with their headroom, 8,000 do not.
	w.write(numbered(testPeer4, 1, 3300), numbered(testPeer4, 2, 8000))
	if got := fromSockets(t, a.Sockets(), 1); len(got) == 1 && len(got[0]) != 3300 {
		t.Errorf("record of %d bytes", len(got[0]))
	}
	if got := w.fromListener(1); len(got) == 1 && len(got[0]) != 8000 {
		t.Errorf("datagram of %d bytes", len(got[0]))
	}
	if got := packets(t, a); got["steered"] != 1 || got["oversize"]+got["multi_buffer"] != 1 {
		t.Errorf("counters %v", got)
	}
	n.detach(a)

	a = n.attach(n.options(ModeTC))
	w.write(numbered(testPeer4, 1, 3300), numbered(testPeer4, 2, 8000))
	fromSockets(t, a.Sockets(), 1)
	w.fromListener(1)
	if got := packets(t, a); got["steered"] != 1 || got["oversize"] != 1 {
		t.Errorf("counters on tc: %v", got)
	}
}

// A 40 KB aggregate of a local sender crosses a veth whole where a generic hook
// or tc sees it. It must reach the UDP socket unharmed. Where the veth does not
// take aggregates (before 5.12), the stack has split it and each record is steered.
func TestAggregatePasses(t *testing.T) {
	for _, mode := range []Mode{ModeXDPGeneric, ModeTC} {
		n := newNetwork(t, testlab.Veth{})
		w := n.wire(remote4, local4)
		raw, err := w.send.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		var refused error
		if err := raw.Control(func(fd uintptr) {
			refused = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_SEGMENT, 1000)
		}); err != nil || refused != nil {
			t.Fatal(err, refused)
		}
		var whole bool
		n.sender.Do(func() {
			features, err := netdev.Features("eth0")
			if err != nil {
				t.Fatal(err)
			}
			whole = features[netdev.FeatureUSO]
		})
		a := n.attach(n.options(mode))
		const records = 40
		var aggregate []byte
		for i := range uint32(records) {
			aggregate = append(aggregate, numbered(testPeer4, i, 1000)...)
		}
		w.write(aggregate)
		var got [][]byte
		want := map[string]uint64{"oversize": 1, "steered": 0}
		if whole {
			got = w.fromListener(records)
		} else {
			got = fromSockets(t, a.Sockets(), records)
			want = map[string]uint64{"oversize": 0, "steered": records}
		}
		for i, p := range got {
			if len(p) != 1000 || binary.BigEndian.Uint32(p[4:]) != uint32(i) {
				t.Fatalf("%s: datagram %d: %d bytes, %x", mode, i, len(p), p[:8])
			}
		}
		counters := packets(t, a)
		for label, frames := range want {
			if counters[label] != frames {
				t.Errorf("%s: %s: %d frames, want %d", mode, label, counters[label], frames)
			}
		}
	}
}

// The kernel takes the outer tag off a frame before tc sees it, and leaves it on
// for XDP: both have to count it.
func TestVLANTags(t *testing.T) {
	for _, mode := range []Mode{ModeXDP, ModeTC} {
		n := newNetwork(t, testlab.Veth{})
		a := n.attach(n.options(mode))
		good := frame4(remote4, local4, record(testPeer4, testKey, 500))
		n.sendRaw("eth0", tagged(good, 0x8100_0007))
		if got := fromSockets(t, a.Sockets(), 1); len(got) == 1 && len(got[0]) != 500 {
			t.Errorf("%s: record of %d bytes", mode, len(got[0]))
		}
		n.sendRaw("eth0", tagged(good, 0x88a8_0007, 0x8100_0008))
		n.sendRaw("eth0", tagged(good, 0x8100_0007, 0x8100_0008))
		n.eventually("two tags", func() bool { return packets(t, a)["vlan_depth"] == 2 })
		if got := packets(t, a)["steered"]; got != 1 {
			t.Errorf("%s: %d frames steered, want 1", mode, got)
		}
	}
}

func TestTCRungOnBridge(t *testing.T) {
	testlab.RequireTool(t, "ip")
	n := newNetwork(t, testlab.Veth{})
	for _, args := range [][]string{
		{"link", "add", "br.7", "type", "bridge"},
		{"link", "set", "br.7", "address", n.host.Link("eth0").MAC.String(), "up"},
		{"link", "set", "eth0", "master", "br.7"},
		{"address", "flush", "dev", "eth0"},
		{"address", "add", "192.0.2.2/24", "dev", "br.7"},
	} {
		n.host.Output("ip", args...)
	}
	w := n.wire(remote4, local4)
	o := n.options(ModeAuto)
	o.NIC = "br.7"
	a := n.attach(o)
	if a.Rung() != "tc" || !strings.HasSuffix(a.PinPath(), "/gw/br_7") {
		t.Errorf("rung %s, pins %s", a.Rung(), a.PinPath())
	}
	if want := "xdp: operation not supported"; a.WhyNotHigher() != want {
		t.Errorf("why not higher: %q, want %q", a.WhyNotHigher(), want)
	}
	w.write(numbered(testPeer4, 1, 500))
	fromSockets(t, a.Sockets(), 1)
	n.detach(a)
	n.mustBeClean()
}

func TestPrivatePairIsQuiet(t *testing.T) {
	n := newNetwork(t, testlab.Veth{})
	a := n.attach(n.options(ModeTC))
	near, far := pairNames("gw", "eth0")
	for _, name := range []string{near, far} {
		if len(name) > netdev.MaxName {
			t.Errorf("%s is too long for a link", name)
		}
		l := n.host.Link(name)
		if !l.Up() || l.RawFlags&unix.IFF_NOARP == 0 {
			t.Errorf("%s: flags %x", name, l.RawFlags)
		}
		n.host.Do(func() {
			addrs, err := netdev.LinkAddresses(name)
			if err != nil || len(addrs) != 0 {
				t.Errorf("%s has addresses %v, %v", name, addrs, err)
			}
		})
	}
	if want := min(runtime.NumCPU(), 1); len(a.Queues()) != want {
		t.Errorf("%d queues for a device with one", len(a.Queues()))
	}
	if arrived, _, err := readHandover(a.handover.Maps["handover"]); arrived != 0 || err != nil {
		t.Errorf("%d frames in an unused pair, %v", arrived, err)
	}
}
