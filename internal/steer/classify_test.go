// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/reason"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/xsk"
)

const (
	xdpDrop, xdpPass, xdpRedirect = 1, 2, 4
	tcUnspec, tcShot, tcRedirect  = -1, 2, 7

	testLimit = 2048 - 256 - 16
)

// hook is one of the device's programs under prog-run, with the maps filled and
// a socket on queue 0.
type hook struct {
	name    string
	program *ebpf.Program
	a       *Attachment
	xsks    *ebpf.Map
	socket  *xsk.Socket
}

// loadHook loads a program in a namespace of its own, not attached.
func loadHook(t *testing.T, name string) *hook {
	t.Helper()
	lab := testlab.New(t)
	ns := lab.Namespace("run")
	h := &hook{name: name, a: &Attachment{nic: "test"}}
	s := settings{frameLimit: testLimit, handoverIfindex: 1, peers: 64, queues: 1}
	var err error
	if name == "tc" {
		s.heartbeatLimit = time.Second
		err = h.a.loadMain(loadTc, s, false)
	} else {
		err = h.a.loadMain(loadIngress, s, name == "xdp.frags")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.a.main.Close)
	h.program = h.a.main.Programs["ovpn_tc"]
	if name != "tc" {
		h.program = h.a.main.Programs["ovpn_xdp"]
		h.xsks = h.a.main.Maps["xsks"]
		lo := ns.Link("lo").Index
		ns.Do(func() {
			h.socket, err = xsk.Open(xsk.Config{Ifindex: lo, RingSize: 64, Copy: true})
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { h.socket.Close() })
		if err := fillXSKMap(h.xsks, []*xsk.Socket{h.socket}); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range []netip.AddrPort{local4, local6} {
		if err := h.a.SetListener(l); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.a.SetPeers([]Peer{
		{ID: testPeer4, Remote: remote4, KeyIDs: 1 << testKey},
		{ID: testPeer6, Remote: remote6, KeyIDs: 1 << testKey},
		{ID: 8, KeyIDs: 0xff},
	}); err != nil {
		t.Fatal(err)
	}
	if err := h.a.Accept(true); err != nil {
		t.Fatal(err)
	}
	return h
}

// action is what the program does for a reason.
func (h *hook) action(r reason.Reason) int32 {
	if h.name == "tc" {
		switch r {
		case reason.Steered:
			return tcRedirect
		case reason.UnknownPeer:
			return tcShot
		}
		return tcUnspec
	}
	switch r {
	case reason.Steered:
		return xdpRedirect
	case reason.UnknownPeer:
		return xdpDrop
	}
	return xdpPass
}

// check runs a frame and compares action, bytes and every counter: one frame
// more under that reason, with its length, and nothing else anywhere.
func (h *hook) check(t *testing.T, frame []byte, context any, want reason.Reason, peer uint32) {
	t.Helper()
	// The heartbeat of the tc program must not grow stale in a slow run.
	if err := h.a.Heartbeat(); err != nil {
		t.Fatal(err)
	}
	h.checkAsIs(t, frame, context, want, peer)
}

func (h *hook) checkAsIs(t *testing.T, frame []byte, context any, want reason.Reason, peer uint32) {
	t.Helper()
	before, beforePeers := h.counters(t)
	out := make([]byte, len(frame)+256)
	run := &ebpf.RunOptions{Data: frame, DataOut: out, Context: context}
	ret, err := h.program.Run(run)
	if err != nil {
		t.Fatal(err)
	}
	if got := int32(ret); got != h.action(want) {
		t.Errorf("action %d, want %d (%s)", got, h.action(want), want)
	}
	if !bytes.Equal(run.DataOut, frame) {
		t.Errorf("frame was changed:\n%x\n%x", run.DataOut, frame)
	}
	after, afterPeers := h.counters(t)
	before[want].Packets++
	before[want].Bytes += uint64(len(frame))
	if !slices.Equal(before, after) {
		for r := range after {
			if after[r] != before[r] {
				t.Errorf("%s: %d frames, %d bytes; want %d, %d", after[r].Reason,
					after[r].Packets, after[r].Bytes, before[r].Packets, before[r].Bytes)
			}
		}
	}
	if want == reason.Steered {
		had := beforePeers[peer]
		beforePeers[peer] = traffic{had.packets + 1, had.bytes + uint64(len(frame))}
	}
	for id := range afterPeers {
		if afterPeers[id] != beforePeers[id] {
			t.Errorf("peer %d: %+v, want %+v", id, afterPeers[id], beforePeers[id])
		}
	}
}

func (h *hook) counters(t *testing.T) ([]Verdict, map[uint32]traffic) {
	t.Helper()
	verdicts, err := h.a.Verdicts()
	if err != nil {
		t.Fatal(err)
	}
	peers := map[uint32]traffic{}
	for _, id := range []uint32{testPeer4, testPeer6, 8} {
		got, ok := peerTraffic(t, h.a, id)
		if !ok {
			t.Fatalf("no counters of peer %d", id)
		}
		peers[id] = got
	}
	return verdicts, peers
}

func TestClassify(t *testing.T) {
	testlab.RequireRoot(t)
	for _, name := range []string{"xdp", "xdp.frags", "tc"} {
		h := loadHook(t, name)
		for _, c := range classifyCases() {
			if name == "tc" && !skbRunTakes(c.frame) {
				continue
			}
			t.Run(name+"/"+c.name, func(t *testing.T) {
				h.check(t, c.frame, nil, c.want, c.peer)
			})
		}
	}
}

// skbRunTakes says whether prog-run makes an skb of the frame: newer kernels want
// a whole IP header where the type says IP. Frames below that are run by XDP only.
func skbRunTakes(frame []byte) bool {
	switch binary.BigEndian.Uint16(frame[12:]) {
	case 0x0800:
		return len(frame) >= 34
	case 0x86dd:
		return len(frame) >= 54
	}
	return true
}

type classifyCase struct {
	name  string
	frame []byte
	want  reason.Reason
	peer  uint32
}

func classifyCases() []classifyCase {
	var cases []classifyCase
	add := func(name string, frame []byte, want reason.Reason) {
		cases = append(cases, classifyCase{name: name, frame: frame, want: want})
	}
	steer := func(name string, frame []byte, peer uint32) {
		cases = append(cases, classifyCase{name, frame, reason.Steered, peer})
	}
	rec4, rec6 := record(testPeer4, testKey, 1400), record(testPeer6, testKey, 1400)
	good4, good6 := frame4(remote4, local4, rec4), frame6(remote6, local6, rec6)

	steer("v4", good4, testPeer4)
	steer("v6", good6, testPeer6)
	const qTag, adTag = 0x8100_0007, 0x88a8_0007
	steer("v4 tagged", tagged(good4, qTag), testPeer4)
	steer("v6 tagged", tagged(good6, qTag), testPeer6)
	steer("v4 priority tag", tagged(good4, 0x8100_6000), testPeer4)
	steer("v4 service tag", tagged(good4, adTag), testPeer4)
	add("v4 QinQ", tagged(good4, adTag, qTag), reason.VLANDepth)
	add("v6 two tags", tagged(good6, qTag, qTag), reason.VLANDepth)

	steer("v4 shortest", frame4(remote4, local4, record(testPeer4, testKey, 25)), testPeer4)
	add("v4 24 bytes", frame4(remote4, local4, record(testPeer4, testKey, 24)), reason.ShortRecord)
	add("v6 4 bytes", frame6(remote6, local6, record(testPeer6, testKey, 4)), reason.ShortRecord)
	add("v4 1 byte", frame4(remote4, local4, []byte{0x48}), reason.ShortRecord)
	add("v4 0 bytes", frame4(remote4, local4, nil), reason.NotDataV2)

	// The frame limit counts everything, a tag too.
	steer("v4 longest", frame4(remote4, local4, record(testPeer4, testKey, testLimit-42)), testPeer4)
	add("v4 too long", frame4(remote4, local4, record(testPeer4, testKey, testLimit-41)), reason.Oversize)
	add("v4 too long by tag", tagged(frame4(remote4, local4, record(testPeer4, testKey, testLimit-42)), qTag), reason.Oversize)
	steer("v6 longest", frame6(remote6, local6, record(testPeer6, testKey, testLimit-62)), testPeer6)
	add("v6 too long", frame6(remote6, local6, record(testPeer6, testKey, testLimit-61)), reason.Oversize)

	padding := make([]byte, 30)
	steer("v4 padded", append(slices.Clone(frame4(remote4, local4, record(testPeer4, testKey, 25))), padding...), testPeer4)
	steer("v6 padded", append(slices.Clone(good6), padding...), testPeer6)
	add("v4 padding is no record", append(frame4(remote4, local4, record(testPeer4, testKey, 10)), padding...), reason.ShortRecord)

	// Other traffic of the device.
	arp := append(ethernet(0x0806), make([]byte, 46)...)
	add("arp", arp, reason.NotIP)
	add("lldp", append(ethernet(0x88cc), make([]byte, 46)...), reason.NotIP)
	add("802.3 length", append(ethernet(46), make([]byte, 46)...), reason.NotIP)
	add("tagged arp", tagged(arp, qTag), reason.NotIP)
	for _, p := range []byte{1, 2, 6, 47, 50, 89, 132} {
		add(fmt.Sprintf("v4 protocol %d", p), sealed(good4, func(ip []byte) { ip[9] = p }), reason.NotUDP)
	}
	for _, p := range []byte{6, 50, 58, 59} {
		add(fmt.Sprintf("v6 protocol %d", p), edit(good6, func(b []byte) { b[20] = p }), reason.NotUDP)
	}
	add("dhcp", frame4(netip.MustParseAddrPort("192.0.2.9:67"), netip.MustParseAddrPort("192.0.2.2:68"), rec4), reason.NotListener)
	add("other port", frame4(remote4, netip.MustParseAddrPort("192.0.2.2:1195"), rec4), reason.NotListener)
	add("forwarded", frame4(remote4, netip.MustParseAddrPort("198.51.100.1:1194"), rec4), reason.NotListener)
	add("v6 forwarded", frame6(remote6, netip.MustParseAddrPort("[2001:db8:1::1]:1194"), rec6), reason.NotListener)
	add("v6 with the v4 listener's bytes", frame6(remote6, netip.AddrPortFrom(netip.AddrFrom16([16]byte{192, 0, 2, 2}), 1194), rec6), reason.NotListener)
	for _, op := range []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 31} {
		add(fmt.Sprintf("opcode %d", op), edit(good4, func(b []byte) { b[42] = op<<3 | testKey }), reason.NotDataV2)
	}

	// IPv4 header.
	options := slices.Concat(good4[:34], []byte{1, 1, 1, 0}, good4[34:])
	options[14] = 0x46
	put16(options[16:], len(options)-14)
	sealIPv4(options[14:38])
	add("v4 options", options, reason.IPOptions)
	add("v4 first fragment", sealed(good4, func(ip []byte) { put16(ip[6:], 0x2000) }), reason.Fragment)
	add("v4 later fragment", sealed(good4, func(ip []byte) { put16(ip[6:], 185) }), reason.Fragment)
	add("v4 tiny first fragment", sealed(good4[:42], func(ip []byte) { put16(ip[6:], 0x2000); put16(ip[2:], 28) }), reason.Fragment)
	steer("v4 without DF", sealed(good4, func(ip []byte) { put16(ip[6:], 0) }), testPeer4)
	steer("v4 reserved flag", sealed(good4, func(ip []byte) { put16(ip[6:], 0x8000) }), testPeer4)
	add("v4 checksum", edit(good4, func(b []byte) { b[24] ^= 1 }), reason.IPChecksum)
	add("v4 checksum, flipped TTL", edit(good4, func(b []byte) { b[22] ^= 0x80 }), reason.IPChecksum)
	steer("v4 ECN and DSCP", sealed(good4, func(ip []byte) { ip[1] = 0xbb }), testPeer4)
	add("v4 version 5", sealed(good4, func(ip []byte) { ip[0] = 0x55 }), reason.Malformed)
	add("v4 ihl 4", sealed(good4, func(ip []byte) { ip[0] = 0x44 }), reason.Malformed)
	add("v4 total below header", sealed(good4, func(ip []byte) { put16(ip[2:], 19) }), reason.Malformed)
	add("v4 total above frame", sealed(good4, func(ip []byte) { put16(ip[2:], len(good4)-14+1) }), reason.UDPLength)
	add("v4 total without UDP", sealed(good4, func(ip []byte) { put16(ip[2:], 20) }), reason.UDPLength)

	// IPv6 header.
	for next, want := range map[byte]reason.Reason{
		0: reason.ExtHeader, 43: reason.ExtHeader, 44: reason.Fragment, 51: reason.ExtHeader,
		60: reason.ExtHeader, 135: reason.ExtHeader, 139: reason.ExtHeader, 140: reason.ExtHeader,
	} {
		chain := slices.Concat(good6[:54], []byte{17, 0, 0, 0, 0, 0, 0, 0}, good6[54:])
		chain[20] = next
		put16(chain[18:], len(chain)-54)
		add(fmt.Sprintf("v6 next header %d", next), chain, want)
	}
	add("v6 version 4", edit(good6, func(b []byte) { b[14] = 0x40 }), reason.Malformed)
	add("v6 payload above frame", edit(good6, func(b []byte) { put16(b[18:], len(good6)-54+1) }), reason.UDPLength)
	add("v6 jumbogram", edit(good6, func(b []byte) { put16(b[18:], 0) }), reason.UDPLength)
	steer("v6 flow label", edit(good6, func(b []byte) { b[15], b[16], b[17] = 0x1a, 0xbc, 0xde }), testPeer6)

	// UDP header.
	for _, d := range []int{-1, 1, -1408, 60000} {
		add(fmt.Sprintf("v4 udp length %+d", d), edit(good4, func(b []byte) { put16(b[38:], 1408+d) }), reason.UDPLength)
		add(fmt.Sprintf("v6 udp length %+d", d), edit(good6, func(b []byte) { put16(b[58:], 1408+d) }), reason.UDPLength)
	}
	add("v4 udp length 7", edit(good4, func(b []byte) { put16(b[38:], 7) }), reason.UDPLength)
	steer("v4 udp checksum 0", edit(good4, func(b []byte) { put16(b[40:], 0) }), testPeer4)
	add("v6 udp checksum 0", edit(good6, func(b []byte) { put16(b[60:], 0) }), reason.UDPCsumZero6)

	// Peers.
	add("unknown peer", frame4(remote4, local4, record(9, testKey, 1400)), reason.UnknownPeer)
	add("v6 unknown peer", frame6(remote6, local6, record(9, testKey, 1400)), reason.UnknownPeer)
	add("other address", frame4(netip.MustParseAddrPort("192.0.2.3:40000"), local4, rec4), reason.OtherEndpoint)
	add("other port of peer", frame4(netip.MustParseAddrPort("192.0.2.1:40001"), local4, rec4), reason.OtherEndpoint)
	add("other family", frame6(remote6, local6, rec4), reason.OtherEndpoint)
	add("peer without endpoint", frame4(remote4, local4, record(8, testKey, 1400)), reason.OtherEndpoint)
	for key := range uint8(8) {
		if key != testKey {
			add(fmt.Sprintf("key id %d", key), frame4(remote4, local4, record(testPeer4, key, 1400)), reason.OtherKey)
		}
	}
	undef := record(peerIDUndef, testKey, 1400)
	add("undef", frame4(remote4, local4, undef), reason.UndefPeer)
	add("v6 undef", frame6(remote6, local6, undef), reason.UndefPeer)
	add("undef from elsewhere", frame4(netip.MustParseAddrPort("192.0.2.1:40001"), local4, undef), reason.UnknownPeer)

	// Cut off anywhere: what is missing decides. prog-run takes 14 bytes at least.
	for n := 14; n < 42; n++ {
		add(fmt.Sprintf("v4 cut at %d", n), slices.Clone(good4[:n]), reason.Malformed)
	}
	for n := 42; n < len(good4); n += 97 {
		add(fmt.Sprintf("v4 cut at %d", n), slices.Clone(good4[:n]), reason.UDPLength)
	}
	for n := 14; n < 62; n++ {
		add(fmt.Sprintf("v6 cut at %d", n), slices.Clone(good6[:n]), reason.Malformed)
	}
	add("v6 cut at 62", slices.Clone(good6[:62]), reason.UDPLength)
	for n := 14; n < 18; n++ {
		add(fmt.Sprintf("tag cut at %d", n), tagged(good4, qTag)[:n], reason.Malformed)
	}
	return cases
}

func TestNotAccepting(t *testing.T) {
	for _, name := range []string{"xdp", "tc"} {
		h := loadHook(t, name)
		good := frame4(remote4, local4, record(testPeer4, testKey, 100))
		unknown := frame4(remote4, local4, record(9, testKey, 100))
		h.check(t, good, nil, reason.Steered, testPeer4)
		if err := h.a.Accept(false); err != nil {
			t.Fatal(err)
		}
		// A stopped gateway drops nothing, whoever it is from.
		h.check(t, good, nil, reason.NotAccepting, 0)
		h.check(t, unknown, nil, reason.NotAccepting, 0)
		if err := h.a.Accept(true); err != nil {
			t.Fatal(err)
		}
		h.check(t, good, nil, reason.Steered, testPeer4)

		// A heartbeat in the past, as after a kill.
		h.a.control.HeartbeatNs -= uint64(1100 * time.Millisecond)
		if err := h.a.putControl(); err != nil {
			t.Fatal(err)
		}
		if name == "tc" {
			h.checkAsIs(t, good, nil, reason.NotAccepting, 0)
			h.checkAsIs(t, unknown, nil, reason.NotAccepting, 0)
		} else {
			h.checkAsIs(t, good, nil, reason.Steered, testPeer4)
		}
	}
}

// The clock may be read before a beat that the program then finds written.
func TestHeartbeatFromTheFuture(t *testing.T) {
	h := loadHook(t, "tc")
	good := frame4(remote4, local4, record(testPeer4, testKey, 100))
	for _, age := range []time.Duration{-time.Hour, -10 * time.Second, 0} {
		now, err := monotonic()
		if err != nil {
			t.Fatal(err)
		}
		h.a.control.HeartbeatNs = now - uint64(age)
		if err := h.a.putControl(); err != nil {
			t.Fatal(err)
		}
		h.checkAsIs(t, good, nil, reason.Steered, testPeer4)
	}
}

// While the maps may lack a peer, nobody's records are dropped.
func TestIncompletePassesUnknownPeers(t *testing.T) {
	for _, name := range []string{"xdp", "tc"} {
		h := loadHook(t, name)
		good := frame4(remote4, local4, record(testPeer4, testKey, 100))
		unknown := frame4(remote4, local4, record(9, testKey, 100))
		undef := frame4(netip.MustParseAddrPort("192.0.2.9:1194"), local4, record(peerIDUndef, 0, 100))
		known := frame4(remote4, local4, record(peerIDUndef, 0, 100))
		for range 2 {
			h.check(t, unknown, nil, reason.UnknownPeer, 0)
			h.check(t, undef, nil, reason.UnknownPeer, 0)
			if err := h.a.setIncomplete(true); err != nil {
				t.Fatal(err)
			}
			h.check(t, unknown, nil, reason.UnknownPassed, 0)
			h.check(t, undef, nil, reason.UnknownPassed, 0)
			h.check(t, good, nil, reason.Steered, testPeer4)
			h.check(t, known, nil, reason.UndefPeer, 0)
			if err := h.a.setIncomplete(false); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestNoSocket(t *testing.T) {
	h := loadHook(t, "xdp")
	good := frame4(remote4, local4, record(testPeer4, testKey, 100))
	h.check(t, good, nil, reason.Steered, testPeer4)
	// Closing the socket empties its slot.
	if err := h.socket.Close(); err != nil {
		t.Fatal(err)
	}
	h.check(t, good, nil, reason.NoSocket, 0)
}

func TestMultiBuffer(t *testing.T) {
	h := loadHook(t, "xdp.frags")
	testlab.RequireFeature(t, "frags flag", probeFrags)
	// One page holds headroom and skb_shared_info too; 3,900 bytes need a second
	// one. The limit would refuse them first, so it is out of the way here.
	coll, frags, err := load(loadIngress, settings{frameLimit: 1 << 16, peers: 64, queues: 1}, true)
	if err != nil || !frags {
		t.Fatal(frags, err)
	}
	t.Cleanup(coll.Close)
	big := &hook{name: "xdp.frags", program: coll.Programs["ovpn_xdp"], a: h.a}
	main := h.a.main
	defer func() { h.a.main = main }()
	h.a.main = coll
	if h.a.tables, err = newTables(coll); err != nil {
		t.Fatal(err)
	}
	if err := h.a.SetListener(local4); err != nil {
		t.Fatal(err)
	}
	for _, id := range []uint32{testPeer4, testPeer6, 8} {
		if err := h.a.SetPeer(Peer{ID: id, Remote: remote4, KeyIDs: 0xff}); err != nil {
			t.Fatal(err)
		}
	}
	big.check(t, frame4(remote4, local4, record(testPeer4, testKey, 3900)), nil, reason.MultiBuffer, 0)
	big.check(t, frame4(remote4, local4, record(9, testKey, 8900)), nil, reason.MultiBuffer, 0)
}

func TestTCAggregate(t *testing.T) {
	h := loadHook(t, "tc")
	context := make([]byte, 192) // struct __sk_buff
	const gsoSegs, gsoSize = 164, 176
	binary.NativeEndian.PutUint32(context[gsoSegs:], 2)
	binary.NativeEndian.PutUint32(context[gsoSize:], 600)
	// Two records of 600 bytes, short enough to look like one.
	h.check(t, frame4(remote4, local4, record(testPeer4, testKey, 1200)), context, reason.Oversize, 0)
	// The first record's peer must not decide over the second one.
	h.check(t, frame4(remote4, local4, record(9, testKey, 1200)), context, reason.Oversize, 0)
	// Aggregates of others leave as ever.
	h.check(t, frame4(remote4, netip.MustParseAddrPort("192.0.2.2:53"), record(9, testKey, 1200)), context, reason.NotListener, 0)
}

func TestPeerChanges(t *testing.T) {
	h := loadHook(t, "xdp")
	moved := netip.MustParseAddrPort("192.0.2.77:5000")
	good := frame4(remote4, local4, record(testPeer4, testKey, 100))
	fromNew := frame4(moved, local4, record(testPeer4, testKey, 100))
	undef := record(peerIDUndef, 0, 100)
	set := func(p Peer) {
		t.Helper()
		if err := h.a.SetPeer(p); err != nil {
			t.Fatal(err)
		}
	}
	h.check(t, good, nil, reason.Steered, testPeer4)
	set(Peer{ID: testPeer4, Remote: moved, KeyIDs: 1 << testKey})
	h.check(t, good, nil, reason.OtherEndpoint, 0)
	h.check(t, fromNew, nil, reason.Steered, testPeer4)
	h.check(t, frame4(moved, local4, undef), nil, reason.UndefPeer, 0)
	h.check(t, frame4(remote4, local4, undef), nil, reason.UnknownPeer, 0)
	if got, _ := peerTraffic(t, h.a, testPeer4); got.packets != 2 {
		t.Errorf("counters began anew: %+v", got)
	}
	set(Peer{ID: testPeer4, Remote: moved, KeyIDs: 1<<testKey | 1<<5})
	h.check(t, frame4(moved, local4, record(testPeer4, 5, 100)), nil, reason.Steered, testPeer4)

	// Two peers that swap addresses: the endpoint stays with the one that has it.
	set(Peer{ID: 8, Remote: moved, KeyIDs: 1})
	set(Peer{ID: testPeer4, Remote: remote4, KeyIDs: 1 << testKey})
	h.check(t, frame4(moved, local4, undef), nil, reason.UndefPeer, 0)
	h.check(t, frame4(remote4, local4, undef), nil, reason.UndefPeer, 0)

	// A mapped address is the IPv4 address.
	set(Peer{ID: testPeer4, Remote: netip.AddrPortFrom(netip.AddrFrom16(remote4.Addr().As16()), remote4.Port()), KeyIDs: 1 << testKey})
	h.check(t, good, nil, reason.Steered, testPeer4)

	if err := h.a.DelListener(local4); err != nil {
		t.Fatal(err)
	}
	h.check(t, good, nil, reason.NotListener, 0)
	if err := h.a.SetListener(local4); err != nil {
		t.Fatal(err)
	}
	if err := h.a.DelPeer(testPeer4); err != nil {
		t.Fatal(err)
	}
	if got, ok := peerTraffic(t, h.a, testPeer4); ok {
		t.Errorf("counters of a deleted peer: %+v", got)
	}
	ret, err := h.program.Run(&ebpf.RunOptions{Data: good})
	if err != nil || ret != xdpDrop {
		t.Errorf("record of a deleted peer: action %d, %v", ret, err)
	}
	ret, err = h.program.Run(&ebpf.RunOptions{Data: frame4(remote4, local4, undef)})
	if err != nil || ret != xdpDrop {
		t.Errorf("undef record from a deleted peer's endpoint: action %d, %v", ret, err)
	}
	for _, err := range []error{h.a.DelPeer(testPeer4), h.a.DelListener(netip.MustParseAddrPort("192.0.2.2:9"))} {
		if err != nil {
			t.Error(err)
		}
	}
}
