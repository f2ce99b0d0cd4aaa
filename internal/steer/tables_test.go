// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"encoding/binary"
	"errors"
	"net/netip"
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
