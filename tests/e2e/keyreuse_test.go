// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/netip"
	"regexp"
	"strconv"
	"testing"

	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/record"
)

// keyArgs is `key add` of a file into a peer's primary slot.
func keyArgs(peer, file, role string, more ...string) []string {
	return append([]string{"key", "add", peer, "--cipher", "AES-128-GCM", "--key-file", file, "--role", role}, more...)
}

func from(id uint64) []string { return []string{"--next-packet-id", strconv.FormatUint(id, 10)} }

var lowestFree = regexp.MustCompile(`next packet id of (\d+) or more`)

// usedBefore adds a key that must be refused since its ids may have been used,
// and returns the lowest id that the refusal says is free.
func (g *gateway) usedBefore(args []string) uint64 {
	g.t.Helper()
	_, errs, code := g.try(args...)
	m := lowestFree.FindStringSubmatch(errs)
	if code != 1 || m == nil {
		g.t.Fatalf("%s: a used key was answered with %d, %q", g.name, code, errs)
	}
	id, err := strconv.ParseUint(m[1], 10, 64)
	if err != nil {
		g.t.Fatal(err)
	}
	return id
}

// TestKeyIsUsedOnce tries to send with one half of a key from two places, and
// again from the start, in one gateway, in two that share a state folder, after a
// removal, after a restart and after a crash.
func TestKeyIsUsedOnce(t *testing.T) {
	long(t)
	const high = 1 << 31 // above every mark that comes up here
	d := newBed(t, testlab.Veth{})
	g := d.runA("xdp").start()
	other := newGateway(t, d.lab, d.a, "2", nil, "--mode", "socket", "--listen", ":1195", "--state-dir", g.dir)
	other.dev = "tun1"
	other.start()
	for _, id := range []string{"1", "2"} {
		g.do("peer", "add", id, "--remote", netip.AddrPortFrom(outerB4, injectorPort).String())
		other.do("peer", "add", id)
	}
	g.do("peer", "set", "1", "--route", innerB4.String())
	file := newKey(t)
	g.do(keyArgs("1", file, "server")...)

	// While it is in use nobody else gets it, whatever the ids.
	for _, second := range []*gateway{g, other} {
		for _, args := range [][]string{
			keyArgs("2", file, "server"),
			keyArgs("2", file, "server", from(high)...),
			keyArgs("1", file, "server", "--slot", "secondary", "--key-id", "1"),
			keyArgs("1", file, "server", append(from(high), "--slot", "secondary", "--key-id", "1")...),
			keyArgs("2", file, "server", "--key-id", "3"),
		} {
			second.deny("in use", args...)
		}
		if keys := second.peer("2").Keys; len(keys) != 0 {
			t.Errorf("%s: peer 2 has keys %+v after refusals", second.name, keys)
		}
	}
	// Not even the slot that has it may take it anew: its ids would start again.
	g.deny("in use", keyArgs("1", file, "server")...)
	if keys := g.peer("1").Keys; len(keys) != 1 {
		t.Errorf("peer 1 has keys %+v after refusals", keys)
	}
	// The other half is another key.
	other.do(keyArgs("1", file, "client")...)
	other.do("peer", "del", "1")
	other.do("peer", "add", "1")

	// Sent with once, then deleted: free above what was used, wherever.
	conn := listenUDP(t, d.a, netip.AddrPortFrom(innerA4, 0))
	outside := listenUDP(t, d.b, netip.AddrPortFrom(outerB4, injectorPort))
	buf := make([]byte, 2048)
	sends := func(want uint64) {
		t.Helper()
		sendTo(t, conn, netip.AddrPortFrom(innerB4, 7000), numbered(1, 64))
		n, _, err := outside.ReadFromUDPAddrPort(buf)
		if err != nil {
			t.Fatal(err)
		}
		if _, id, ok := record.Parse(buf[:n]); !ok || uint64(id) != want {
			t.Errorf("sent with packet id %d, want %d", id, want)
		}
	}
	sends(1)
	sends(2)
	g.do("key", "del", "1", "--slot", "primary")
	free := g.usedBefore(keyArgs("1", file, "server"))
	if free < 3 {
		t.Errorf("ids from %d on are said to be free, 2 was used", free)
	}
	if at := other.usedBefore(keyArgs("2", file, "server", from(free-1)...)); at != free {
		t.Errorf("one gateway says that ids from %d on are free, the other %d", free, at)
	}
	other.do(keyArgs("2", file, "server", from(free)...)...)
	g.deny("in use", keyArgs("1", file, "server", from(high)...)...)
	other.do("peer", "del", "2")
	free = g.usedBefore(keyArgs("1", file, "server", from(free)...))
	g.do(keyArgs("1", file, "server", from(free)...)...)
	sends(free)

	// A restart, in order and by a crash. The next life learns where to go on.
	for life, end := range []func(){g.stop, g.kill} {
		end()
		if life == 1 {
			// The kernel let go of what the killed one held.
			other.do("peer", "add", "2")
			other.deny("used before", keyArgs("2", file, "server")...)
			other.do(keyArgs("2", file, "server", from(other.usedBefore(keyArgs("2", file, "server")))...)...)
			other.do("key", "del", "2", "--slot", "primary")
		}
		g.start()
		g.do("peer", "add", "1", "--remote", netip.AddrPortFrom(outerB4, injectorPort).String(), "--route", innerB4.String())
		again := g.usedBefore(keyArgs("1", file, "server"))
		if again <= free {
			t.Errorf("life %d: ids from %d on are said to be free, %d was used", life, again, free)
		}
		g.usedBefore(keyArgs("1", file, "server", from(again-1)...))
		g.do(keyArgs("1", file, "server", from(again)...)...)
		sends(again)
		free = again
	}
	if p := g.peer("1"); len(p.Keys) != 1 || p.Keys[0].NextPacketID != free+1 {
		t.Errorf("keys %+v, want one that goes on at %d", p.Keys, free+1)
	}
	other.nics = []string{}
	other.stop()
	g.stop()
}
