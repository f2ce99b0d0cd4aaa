// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/ovpn-xdp/ovpn-xdp/internal/admin"
	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/record"
)

// hub is a gateway with a NIC for each of its clients, which are
// point-to-point: the first three are reached over IPv4, the others over IPv6.
// What the hub sends carries other peer ids than what it gets.
type hub struct {
	t       *testing.T
	lab     *testlab.Lab
	ns      *testlab.Namespace
	g       *gateway
	clients []*gateway
}

const clients = 6

func hubInner(client int) netip.Addr { return netip.AddrFrom4([4]byte{5, 5, 5, byte(client + 1)}) }

// txID is the peer id in records to a client, which is the client's own id for the hub.
func txID(client int) int { return client + 9 }

func newHub(t *testing.T, mode string) *hub {
	t.Helper()
	lab := testlab.New(t)
	h := &hub{t: t, lab: lab, ns: lab.Namespace("hub")}
	var nics []string
	for i := 1; i <= clients; i++ {
		nics = append(nics, fmt.Sprintf("eth%d", i))
	}
	var spaces []*testlab.Namespace
	for i := 1; i <= clients; i++ {
		ns := lab.Namespace(fmt.Sprint("c", i))
		prefixes := func(host int) []netip.Prefix {
			return []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("10.10.%d.%d/24", i, host)),
				netip.MustParsePrefix(fmt.Sprintf("fd00:0:0:%d::%d/64", i, host))}
		}
		lab.Veth(testlab.Veth{WireLike: true,
			A: testlab.End{Namespace: h.ns, Name: nics[i-1], Addresses: prefixes(1)},
			B: testlab.End{Namespace: ns, Name: "eth0", Addresses: prefixes(2)}})
		spaces = append(spaces, ns)
	}
	h.g = newGateway(t, lab, h.ns, "h", nics, "--mode", mode, "--listen", ":1194", "--address", hubInner(0).String()+"/24").start()
	for i := 1; i <= clients; i++ {
		c := newGateway(t, lab, spaces[i-1], fmt.Sprint(i), []string{"eth0"}, "--mode", mode, "--p2p", "--listen", ":1194",
			"--address", hubInner(i).String()+"/24").start()
		h.clients = append(h.clients, c)
		h.add(i, newKey(t), 0, "primary", true)
	}
	return h
}

// outer is the address of an end of a client's link; host 1 is the hub.
func hubOuter(client, host int) netip.AddrPort {
	if client <= 3 {
		return netip.MustParseAddrPort(fmt.Sprintf("10.10.%d.%d:1194", client, host))
	}
	return netip.MustParseAddrPort(fmt.Sprintf("[fd00:0:0:%d::%d]:1194", client, host))
}

// add installs a key on both ends, and makes the peers first if they are new.
func (h *hub) add(i int, key string, keyID int, slot string, newPeers bool) {
	h.t.Helper()
	id, own := fmt.Sprint(i), fmt.Sprint(txID(i))
	c := h.clients[i-1]
	if newPeers {
		args := []string{"peer", "add", id, "--tx-id", own, "--remote", hubOuter(i, 2).String(), "--route", hubInner(i).String(), "--keepalive", "60:120"}
		if i == 1 {
			args = append(args, "--route", "11.11.11.0/24")
		}
		h.g.do(args...)
		c.do("peer", "add", own, "--tx-id", id, "--remote", hubOuter(i, 1).String(), "--keepalive", "60:120")
	}
	h.g.do("key", "add", id, "--slot", slot, "--key-id", fmt.Sprint(keyID), "--key-file", key, "--role", "server")
	c.do("key", "add", own, "--slot", slot, "--key-id", fmt.Sprint(keyID), "--key-file", key, "--role", "client")
}

// TestHub goes through the stages of the kernel driver's own tests.
func TestHub(t *testing.T) {
	long(t)
	for _, mode := range []string{"xdp", "tc"} {
		t.Run(mode, func(t *testing.T) {
			h := newHub(t, mode)
			e := h.g.watch()
			t.Run("baseline", h.baseline)
			t.Run("LAN behind a peer", h.lan)
			t.Run("key rollout", h.rollout)
			t.Run("refusals", h.refusals)
			t.Run("removal", h.removal)
			t.Run("timeouts", func(t *testing.T) { h.timeouts(t, e) })
			var log []string
			for _, event := range e.all(false) {
				if event.Type == admin.EventPeerGone {
					log = append(log, fmt.Sprint(*event.Peer, " ", event.Reason))
				} else {
					log = append(log, "unexpected "+string(event.Type))
				}
			}
			slices.Sort(log)
			want := []string{"1 userspace", "2 userspace", "3 expired", "4 expired", "5 expired", "6 expired"}
			if !slices.Equal(log, want) {
				t.Errorf("events %q, want %q", log, want)
			}
			s := h.g.settled()
			for _, n := range s.NICs {
				if n.Verdicts["steered"].Packets == 0 {
					t.Errorf("%s steered nothing", n.Name)
				}
			}
			h.g.stop()
			for _, c := range h.clients {
				c.settled()
				c.stop()
			}
		})
	}
}

func (h *hub) baseline(t *testing.T) {
	for i := 1; i <= clients; i++ {
		mustPing(t, h.ns, hubInner(i), 40, "-i", "0.002")
		mustPing(t, h.ns, hubInner(i), 10, "-i", "0.002", "-s", "3000")
	}
	// Header words in both directions: the id of who receives.
	for _, i := range []int{1, 4} {
		w := h.words(t, i)
		for id, n := range w {
			if id != uint32(i) && id != uint32(txID(i)) || n == 0 {
				t.Errorf("client %d: %d records with peer id %d", i, n, id)
			}
		}
		if len(w) != 2 {
			t.Errorf("client %d: peer ids %v, want %d and %d", i, w, i, txID(i))
		}
	}
	transfer(t, h.clients[0].ns, h.ns, hubInner(1), hubInner(0), 1<<20)
	// From one client to another, through the hub.
	h.ns.Forward()
	mustPing(t, h.clients[1].ns, hubInner(5), 5)
	transfer(t, h.clients[1].ns, h.clients[4].ns, hubInner(2), hubInner(5), 1<<20)
}

// words pings once and counts, per peer id, the records that leave either end.
func (h *hub) words(t *testing.T, i int) map[uint32]int {
	t.Helper()
	taps := []*tap{newTap(t, h.ns, fmt.Sprint("eth", i)), newTap(t, h.clients[i-1].ns, "eth0")}
	mustPing(t, h.ns, hubInner(i), 5)
	ids := map[uint32]int{}
	for _, tap := range taps {
		for _, f := range tap.left(t, 5) {
			if word, _, ok := record.Parse(f); ok {
				ids[record.PeerID(word)]++
			}
		}
	}
	return ids
}

func (h *hub) lan(t *testing.T) {
	host := netip.MustParseAddr("11.11.11.11")
	c := h.clients[0]
	c.ns.Address("lo", netip.PrefixFrom(host, 32))
	h.ns.Route("tun0", netip.MustParsePrefix("11.11.11.0/24"), hubInner(1))
	mustPing(t, h.ns, host, 5)
	transfer(t, h.ns, c.ns, hubInner(0), host, 1<<20)
}

// rollout puts a second key into both ends' secondary slot and swaps on the
// client only, with traffic all the time: the hub has to open by key id while it
// still sends with the old key.
func (h *hub) rollout(t *testing.T) {
	for i := 1; i <= clients; i++ {
		h.add(i, newKey(t), 1, "secondary", false)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		transfer(t, h.clients[0].ns, h.ns, hubInner(1), hubInner(0), 24<<20)
	}()
	for i := 1; i <= clients; i++ {
		h.clients[i-1].do("key", "swap", fmt.Sprint(txID(i)))
	}
	<-done
	for i := 1; i <= clients; i++ {
		mustPing(t, h.ns, hubInner(i), 5)
		keys := h.g.peer(fmt.Sprint(i)).Keys
		if len(keys) != 2 || keys[0].KeyID != 0 || keys[1].KeyID != 1 || keys[1].HighestReceived == 0 || keys[1].NextPacketID != 1 {
			t.Errorf("peer %d has keys %+v: want key 0 sending and key 1 receiving", i, keys)
		}
	}
	if drops := h.g.settled().Totals.Drops; drops["no_key"]+drops["auth"]+drops["replay"] > 0 {
		t.Errorf("drops %v", drops)
	}
}

func (h *hub) refusals(t *testing.T) {
	g := h.g
	list := decode[admin.PeerList](t, g.do("peer", "list", "--json")).Peers
	if len(list) != clients || list[0].ID != 1 || list[5].ID != 6 {
		t.Errorf("peer list %+v", list)
	}
	if p := g.peer("4"); p.Remote != hubOuter(4, 2) || p.TxID == nil || *p.TxID != 13 || len(p.Routes) != 1 {
		t.Errorf("peer 4 is %+v", p)
	}
	g.deny("no peer 20", "peer", "get", "20")
	g.deny("no peer 20", "key", "swap", "20")
	g.deny("1", "peer", "add", "1")
	g.deny("5.5.5.3/32", "peer", "add", "30", "--route", "5.5.5.3")
	for _, bad := range []string{"127.0.0.1", "224.0.0.1", "255.255.255.255", "0.0.0.0", "::", "::1", "ff02::1"} {
		if _, errs, code := g.try("peer", "add", "30", "--route", bad); code == 0 {
			t.Errorf("route %s was accepted: %s", bad, errs)
		}
	}
	key := newKey(t)
	g.deny("key id 1", "key", "add", "2", "--slot", "primary", "--key-id", "1", "--key-file", key, "--role", "server")
	if _, errs, code := g.try("peer", "add", "16777215"); code != 2 || !strings.Contains(errs, "16777214") {
		t.Errorf("peer id 0xffffff: %d, %s", code, errs)
	}
	if out := g.do("key", "show", "2"); !strings.Contains(out, "primary") || !strings.Contains(out, "AES-256-GCM") {
		t.Errorf("key show: %s", out)
	}
}

// removal deletes peer 1 on both ends, peer 2 under traffic, and the keys of the others.
func (h *hub) removal(t *testing.T) {
	g := h.g
	g.do("peer", "del", "1")
	h.clients[0].do("peer", "del", fmt.Sprint(txID(1)))
	g.deny("no peer 1", "peer", "get", "1")
	ping := h.ns.Start("ping", "-n", "-q", "-i", "0.005", "-w", "10", hubInner(2).String())
	eventually(t, "traffic to peer 2", func() bool { return g.peer("2").Out.Records > 60 })
	g.do("peer", "del", "2")
	h.clients[1].do("peer", "del", fmt.Sprint(txID(2)))
	ping.Stop()
	for i := 3; i <= clients; i++ {
		id := fmt.Sprint(i)
		g.do("key", "del", id, "--slot", "secondary")
		g.do("key", "del", id, "--slot", "primary")
		g.deny("empty", "key", "del", id, "--slot", "primary")
		if n := pings(t, h.ns, hubInner(i), 2, 1e9); n != 0 {
			t.Errorf("peer %d answered %d pings without a key", i, n)
		}
	}
}

// timeouts lets the hub's peers expire, then a client's.
func (h *hub) timeouts(t *testing.T, e *events) {
	for i := 3; i <= clients; i++ {
		h.clients[i-1].do("peer", "set", fmt.Sprint(txID(i)), "--keepalive", "off")
		h.g.do("peer", "set", fmt.Sprint(i), "--keepalive", "1:3")
	}
	e.wait(admin.EventPeerGone, clients)
	if list := decode[admin.PeerList](t, h.g.do("peer", "list", "--json")).Peers; len(list) != 0 {
		t.Errorf("peers %+v are left", list)
	}
	c := h.clients[2]
	// Not by the sync peer: a point-to-point gateway's new peer replaces its peer.
	own := c.watchAfter(func() {
		c.do("detach", "eth0")
		c.do("attach", "eth0")
	})
	c.do("peer", "set", fmt.Sprint(txID(3)), "--keepalive", "1:2")
	gone := own.wait(admin.EventPeerGone, 1)
	if last := gone[len(gone)-1]; *last.Peer != uint32(txID(3)) || last.Reason != admin.GoneExpired {
		t.Errorf("client's event %+v", last)
	}
	c.deny("no peer", "peer", "get", fmt.Sprint(txID(3)))
}

// TestKeepaliveHoldsPeers keeps two idle ends alive by keepalives alone, well
// beyond their timeout.
func TestKeepaliveHoldsPeers(t *testing.T) {
	long(t)
	t.Parallel()
	d := newBed(t, testlab.Veth{})
	a, b := d.runA("xdp").start(), d.runB("socket").start()
	e := a.watch()
	d.connect(a, b, tunnel{id: 1, args: []string{"--keepalive", "1:3"}})
	eventually(t, "twice the timeout by keepalives", func() bool { return a.status().Totals.In.Keepalive >= 6 })
	for _, g := range []*gateway{a, b} {
		s := g.settled()
		if s.Totals.In.Keepalive == 0 || s.Totals.Out.Keepalive == 0 || s.Totals.In.Delivered != 0 {
			t.Errorf("%s: in %+v, out %+v", g.name, s.Totals.In, s.Totals.Out)
		}
	}
	b.stop()
	gone := e.wait(admin.EventPeerGone, 1)
	if *gone[0].Peer != 1 || gone[0].Reason != admin.GoneExpired {
		t.Errorf("after the other end stopped: %+v", gone)
	}
	a.stop()
}
