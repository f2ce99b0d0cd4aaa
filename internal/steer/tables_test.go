// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
)

func loadTables(t *testing.T, peers uint32) *tables {
	t.Helper()
	testlab.RequireRoot(t)
	coll, _, err := load(loadIngress, settings{peers: peers, queues: 1}, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(coll.Close)
	tb, err := newTables(coll)
	if err != nil {
		t.Fatal(err)
	}
	return tb
}

func manyPeer(i uint32) Peer {
	var addr [4]byte
	binary.BigEndian.PutUint32(addr[:], 10<<24+i)
	return Peer{ID: i * 977 % peerIDUndef, Remote: netip.AddrPortFrom(netip.AddrFrom4(addr), 1194), KeyIDs: 1}
}

func TestDefaultRoomFitsTenThousandPeers(t *testing.T) {
	tb := loadTables(t, DefaultPeers)
	const peers = 10_000
	for i := range uint32(peers) {
		if err := tb.setPeer(manyPeer(i)); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range []*ebpf.Map{tb.peers, tb.stats, tb.endpoints} {
		if n := entries(t, m); n != peers {
			t.Errorf("%s has %d entries, want %d", m, n, peers)
		}
	}
	for i := range uint32(peers) {
		if err := tb.delPeer(manyPeer(i).ID); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range []*ebpf.Map{tb.peers, tb.stats, tb.endpoints} {
		if n := entries(t, m); n != 0 {
			t.Errorf("%s has %d entries left", m, n)
		}
	}
}

func entries(t *testing.T, m *ebpf.Map) int {
	t.Helper()
	n := 0
	var key any
	for {
		next, err := m.NextKeyBytes(key)
		if err != nil {
			t.Fatal(err)
		}
		if next == nil {
			return n
		}
		key = next
		n++
	}
}

func TestFullTableNamesItsSize(t *testing.T) {
	tb := loadTables(t, 4)
	for i := range uint32(4) {
		if err := tb.setPeer(manyPeer(i)); err != nil {
			t.Fatal(err)
		}
	}
	err := tb.setPeer(manyPeer(4))
	if !errors.Is(err, unix.E2BIG) || !strings.Contains(err.Error(), "no room for more than 4 peers") {
		t.Errorf("fifth peer: %v", err)
	}
	// A known one still changes, and a freed place is free.
	moved := manyPeer(3)
	moved.Remote = netip.MustParseAddrPort("[2001:db8::9]:1")
	if err := tb.setPeer(moved); err != nil {
		t.Error(err)
	}
	if err := tb.delPeer(moved.ID); err != nil {
		t.Error(err)
	}
	if err := tb.setPeer(manyPeer(4)); err != nil {
		t.Error(err)
	}
}

// More peers than the map holds: those that found room are steered, the others
// pass, and when there is room for all again nobody unknown does.
func TestMorePeersThanRoom(t *testing.T) {
	testlab.RequireRoot(t)
	a := &Attachment{nic: "test"}
	if err := a.loadMain(loadIngress, settings{frameLimit: testLimit, peers: 64, queues: 1}, false); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.main.Close)
	written := func() bool {
		t.Helper()
		var c ingressControlState
		if err := a.main.Maps[ingressMapControl].Lookup(uint32(0), &c); err != nil {
			t.Fatal(err)
		}
		if (c.Incomplete != 0) != a.Incomplete() {
			t.Errorf("control says %d, Incomplete %v", c.Incomplete, a.Incomplete())
		}
		return c.Incomplete != 0
	}
	set := func(peers ...Peer) {
		t.Helper()
		if err := a.SetPeers(peers); err != nil {
			t.Fatal(err)
		}
	}
	var peers []Peer
	for i := range uint32(100) {
		peers = append(peers, manyPeer(i))
	}
	set(peers[:64]...)
	if written() {
		t.Error("incomplete with room for all")
	}
	set(peers...)
	if !written() {
		t.Error("complete with 100 peers in a map for 64")
	}
	if n := entries(t, a.main.Maps[ingressMapPeers]); n != 64 {
		t.Errorf("%d peers in the map, want 64", n)
	}
	// A peer behind those that found no room still changes.
	moved := peers[10]
	moved.Remote = netip.MustParseAddrPort("[2001:db8::9]:1")
	set(append(slices.Clone(peers[20:]), moved)...)
	var got ingressPeer
	if err := a.main.Maps[ingressMapPeers].Lookup(moved.ID, &got); err != nil || got.Remote != endpointKey(moved.Remote) {
		t.Errorf("peer %d: %+v, %v", moved.ID, got, err)
	}
	if err := a.SetPeer(peers[5]); err != nil || !written() {
		t.Errorf("a known peer: %v, incomplete %v", err, a.Incomplete())
	}
	for _, p := range peers[64:] {
		if err := a.DelPeer(p.ID); err != nil {
			t.Fatal(err)
		}
	}
	if !written() {
		t.Error("deleting peers proves nothing about the ones there are")
	}
	set(peers[:64]...)
	if written() {
		t.Error("incomplete with room for all again")
	}
	if err := a.SetPeer(peers[64]); !errors.Is(err, unix.E2BIG) || !written() {
		t.Errorf("one too many: %v, incomplete %v", err, a.Incomplete())
	}
	set(peers[:64]...)
	if err := a.SetPeer(Peer{ID: peerIDUndef}); err == nil || written() {
		t.Errorf("peer id that is none: %v, incomplete %v", err, a.Incomplete())
	}
	if err := a.SetPeers([]Peer{{ID: peerIDUndef}}); err == nil {
		t.Error("peer id that is none was taken")
	}
}

func TestRefusedEntries(t *testing.T) {
	tb := loadTables(t, 4)
	for _, id := range []uint32{peerIDUndef, 1 << 24, 1<<32 - 1} {
		if err := tb.setPeer(Peer{ID: id, Remote: remote4}); err == nil {
			t.Errorf("peer id %d was taken", id)
		}
	}
	for _, a := range []string{"0.0.0.0:1194", "[::]:1194", "192.0.2.1:0", "[::ffff:0.0.0.0]:1194"} {
		if err := tb.setListener(netip.MustParseAddrPort(a)); err == nil {
			t.Errorf("listener %s was taken", a)
		}
	}
	if err := tb.setListener(netip.AddrPort{}); err == nil {
		t.Error("no listener was taken")
	}
}

func TestWaitForReaders(t *testing.T) {
	testlab.RequireRoot(t)
	for name, wait := range map[string]func() error{"membarrier": waitForReaders, "map update": waitByMapUpdate} {
		if err := wait(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
