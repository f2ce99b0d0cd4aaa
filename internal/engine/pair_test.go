// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/aead"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/peer"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/reason"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/tun"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/udp"
)

// side is one of two gateways that face each other.
type side struct {
	ns     *testlab.Namespace
	inner  netip.Addr
	table  *peer.Table
	engine *Engine
}

// newPair makes two engines on the socket rung with a wire between them.
func newPair(t *testing.T) (a, b *side) {
	t.Helper()
	lab := testlab.New(t)
	a = &side{ns: lab.Namespace("a"), inner: addr("10.9.0.1")}
	b = &side{ns: lab.Namespace("b"), inner: addr("10.9.0.2")}
	lab.Veth(testlab.Veth{
		A:        testlab.End{Namespace: a.ns, Name: "eth0", Addresses: prefixes("192.0.2.1/24")},
		B:        testlab.End{Namespace: b.ns, Name: "eth0", Addresses: prefixes("192.0.2.2/24")},
		WireLike: true,
	})
	half := [2][]byte{random(t, 16), random(t, 16)}
	iv := [2][8]byte{[8]byte(random(t, 8)), [8]byte(random(t, 8))}
	ends := []netip.AddrPort{addrPort("192.0.2.1:1194"), addrPort("192.0.2.2:1194")}
	for i, s := range []*side{a, b} {
		other := []*side{b, a}[i]
		s.table = peer.NewTable(false, nil)
		p := addPeer(t, s.table, peer.Config{ID: 7, Remote: ends[1-i], Prefixes: []netip.Prefix{netip.PrefixFrom(other.inner, 32)}})
		k, _ := keyOf(t, 7, peer.KeyConfig{ID: 1, Cipher: aead.AES128GCM, Send: half[i], SendIV: iv[i], Receive: half[1-i], RecvIV: iv[1-i]})
		if err := p.SetKey(peer.Primary, k); err != nil {
			t.Fatal(err)
		}
		conn := listenIn(t, s.ns, udp.Config{Addr: ends[i], GRO: true, RcvBuf: 32 << 20})
		// No IPv6 inside: its own messages would be counted as without route.
		s.ns.Sysctl("net.ipv6.conf.default.disable_ipv6", "1")
		dev := openTun(t, s.ns, tun.Config{Name: "tun0"}, []netip.Prefix{netip.PrefixFrom(s.inner, 24)})
		s.engine = newEngine(t, Config{Tun: dev, Conns: []*udp.Conn{conn}, Peers: s.table, Batch: 64, Prefetch: 2, MSS: 1380,
			Log: slog.New(slog.DiscardHandler), Offload: func(what, why string) { t.Errorf("%s went off: %s", what, why) }})
	}
	a.engine.Start()
	b.engine.Start()
	return a, b
}

// streamed sends bytes of a stream that both ends can make.
func streamed(w io.Writer, seed, total uint64) error {
	r := rand.NewChaCha8([32]byte{byte(seed)})
	_, err := io.CopyN(w, r, int64(total))
	return err
}

// checked reads such a stream to its end.
func checked(r io.Reader, seed, total uint64) error {
	want := rand.NewChaCha8([32]byte{byte(seed)})
	got, expect := make([]byte, 64<<10), make([]byte, 64<<10)
	for at := uint64(0); at < total; {
		n, err := r.Read(got)
		if err != nil {
			return fmt.Errorf("at %d of %d: %w", at, total, err)
		}
		_, _ = want.Read(expect[:n])
		if !bytes.Equal(got[:n], expect[:n]) {
			return fmt.Errorf("bytes differ after %d", at)
		}
		at += uint64(n)
	}
	return nil
}

// stream carries checked bytes from one side to the other over TCP. Small
// buffers keep what is on its way below every queue's length.
func stream(t *testing.T, from, to *side, seed, total uint64, failed chan<- error) {
	t.Helper()
	limit := func(c net.Conn) {
		raw, err := c.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		var failed error
		if err := raw.Control(func(fd uintptr) {
			failed = errors.Join(unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 128<<10),
				unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, 256<<10))
		}); err != nil || failed != nil {
			t.Fatal(err, failed)
		}
	}
	var l net.Listener
	to.ns.Do(func() {
		var err error
		if l, err = net.Listen("tcp4", netip.AddrPortFrom(to.inner, 0).String()); err != nil {
			t.Fatal(err)
		}
	})
	t.Cleanup(func() { l.Close() })
	var out net.Conn
	from.ns.Do(func() {
		var err error
		if out, err = net.DialTimeout("tcp4", l.Addr().String(), patience); err != nil {
			t.Fatal(err)
		}
	})
	t.Cleanup(func() { out.Close() })
	in, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close() })
	limit(in)
	limit(out)
	end := time.Now().Add(5 * time.Minute)
	if err := errors.Join(in.SetDeadline(end), out.SetDeadline(end)); err != nil {
		t.Fatal(err)
	}
	go func() { failed <- streamed(out, seed, total) }()
	go func() { failed <- checked(in, seed, total) }()
}

// datagrams carries numbered datagrams from one side to the other; the number on
// their way is bounded.
func datagrams(t *testing.T, from, to *side, total uint32, failed chan<- error) {
	t.Helper()
	in := listenInside(t, to.ns, netip.AddrPortFrom(to.inner, 5001))
	var out net.Conn
	from.ns.Do(func() {
		var err error
		if out, err = net.Dial("udp4", netip.AddrPortFrom(to.inner, 5001).String()); err != nil {
			t.Fatal(err)
		}
	})
	t.Cleanup(func() { out.Close() })
	var got atomic.Uint32
	go func() { failed <- counted(in, &got, total) }()
	go func() {
		end := time.Now().Add(5 * time.Minute)
		for n := range total {
			for n-got.Load() > 64 {
				if time.Now().After(end) {
					failed <- errors.New("datagrams do not arrive")
					return
				}
				time.Sleep(20 * time.Microsecond)
			}
			if _, err := out.Write(numbered(n)[28:]); err != nil {
				failed <- err
				return
			}
		}
		failed <- nil
	}()
}

// Checked streams and numbered datagrams in both directions at once. Everything
// that was sealed is taken, and all of it is delivered.
func TestTwoEngines(t *testing.T) {
	size, count := uint64(200<<20), uint32(20_000)
	if testing.Short() {
		size, count = size/10, count/10
	}
	a, b := newPair(t)
	failed := make(chan error, 8)
	stream(t, a, b, 1, size, failed)
	stream(t, b, a, 2, size, failed)
	datagrams(t, a, b, count, failed)
	datagrams(t, b, a, count, failed)
	for range cap(failed) {
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
	}
	// The last acknowledgements may still be on their way.
	settled := func(from, to *side) func() bool {
		return func() bool {
			out, in := from.engine.Stats(), to.engine.Stats()
			return out.Packets == in.Socket && in.InFlight == 0
		}
	}
	eventually(t, "all that a sealed is at its end in b", settled(a, b))
	eventually(t, "all that b sealed is at its end in a", settled(b, a))
	for _, s := range []*side{a, b} {
		st := s.engine.Stats()
		if st.InDrops != [reason.Count]uint64{} || st.OutDrops != [reason.Count]uint64{} || st.Control != 0 {
			t.Errorf("drops in %v, out %v, %d control datagrams", st.InDrops, st.OutDrops, st.Control)
		}
		if st.Delivered != st.Socket {
			t.Errorf("%d taken, %d delivered", st.Socket, st.Delivered)
		}
		if !testing.Short() && st.Socket < 150_000 {
			t.Errorf("only %d records: the stream did not go this way", st.Socket)
		}
		if st.Writes >= st.Delivered || st.Reads >= st.Packets || st.Sends >= st.Packets {
			t.Errorf("%d writes for %d packets, %d reads and %d sends for %d: nothing was put together",
				st.Writes, st.Delivered, st.Reads, st.Sends, st.Packets)
		}
		p := s.table.Lookup(7)
		// A late acknowledgement may fall between the readings.
		eventually(t, "the peer's counters are the engine's", func() bool {
			st := s.engine.Stats()
			return p.LinkIn.Records.Load() == st.Socket && p.In.Records.Load() == st.Delivered &&
				p.Out.Records.Load() == st.Packets && p.LinkOut.Records.Load() == st.Packets
		})
	}
}
