// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
)

func TestTunQueues(t *testing.T) {
	dir := bpffs(t)
	q, err := LoadTunQueues(TunOptions{Gateway: "gw", Dev: "tun0", PinDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	path := filepath.Join(dir, "ovpn-xdp", "gw", "tun0")
	for _, name := range []string{"tun_routes4", "tun_routes6", "prog_ovpn_tun_queue"} {
		if _, err := os.Stat(filepath.Join(path, name)); err != nil {
			t.Error(err)
		}
	}
	// A socket filter sees the packet from its IP header on, as a TUN's does.
	pick := func(dst string, size int) uint32 {
		t.Helper()
		src := remote4
		build := frame4
		if netip.MustParseAddr(dst).Is6() {
			src, build = remote6, frame6
		}
		frame := build(src, netip.AddrPortFrom(netip.MustParseAddr(dst), 80), make([]byte, 64))
		ret, err := q.coll.Programs["ovpn_tun_queue"].Run(&ebpf.RunOptions{Data: frame[:14+size]})
		if err != nil {
			t.Fatal(err)
		}
		return ret
	}
	set := func(prefix string, queue int) {
		t.Helper()
		if err := q.SetRoute(netip.MustParsePrefix(prefix), queue); err != nil {
			t.Fatal(err)
		}
	}
	if got := pick("10.9.0.2", 92); got != 0 {
		t.Errorf("queue %d without routes, want 0", got)
	}
	set("10.9.0.0/16", 1)
	set("10.9.0.2/32", 2)
	set("0.0.0.0/0", 3)
	set("fd00:9::/32", 4)
	set("fd00:9::2/128", 5)
	set("10.8.1.77/16", 6) // host bits do not matter
	for dst, want := range map[string]uint32{
		"10.9.0.2": 2, "10.9.0.3": 1, "10.9.255.255": 1, "10.8.0.1": 6, "192.0.2.9": 3,
		"fd00:9::2": 5, "fd00:9::3": 4, "fd00:a::1": 0,
	} {
		size := 92
		if netip.MustParseAddr(dst).Is6() {
			size = 112
		}
		if got := pick(dst, size); got != want {
			t.Errorf("%s: queue %d, want %d", dst, got, want)
		}
	}
	set("10.9.0.2/32", 7)
	if got := pick("10.9.0.2", 92); got != 7 {
		t.Errorf("changed route: queue %d, want 7", got)
	}
	for _, p := range []string{"10.9.0.2/32", "10.9.0.2/32", "fd00:9::2/128"} {
		if err := q.DelRoute(netip.MustParsePrefix(p)); err != nil {
			t.Error(err)
		}
	}
	if got := pick("10.9.0.2", 92); got != 1 {
		t.Errorf("deleted route: queue %d, want 1", got)
	}
	if got := pick("fd00:9::2", 112); got != 4 {
		t.Errorf("deleted route: queue %d, want 4", got)
	}
	// A packet that is no IP.
	arp := append(ethernet(0x0806), make([]byte, 46)...)
	if ret, err := q.coll.Programs["ovpn_tun_queue"].Run(&ebpf.RunOptions{Data: arp}); ret != 0 || err != nil {
		t.Errorf("no IP: queue %d, %v", ret, err)
	}
	if err := q.SetRoute(netip.MustParsePrefix("10.0.0.0/8"), -1); err == nil {
		t.Error("queue -1 was taken")
	}
	if err := q.SetRoute(netip.Prefix{}, 1); err == nil {
		t.Error("no prefix was taken")
	}
	for range 2 {
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	}
	(&network{t: t, pinDir: dir}).mustBeUnpinned()
	if err := q.SetRoute(netip.MustParsePrefix("10.0.0.0/8"), 1); err == nil {
		t.Error("a route was set after close")
	}
}

func TestTunQueuesOptions(t *testing.T) {
	testlab.RequireRoot(t)
	for _, o := range []TunOptions{{Gateway: "a.b", Dev: "tun0"}, {Gateway: "gw"}} {
		if _, err := LoadTunQueues(o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}
