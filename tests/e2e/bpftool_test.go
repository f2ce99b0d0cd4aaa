// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/bits"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/internal/admin"
	"github.com/ovpn-xdp/ovpn-xdp/internal/steer"
	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/record"
)

// What bpftool prints of the maps' keys and values, by the names of the fields
// in docs/bpf-maps.md.
type (
	mapEndpoint struct {
		Family uint16
		Port   uint16 // network order
		Addr   [16]byte
	}
	mapPeer struct {
		Remote mapEndpoint
		State  string
		KeyIDs uint8 `json:"key_ids"`
	}
	mapCount struct {
		Packets, Bytes uint64
		Reason, Fate   string // in `verdicts` and `handover`
	}
	mapControl struct {
		ABI         uint32
		Accepting   uint32
		HeartbeatNs uint64 `json:"heartbeat_ns"`
		Incomplete  uint32
	}
	mapPrefix struct {
		Length uint32   `json:"prefix_length"`
		Addr   []uint16 // bytes, which encoding/json would take for base64
	}
)

// addrPort is the address that an endpoint stands for.
func (e mapEndpoint) addrPort(t *testing.T) netip.AddrPort {
	t.Helper()
	p := bits.ReverseBytes16(e.Port) // the tests' machines are little endian
	switch e.Family {
	case unix.AF_INET:
		if [12]byte(e.Addr[4:]) != [12]byte{} {
			t.Errorf("IPv4 endpoint %v: bytes behind the address are not 0", e)
		}
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(e.Addr[:4])), p)
	case unix.AF_INET6:
		return netip.AddrPortFrom(netip.AddrFrom16(e.Addr), p)
	}
	if e != (mapEndpoint{}) {
		t.Errorf("endpoint %v has another family", e)
	}
	return netip.AddrPort{}
}

func (p mapPrefix) prefix(t *testing.T) netip.Prefix {
	t.Helper()
	raw := make([]byte, len(p.Addr))
	for i, b := range p.Addr {
		raw[i] = byte(b)
	}
	a, ok := netip.AddrFromSlice(raw)
	if !ok {
		t.Errorf("route %+v has no address", p)
	}
	return netip.PrefixFrom(a, int(p.Length))
}

// mapEntry is one entry; Values has one for each CPU.
type mapEntry[K, V any] struct {
	Key    K
	Value  V
	Values []struct{ Value V }
}

// dump reads a pinned map by bpftool, decoded by its BTF.
func dump[K, V any](t *testing.T, pins, name string) (list []mapEntry[K, V]) {
	t.Helper()
	out, err := run("bpftool", "-j", "map", "dump", "pinned", filepath.Join(pins, name))
	if err != nil {
		t.Fatal(err)
	}
	for _, raw := range *decode[[]struct{ Formatted json.RawMessage }](t, out) {
		if raw.Formatted == nil {
			t.Fatalf("map %s has no BTF: %s", name, out)
		}
		list = append(list, *decode[mapEntry[K, V]](t, string(raw.Formatted)))
	}
	return list
}

// dumpListeners is the map of listeners as a set.
func dumpListeners(t *testing.T, pins string) map[netip.AddrPort]bool {
	t.Helper()
	set := map[netip.AddrPort]bool{}
	for _, e := range dump[mapEndpoint, struct{ Flags uint32 }](t, pins, "listeners") {
		set[e.Key.addrPort(t)] = true
	}
	return set
}

// dumpVerdicts adds the CPUs up, by the label of the reason.
func dumpVerdicts(t *testing.T, pins string) map[string]admin.Verdict {
	t.Helper()
	sums := map[string]admin.Verdict{}
	for _, e := range dump[uint32, mapCount](t, pins, "verdicts") {
		label := strings.ToLower(strings.TrimPrefix(e.Values[0].Value.Reason, "REASON_"))
		if _, twice := sums[label]; twice {
			t.Errorf("two reasons are called %s", label)
		}
		var sum admin.Verdict
		for _, cpu := range e.Values {
			sum.Packets += cpu.Value.Packets
			sum.Bytes += cpu.Value.Bytes
		}
		sums[label] = sum
	}
	return sums
}

// TestBpftool compares what bpftool prints of the pinned maps with what the
// gateway says of itself.
func TestBpftool(t *testing.T) {
	long(t)
	testlab.RequireTool(t, "bpftool")
	for _, rung := range []string{"xdp", "tc"} {
		t.Run(rung, func(t *testing.T) {
			d := newBed(t, testlab.Veth{WireLike: true, Queues: 2})
			g := d.runA(rung).start()
			to := newSink(t, d.a, netip.AddrPortFrom(innerA4, sinkPort))
			x4 := d.inject(g, 7, outerB4, innerB4, to)
			x6 := d.inject(g, 70000, outerB6, netip.MustParseAddr("10.9.0.70"), to)
			g.do("key", "add", "7", "--slot", "secondary", "--key-id", "5", "--key-file", newKey(t), "--role", "server")
			g.do("peer", "add", "9", "--route", "fd00:9:9::/48") // heard of nothing yet

			const each = 40
			for range each {
				x4.wire.send(x4.frame(x4.good()))
				x6.wire.send(x6.frame(x6.good()))
				x6.wire.send(x6.frame(x6.good()))
			}
			strangers := [][]byte{
				x4.sealAs(record.Word(record.DataV2, 2, 4711), 1, []byte{0x45}),
				x4.sealAs(record.Word(record.DataV2, 3, 7), 1, []byte{0x45}),
				x4.good()[:10],
				make([]byte, 30),
			}
			for _, s := range strangers {
				x4.wire.send(x4.frame(s))
			}
			eventually(t, "everything counted", func() bool {
				v := g.nic(g.settled(), "eth0").Verdicts
				return v["steered"].Packets == 3*each &&
					v["unknown_peer"].Packets == 1 && v["other_key"].Packets == 1 && v["short_record"].Packets == 1 && v["not_data_v2"].Packets == 1
			})

			pins := g.nic(g.status(), "eth0").Pins
			compareVerdicts(t, g, pins)
			comparePeers(t, g.status(), pins)
			compareListeners(t, g, pins)
			compareRoutes(t, g.status(), filepath.Join(pinRoot, g.name, g.dev))
			compareControl(t, pins)
			if stats := dumpPeerStats(t, pins); stats[7].Packets != each || stats[70000].Packets != 2*each || stats[9].Packets != 0 {
				t.Errorf("peer_stats %v, want %d of peer 7 and %d of peer 70000", stats, each, 2*each)
			}
			if rung == "tc" {
				handover := map[string]uint64{}
				for _, e := range dump[uint32, mapCount](t, pins, "handover") {
					for _, cpu := range e.Values {
						handover[cpu.Value.Fate] += cpu.Value.Packets
					}
				}
				if want := map[string]uint64{"HANDOVER_DELIVERED": 3 * each, "HANDOVER_NO_SOCKET": 0}; !maps.Equal(handover, want) {
					t.Errorf("handover %v, want %v", handover, want)
				}
			}
			comparePins(t, pins, rung)
			g.stop()
		})
	}
}

// compareVerdicts holds the counters of one moment against each other: what
// the kernel's own traffic adds meanwhile makes it try again.
func compareVerdicts(t *testing.T, g *gateway, pins string) {
	t.Helper()
	var before, after, said map[string]admin.Verdict
	eventually(t, "two equal dumps of verdicts", func() bool {
		before = dumpVerdicts(t, pins)
		said = g.nic(g.status(), "eth0").Verdicts
		after = dumpVerdicts(t, pins)
		return maps.Equal(before, after)
	})
	if !maps.Equal(after, said) {
		t.Errorf("verdicts by bpftool %v, by status %v", after, said)
	}
	var steered admin.Verdict
	for _, s := range dumpPeerStats(t, pins) {
		steered.Packets += s.Packets
		steered.Bytes += s.Bytes
	}
	if steered != said["steered"] {
		t.Errorf("peer_stats add up to %+v, steered is %+v", steered, said["steered"])
	}
}

// dumpPeerStats adds the CPUs up, by peer id.
func dumpPeerStats(t *testing.T, pins string) map[uint32]admin.Verdict {
	t.Helper()
	sums := map[uint32]admin.Verdict{}
	for _, e := range dump[uint32, mapCount](t, pins, "peer_stats") {
		var sum admin.Verdict
		for _, cpu := range e.Values {
			sum.Packets += cpu.Value.Packets
			sum.Bytes += cpu.Value.Bytes
		}
		sums[e.Key] = sum
	}
	return sums
}

func comparePeers(t *testing.T, s *admin.Status, pins string) {
	t.Helper()
	endpoints := map[netip.AddrPort]uint32{}
	for _, e := range dump[mapEndpoint, uint32](t, pins, "endpoints") {
		endpoints[e.Key.addrPort(t)] = e.Value
	}
	peers := map[uint32]mapPeer{}
	for _, e := range dump[uint32, mapPeer](t, pins, "peers") {
		peers[e.Key] = e.Value
	}
	stats := dumpPeerStats(t, pins)
	if len(s.Peers) != 3 || len(peers) != 3 || len(stats) != 3 || len(endpoints) != 2 {
		t.Errorf("%d peers, the maps have peers %v, peer_stats %v, endpoints %v", len(s.Peers), peers, stats, endpoints)
	}
	for _, p := range s.Peers {
		m, there := peers[p.ID]
		want := "PEER_STEER"
		if !p.Remote.IsValid() {
			want = "PEER_PASS"
		}
		if at := m.Remote.addrPort(t); !there || at != p.Remote || m.State != want {
			t.Errorf("peer %d is at %s and in the map %+v, at %s; want %s", p.ID, p.Remote, m, at, want)
		}
		var keyIDs uint8
		for _, k := range p.Keys {
			keyIDs |= 1 << k.KeyID
		}
		if m.KeyIDs != keyIDs {
			t.Errorf("peer %d has keys %+v and in the map %#b", p.ID, p.Keys, m.KeyIDs)
		}
		if id, there := endpoints[p.Remote]; p.Remote.IsValid() && (!there || id != p.ID) {
			t.Errorf("endpoint %s belongs to peer %d, want %d", p.Remote, id, p.ID)
		}
	}
}

func compareListeners(t *testing.T, g *gateway, pins string) {
	t.Helper()
	var have, want map[netip.AddrPort]bool
	same := func() bool {
		have, want = dumpListeners(t, pins), map[netip.AddrPort]bool{}
		for _, l := range g.status().Listeners {
			if !l.Addr.Addr().IsUnspecified() {
				want[l.Addr] = true
			}
			for _, a := range l.Local {
				want[netip.AddrPortFrom(a.WithZone(""), l.Addr.Port())] = true
			}
		}
		return maps.Equal(have, want)
	}
	eventually(t, "status' listeners in the map", same)
	for _, a := range []netip.Addr{outerA4, outerA6, innerA4} {
		if !have[netip.AddrPortFrom(a, port)] {
			t.Errorf("listeners %v lack %s", have, a)
		}
	}
}

func compareRoutes(t *testing.T, s *admin.Status, pins string) {
	t.Helper()
	var have, want []string
	for _, name := range []string{"tun_routes4", "tun_routes6"} {
		for _, e := range dump[mapPrefix, uint32](t, pins, name) {
			have = append(have, e.Key.prefix(t).String())
			if e.Value >= uint32(s.Tun.Queues) {
				t.Errorf("%s has TUN queue %d of %d", e.Key.prefix(t), e.Value, s.Tun.Queues)
			}
		}
	}
	for _, p := range s.Peers {
		for _, r := range p.Routes {
			want = append(want, r.String())
		}
	}
	slices.Sort(have)
	slices.Sort(want)
	if !slices.Equal(have, want) {
		t.Errorf("the TUN's map has routes %v, the peers %v", have, want)
	}
}

// compareControl checks that the gateway says it is alive, again and again.
func compareControl(t *testing.T, pins string) {
	t.Helper()
	read := func() mapControl { return dump[uint32, mapControl](t, pins, "control")[0].Value }
	first := read()
	sound := func(c mapControl) bool { return c.ABI == steer.ABIVersion && c.Accepting == 1 && c.Incomplete == 0 }
	eventually(t, "another heartbeat", func() bool { return read().HeartbeatNs > first.HeartbeatNs })
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		t.Fatal(err)
	}
	if last := read(); int64(first.HeartbeatNs) > now.Nano() || !sound(first) || !sound(last) {
		t.Errorf("control %+v, then %+v at %d", first, last, now.Nano())
	}
}

// comparePins checks that every pin is what its file is called.
func comparePins(t *testing.T, pins, rung string) {
	t.Helper()
	type object struct{ Name, Type string }
	want := map[string]string{
		"listeners": "hash", "peers": "hash", "peer_stats": "percpu_hash", "endpoints": "hash",
		"xsks": "xskmap", "verdicts": "percpu_array", "control": "array",
		"prog_ovpn_xdp": "xdp",
	}
	if rung == "tc" {
		delete(want, "prog_ovpn_xdp")
		want["handover"], want["prog_ovpn_tc"], want["prog_ovpn_handover"] = "percpu_array", "sched_cls", "xdp"
	}
	files, err := filepath.Glob(filepath.Join(pins, "*"))
	if err != nil || len(files) != len(want) {
		t.Errorf("pins %v, %v; want %v", files, err, want)
	}
	for _, file := range files {
		base := filepath.Base(file)
		kind := "map"
		name, isProgram := strings.CutPrefix(base, "prog_")
		if isProgram {
			kind = "prog"
		}
		out, err := run("bpftool", "-j", kind, "show", "pinned", file)
		if err != nil {
			t.Fatal(err)
		}
		// A name has room for 15 characters.
		if o := decode[object](t, out); o.Name != name || len(name) > 15 || o.Type != want[base] {
			t.Errorf("%s is %+v, want a %s", base, o, want[base])
		}
	}
	out, err := run("bpftool", "-j", "map", "dump", "pinned", filepath.Join(pins, "xsks"))
	if !strings.Contains(fmt.Sprint(out, err), "Operation not supported") {
		t.Errorf("an XSKMAP cannot be dumped: %s, %v", out, err)
	}
}
