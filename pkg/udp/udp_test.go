// SPDX-License-Identifier: Apache-2.0

package udp

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/internal/netdev"
	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
)

// wire is two namespaces joined by a veth that carries MTU-sized frames only.
type wire struct {
	lab  *testlab.Lab
	a, b *testlab.Namespace
}

func newWire(t *testing.T, mtu int) wire {
	t.Helper()
	lab := testlab.New(t)
	w := wire{lab: lab, a: lab.Namespace("a"), b: lab.Namespace("b")}
	prefixes := func(s ...string) (out []netip.Prefix) {
		for _, p := range s {
			out = append(out, netip.MustParsePrefix(p))
		}
		return out
	}
	lab.Veth(testlab.Veth{
		A:        testlab.End{Namespace: w.a, Name: "eth0", Addresses: prefixes("192.0.2.1/24", "192.0.2.11/24", "2001:db8::1/64", "2001:db8::11/64")},
		B:        testlab.End{Namespace: w.b, Name: "eth0", Addresses: prefixes("192.0.2.2/24", "192.0.2.12/24", "2001:db8::2/64", "2001:db8::12/64")},
		MTU:      mtu,
		WireLike: true,
	})
	return w
}

func listen(t *testing.T, ns *testlab.Namespace, cfg Config) *Conn {
	t.Helper()
	var c *Conn
	ns.Do(func() {
		var err error
		if c, err = Listen(cfg); err != nil {
			t.Fatal(err)
		}
	})
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func addrPort(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

// datagram is one received datagram, copied.
type datagram struct {
	src, dst netip.AddrPort
	data     []byte
}

// collect receives until it has n datagrams, and returns how many messages
// were aggregates.
func collect(t *testing.T, c *Conn, r *Receiver, n int) (got []datagram, aggregates int) {
	t.Helper()
	for len(got) < n {
		messages, err := r.Recv(c)
		if errors.Is(err, unix.EAGAIN) {
			fds := []unix.PollFd{{Fd: int32(c.FD()), Events: unix.POLLIN}}
			if ready, err := unix.Poll(fds, 10_000); err == nil && ready == 0 {
				t.Fatalf("got %d datagrams of %d", len(got), n)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range messages {
			if spare := cap(m.Data) - len(m.Data); spare < 16 {
				t.Errorf("%d bytes behind the data, want 16", spare)
			}
			step := m.SegmentSize
			if step != 0 {
				aggregates++
			} else {
				step = max(len(m.Data), 1)
			}
			for rest, more := m.Data, true; more; more = len(rest) > 0 {
				b := rest[:min(step, len(rest))]
				rest = rest[len(b):]
				got = append(got, datagram{m.Src, m.Dst, bytes.Clone(b)})
			}
		}
	}
	if len(got) > n {
		t.Errorf("got %d datagrams, want %d", len(got), n)
	}
	return got, aggregates
}

// pattern is n bytes that tell their position.
func pattern(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7) ^ byte(i>>8) ^ seed
	}
	return b
}

// vethHasGRO reports whether a veth without XDP runs GRO: since 5.13, when it
// got its channels too.
func vethHasGRO(t *testing.T, ns *testlab.Namespace) (has bool) {
	ns.Do(func() {
		links, err := netdev.Links()
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range links {
			if l.Kind == "veth" {
				_, err := netdev.Channels(l.Name)
				has = !errors.Is(err, unix.EOPNOTSUPP)
			}
		}
	})
	return has
}

func TestSegmentedRunArrivesAsItsDatagrams(t *testing.T) {
	for _, family := range []struct{ a, b string }{
		{"192.0.2.1:1194", "192.0.2.2:1194"},
		{"[2001:db8::1]:1194", "[2001:db8::2]:1194"},
	} {
		for _, gro := range []bool{false, true} {
			for _, noGSO := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s gro=%v noGSO=%v", family.a, gro, noGSO), func(t *testing.T) {
					w := newWire(t, 0)
					from := listen(t, w.a, Config{Addr: addrPort(family.a), NoGSO: noGSO})
					to := listen(t, w.b, Config{Addr: addrPort(family.b), GRO: gro})
					if from.GSO() == noGSO || to.GRO() != gro {
						t.Fatalf("gso %v, gro %v", from.GSO(), to.GRO())
					}
					runs := []Run{
						{Remote: to.Addr(), Data: pattern(64*1000, 1), SegmentSize: 1000},
						{Remote: to.Addr(), Data: pattern(44*1400+17, 2), SegmentSize: 1400},
						{Remote: to.Addr(), Data: pattern(100, 3), SegmentSize: 100},
						{Remote: to.Addr(), Data: pattern(1, 4)},
					}
					var want [][]byte
					for _, r := range runs {
						for i := range r.datagrams() {
							if r.SegmentSize == 0 {
								want = append(want, r.Data)
							} else {
								want = append(want, r.Data[i*r.SegmentSize:min((i+1)*r.SegmentSize, len(r.Data))])
							}
						}
					}
					res := NewSender(8).Send(from, runs)
					if res.Sent != len(want) || res.Failed != 0 {
						t.Fatalf("%+v, want %d sent", res, len(want))
					}
					if !noGSO && res.Calls != 1 {
						t.Errorf("%d calls for 4 runs", res.Calls)
					}
					got, aggregates := collect(t, to, NewReceiver(8), len(want))
					for i := range want {
						if !bytes.Equal(got[i].data, want[i]) {
							t.Fatalf("datagram %d: %d bytes, want %d, or other content", i, len(got[i].data), len(want[i]))
						}
						if got[i].src != from.Addr() || got[i].dst != to.Addr() {
							t.Fatalf("datagram %d: %v to %v", i, got[i].src, got[i].dst)
						}
					}
					if !gro && aggregates != 0 {
						t.Errorf("%d aggregates without GRO", aggregates)
					}
					if gro && !noGSO && aggregates == 0 && vethHasGRO(t, w.b) {
						t.Error("no aggregate with GRO")
					}
				})
			}
		}
	}
}

func TestEmptyAndLongestDatagram(t *testing.T) {
	w := newWire(t, 0)
	from := listen(t, w.a, Config{Addr: addrPort("192.0.2.1:0")})
	to := listen(t, w.b, Config{Addr: addrPort("192.0.2.2:0"), GRO: true})
	if from.Addr().Port() == 0 {
		t.Fatal("no port")
	}
	s, r := NewSender(1), NewReceiver(1)
	for _, n := range []int{0, MaxRunBytes} {
		data := pattern(n, 9)
		if res := s.Send(from, []Run{{Remote: to.Addr(), Data: data}}); res.Sent != 1 || res.Failed != 0 {
			t.Fatalf("%d bytes: %+v", n, res)
		}
		got, _ := collect(t, to, r, 1)
		if !bytes.Equal(got[0].data, data) {
			t.Errorf("%d bytes: got %d", n, len(got[0].data))
		}
	}
	if r.Truncated() != 0 {
		t.Errorf("%d truncated", r.Truncated())
	}
}

// A wildcard listener learns which of its addresses it was asked at, and
// answers from there.
func TestAnswerFromAskedAddress(t *testing.T) {
	w := newWire(t, 0)
	for _, f := range []struct{ wildcard, client, asked string }{
		{"0.0.0.0:1194", "192.0.2.1:5000", "192.0.2.12:1194"},
		{"[::]:1194", "[2001:db8::1]:5000", "[2001:db8::12]:1194"},
	} {
		server := listen(t, w.b, Config{Addr: addrPort(f.wildcard)})
		client := listen(t, w.a, Config{Addr: addrPort(f.client)})
		s, r := NewSender(1), NewReceiver(4)
		for _, size := range []int{0, 10} { // the answer alone and as an aggregate
			if res := s.Send(client, []Run{{Remote: addrPort(f.asked), Data: []byte("ask")}}); res.Sent != 1 {
				t.Fatalf("%+v", res)
			}
			got, _ := collect(t, server, r, 1)
			if got[0].dst != addrPort(f.asked) || got[0].src != client.Addr() {
				t.Fatalf("asked: %v to %v", got[0].src, got[0].dst)
			}
			answer := Run{Remote: got[0].src, Local: got[0].dst.Addr(), Data: pattern(30, 0), SegmentSize: size}
			if res := s.Send(server, []Run{answer}); res.Failed != 0 {
				t.Fatalf("%+v", res)
			}
			got, _ = collect(t, client, r, answer.datagrams())
			if got[0].src != addrPort(f.asked) {
				t.Errorf("answered from %v, want %v", got[0].src, f.asked)
			}
		}
	}
}

func TestLinkLocalKeepsItsScope(t *testing.T) {
	w := newWire(t, 0)
	linkLocal := func(ns *testlab.Namespace) (addr netip.Addr) {
		ns.Do(func() {
			all, err := netdev.LinkAddresses("eth0")
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range all {
				if a.IsLinkLocalUnicast() {
					addr = a.WithZone("eth0")
				}
			}
		})
		if !addr.IsValid() {
			t.Fatal("no link-local address")
		}
		return addr
	}
	client := listen(t, w.a, Config{Addr: netip.AddrPortFrom(linkLocal(w.a), 5000)})
	server := listen(t, w.b, Config{Addr: netip.AddrPortFrom(linkLocal(w.b), 1194)})
	s, r := NewSender(1), NewReceiver(4)
	var failed error
	w.a.Do(func() { // the zone is a name of this namespace
		to := netip.AddrPortFrom(server.Addr().Addr().WithZone("eth0"), 1194)
		runs := []Run{{Remote: to, Data: []byte("ask")}}
		s.Send(client, runs)
		failed = runs[0].Err
	})
	if failed != nil {
		t.Fatal(failed)
	}
	got, _ := collect(t, server, r, 1)
	if want := fmt.Sprint(w.b.Link("eth0").Index); got[0].src.Addr().Zone() != want {
		t.Fatalf("from %v, want zone %s", got[0].src, want)
	}
	// A fresh sender, since the cache of the first belongs to the other namespace.
	runs := []Run{{Remote: got[0].src, Local: got[0].dst.Addr(), Data: []byte("answer")}}
	if res := NewSender(1).Send(server, runs); res.Sent != 1 {
		t.Fatalf("%+v %v", res, runs[0].Err)
	}
	got, _ = collect(t, client, r, 1)
	if got[0].src.Addr().WithZone("") != server.Addr().Addr().WithZone("") {
		t.Errorf("answered from %v", got[0].src)
	}
}

func TestListenErrors(t *testing.T) {
	w := newWire(t, 0)
	listen(t, w.a, Config{Addr: addrPort("192.0.2.1:1194")})
	w.a.Do(func() {
		for _, c := range []struct {
			addr string
			want error
		}{
			{"192.0.2.1:1194", unix.EADDRINUSE},
			{"0.0.0.0:1194", unix.EADDRINUSE},
			{"198.51.100.1:1194", unix.EADDRNOTAVAIL},
		} {
			conn, err := Listen(Config{Addr: addrPort(c.addr)})
			if !errors.Is(err, c.want) || !bytes.Contains([]byte(err.Error()), []byte(c.addr)) {
				t.Errorf("%s: got %v, want %v with the address in it", c.addr, err, c.want)
			}
			if err == nil {
				conn.Close()
			}
		}
		for _, addr := range []netip.AddrPort{{}, addrPort("[fe80::1%nope]:1")} {
			if conn, err := Listen(Config{Addr: addr}); err == nil {
				conn.Close()
				t.Errorf("listens on %v", addr)
			}
		}
		// Families don't collide, and a mapped address is IPv4.
		six, err := Listen(Config{Addr: addrPort("[::]:1194")})
		if err != nil {
			t.Fatal(err)
		}
		defer six.Close()
		if _, err := Listen(Config{Addr: addrPort("[::ffff:192.0.2.1]:1194")}); !errors.Is(err, unix.EADDRINUSE) {
			t.Errorf("mapped address: %v", err)
		}
	})
}

func TestSocketOptions(t *testing.T) {
	w := newWire(t, 0)
	for _, addr := range []string{"192.0.2.1:1194", "[2001:db8::1]:1194"} {
		c := listen(t, w.a, Config{Addr: addrPort(addr), Mark: 0x1234, RcvBuf: 6 << 20, SndBuf: 5 << 20})
		get := func(level, opt int) int {
			t.Helper()
			v, err := unix.GetsockoptInt(c.FD(), level, opt)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		want := func(name string, got, want int) {
			t.Helper()
			if got != want {
				t.Errorf("%s: %s is %d, want %d", addr, name, got, want)
			}
		}
		want("SO_MARK", get(unix.SOL_SOCKET, unix.SO_MARK), 0x1234)
		want("SO_RCVBUF", get(unix.SOL_SOCKET, unix.SO_RCVBUF), 12<<20)
		want("SO_SNDBUF", get(unix.SOL_SOCKET, unix.SO_SNDBUF), 10<<20)
		want("SO_REUSEPORT", get(unix.SOL_SOCKET, unix.SO_REUSEPORT), 0)
		want("SO_REUSEADDR", get(unix.SOL_SOCKET, unix.SO_REUSEADDR), 0)
		if c.Addr().Addr().Is4() {
			want("IP_MTU_DISCOVER", get(unix.IPPROTO_IP, unix.IP_MTU_DISCOVER), unix.IP_PMTUDISC_DONT)
		} else {
			want("IPV6_MTU_DISCOVER", get(unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER), unix.IPV6_PMTUDISC_DONT)
			want("IPV6_V6ONLY", get(unix.IPPROTO_IPV6, unix.IPV6_V6ONLY), 1)
		}
		if err := c.SetGRO(true); err != nil || !c.GRO() {
			t.Errorf("GRO on: %v", err)
		}
		if err := c.SetGRO(false); err != nil || c.GRO() {
			t.Errorf("GRO off: %v", err)
		}
	}
	def := listen(t, w.a, Config{Addr: addrPort("192.0.2.1:1195")})
	if v, err := unix.GetsockoptInt(def.FD(), unix.SOL_SOCKET, unix.SO_RCVBUF); err != nil || v != 2*DefaultBuffer {
		t.Errorf("default buffer %d, %v", v, err)
	}
}

// Errors that ICMP leaves on a socket end neither receiving nor sending. Only
// with IP_RECVERR does an unconnected socket get them, so the test sets it.
func TestPendingErrorsAreSteppedOver(t *testing.T) {
	w := newWire(t, 0)
	c := listen(t, w.a, Config{Addr: addrPort("192.0.2.1:1194")})
	peer := listen(t, w.b, Config{Addr: addrPort("192.0.2.2:1194")})
	if err := unix.SetsockoptInt(c.FD(), unix.IPPROTO_IP, unix.IP_RECVERR, 1); err != nil {
		t.Fatal(err)
	}
	s, r := NewSender(2), NewReceiver(4)
	refuse := func() {
		if res := s.Send(c, []Run{{Remote: addrPort("192.0.2.2:9"), Data: []byte("x")}}); res.Sent != 1 {
			t.Fatalf("%+v", res)
		}
		fds := []unix.PollFd{{Fd: int32(c.FD())}}
		if n, err := unix.Poll(fds, 10_000); n == 0 && err == nil {
			t.Fatal("no ICMP error came")
		}
	}
	refuse()
	runs := []Run{{Remote: peer.Addr(), Data: []byte("one")}, {Remote: peer.Addr(), Data: []byte("two")}}
	if res := s.Send(c, runs); res.Sent != 2 || res.Failed != 0 {
		t.Errorf("send after an ICMP error: %+v %v", res, runs[0].Err)
	}
	got, _ := collect(t, peer, r, 2)
	if string(got[0].data) != "one" || string(got[1].data) != "two" {
		t.Errorf("got %q, %q", got[0].data, got[1].data)
	}
	refuse()
	if res := s.Send(peer, []Run{{Remote: c.Addr(), Data: []byte("three")}}); res.Sent != 1 {
		t.Fatalf("%+v", res)
	}
	got, _ = collect(t, c, r, 1)
	if string(got[0].data) != "three" {
		t.Errorf("got %q", got[0].data)
	}
}

// A run whose destination, source or firewall is in the way costs itself only.
func TestFailingRunsDoNotStopOthers(t *testing.T) {
	testlab.RequireTool(t, "nft")
	w := newWire(t, 0)
	w.a.Output("nft", "add table inet t; add chain inet t o { type filter hook output priority 0; }; add rule inet t o ip daddr 192.0.2.12 drop")
	from := listen(t, w.a, Config{Addr: addrPort("0.0.0.0:1194")})
	to := listen(t, w.b, Config{Addr: addrPort("192.0.2.2:1194")})
	good := func() Run { return Run{Remote: to.Addr(), Data: pattern(250, 1), SegmentSize: 100} }
	runs := []Run{
		good(),
		{Remote: addrPort("192.0.2.12:1194"), Data: pattern(300, 2), SegmentSize: 100},
		good(),
		{Remote: addrPort("203.0.113.1:1194"), Data: pattern(300, 3), SegmentSize: 100},
		good(),
		{Remote: to.Addr(), Local: netip.MustParseAddr("198.51.100.9"), Data: pattern(300, 4), SegmentSize: 100},
		good(),
		{Remote: to.Addr(), Data: make([]byte, 65*10), SegmentSize: 10},
		{Remote: to.Addr(), Data: make([]byte, MaxRunBytes+1)},
		good(),
	}
	want := []error{nil, unix.EPERM, nil, unix.ENETUNREACH, nil, unix.ENETUNREACH, nil, ErrRun, ErrRun, nil}
	res := NewSender(4).Send(from, runs)
	for i := range runs {
		// Kernels differ in how they refuse a source that isn't theirs.
		foreign := i == 5 && runs[i].Err == unix.EINVAL
		if !errors.Is(runs[i].Err, want[i]) && !foreign {
			t.Errorf("run %d: %v, want %v", i, runs[i].Err, want[i])
		}
		if sent := runs[i].Sent; (want[i] == nil && sent != 3) || (want[i] != nil && sent != 0) {
			t.Errorf("run %d: %d sent", i, sent)
		}
	}
	if res.Sent != 15 || res.Failed != 3*3+2 {
		t.Errorf("%+v", res)
	}
	if !from.GSO() {
		t.Errorf("offload was switched off: %v", from.GSOError())
	}
	got, _ := collect(t, to, NewReceiver(8), 15)
	for i, d := range got {
		if at := i % 3 * 100; !bytes.Equal(d.data, pattern(250, 1)[at:min(at+100, 250)]) {
			t.Errorf("datagram %d differs", i)
		}
	}
}

// Segmentation does not fragment: datagrams beyond the MTU go one by one, are
// fragmented and arrive, while shorter ones keep the offload.
func TestDatagramsBeyondTheMTU(t *testing.T) {
	for _, family := range []struct{ a, b string }{
		{"192.0.2.1:1194", "192.0.2.2:1194"},
		{"[2001:db8::1]:1194", "[2001:db8::2]:1194"},
	} {
		w := newWire(t, 1300)
		from := listen(t, w.a, Config{Addr: addrPort(family.a)})
		to := listen(t, w.b, Config{Addr: addrPort(family.b)})
		runs := []Run{
			{Remote: to.Addr(), Data: pattern(5*1444+9, 1), SegmentSize: 1444},
			{Remote: to.Addr(), Data: pattern(5*1000, 2), SegmentSize: 1000},
		}
		if res := NewSender(4).Send(from, runs); res.Sent != 11 || res.Failed != 0 {
			t.Fatalf("%+v %v %v", res, runs[0].Err, runs[1].Err)
		}
		if !from.GSO() {
			t.Errorf("offload was switched off: %v", from.GSOError())
		}
		var got []byte
		datagrams, _ := collect(t, to, NewReceiver(8), 11)
		for _, d := range datagrams {
			got = append(got, d.data...)
		}
		if !bytes.Equal(got, append(bytes.Clone(runs[0].Data), runs[1].Data...)) {
			t.Errorf("%s: bytes differ", family.a)
		}
	}
}

func TestAllocations(t *testing.T) {
	w := newWire(t, 0)
	from := listen(t, w.a, Config{Addr: addrPort("[2001:db8::1]:1194")})
	to := listen(t, w.b, Config{Addr: addrPort("[2001:db8::2]:1194"), GRO: true})
	s, r := NewSender(4), NewReceiver(4)
	local := netip.MustParseAddr("2001:db8::11")
	runs := []Run{
		{Remote: to.Addr(), Local: local, Data: make([]byte, 8000), SegmentSize: 1000},
		{Remote: addrPort("[2001:db8::2]:9"), Local: local, Data: make([]byte, 100)},
	}
	if n := testing.AllocsPerRun(50, func() {
		if res := s.Send(from, runs); res.Sent != 9 {
			t.Fatalf("%+v", res)
		}
		for got := 0; got < 8000; {
			messages, err := r.Recv(to)
			if err != nil && err != unix.EAGAIN {
				t.Fatal(err)
			}
			for i := range messages {
				got += len(messages[i].Data)
			}
		}
		if _, err := r.Recv(to); err != unix.EAGAIN {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
