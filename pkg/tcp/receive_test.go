// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// However the stream is cut, packets arrive whole and in order.
func TestPacketsArrive(t *testing.T) {
	for name, cfg := range map[string]Config{
		"IPv4":         {MaxPacket: MaxPacket},
		"IPv6":         {MaxPacket: MaxPacket, Addr: netip.MustParseAddrPort("[::1]:0")},
		"mapped":       {MaxPacket: MaxPacket, Addr: netip.MustParseAddrPort("[::ffff:127.0.0.1]:0"), Workers: 3},
		"with options": {MaxPacket: MaxPacket, Mark: 7, RcvBuf: 8192, SndBuf: 8192},
	} {
		t.Run(name, func(t *testing.T) {
			b := started(t, cfg)
			c, r := b.dial()
			if r.conn.Local().String() != c.RemoteAddr().String() || r.conn.Local() != b.l.Addr() {
				t.Errorf("local address %s", r.conn.Local())
			}
			var want [][]byte
			for i, n := range []int{1, 2, 65535, 14, 1444, 1, 40000} {
				want = append(want, filled(n, byte(i)))
			}
			for i := range 2000 {
				want = append(want, filled(1+i%90, byte(i)))
			}
			all := framed(want...)
			cut := rand.New(rand.NewPCG(1, 2))
			for _, one := range all[:40] {
				b.write(c, []byte{one})
			}
			for rest := all[40:]; len(rest) > 0; {
				n := min(len(rest), 1+cut.IntN(20000))
				b.write(c, rest[:n])
				rest = rest[n:]
			}
			eventually(t, "all packets are there", func() bool { return len(r.got()) >= len(want) })
			if !slices.EqualFunc(r.got(), want, bytes.Equal) {
				t.Error("packets differ")
			}
			if len(r.workers) != 1 {
				t.Errorf("served by workers %v", r.workers)
			}
			c.Close()
			r.wantClosed(io.EOF)
		})
	}
}

func TestBadLengths(t *testing.T) {
	for name, tail := range map[string][]byte{
		"zero":            {0, 0},
		"above the limit": {0x05, 0xdd},
		"an HTTP request": []byte("GET / HTTP/1.1\r\n\r\n"),
	} {
		t.Run(name, func(t *testing.T) {
			b := started(t, Config{MaxPacket: 1500})
			c, r := b.dial()
			other, s := b.dial()
			good := filled(1500, 3)
			b.write(c, append(framed(good), tail...))
			r.wantClosed(ErrFrame)
			if got := r.got(); len(got) != 1 || !bytes.Equal(got[0], good) {
				t.Errorf("%d packets in front of it", len(got))
			}
			if _, err := c.Read(make([]byte, 1)); err == nil {
				t.Error("the connection is open")
			}
			if st := b.l.Stats(); st.Broken != 1 || st.Open != 1 || st.Accepted != 2 {
				t.Errorf("counted %+v", st)
			}
			b.write(other, framed(good))
			eventually(t, "the other connection goes on", func() bool { return len(s.got()) == 1 })
		})
	}
}

// refused tries to connect, in vain.
func (b *bed) refused() {
	b.t.Helper()
	before := b.l.Stats().Refused
	b.ns.Do(func() {
		c, err := net.DialTimeout("tcp", b.l.Addr().String(), patience)
		if err != nil {
			return // reset before the call returned
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
			b.t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNRESET) {
			b.t.Errorf("a connection too many is open: %v", err)
		}
	})
	if n := b.l.Stats().Refused; n != before+1 {
		b.t.Errorf("%d refused", n-before)
	}
}

func TestTooManyOfOneSource(t *testing.T) {
	b := started(t, Config{MaxPerPrefix: 2, Workers: 2})
	_, first := b.dial()
	b.dial()
	b.refused()
	first.conn.Proven()
	first.conn.Proven() // counts once
	third, r := b.dial()
	b.refused()
	third.Close()
	r.wantClosed(io.EOF)
	b.dial()
	if s := b.l.Stats(); s.Open != 3 || s.Evicted != 0 {
		t.Errorf("counted %+v", s)
	}
}

// One too many in all takes the place of one that has proven nothing.
func TestTooManyConnections(t *testing.T) {
	b := started(t, Config{MaxConns: 3, Workers: 2})
	good, first := b.dial()
	first.conn.Proven()
	var others []*taker
	for range 6 {
		_, r := b.dial()
		others = append(others, r)
	}
	eventually(t, "there is room again", func() bool { return b.l.Stats().Open == 3 })
	ended := 0
	for _, r := range others {
		if whys := r.whys(); len(whys) > 0 {
			ended++
			if !errors.Is(whys[0], ErrClosed) {
				t.Errorf("ended because of %v", whys[0])
			}
		} else {
			r.conn.Proven()
		}
	}
	if s := b.l.Stats(); ended != 4 || s.Evicted != 4 || s.Refused != 0 {
		t.Errorf("%d ended, counted %+v", ended, s)
	}
	b.refused() // all are proven
	b.write(good, framed(filled(9, 9)))
	eventually(t, "the proven one goes on", func() bool { return len(first.got()) == 1 })
}

// Connections that prove nothing are ended, those that have stay.
func TestHandshakeTime(t *testing.T) {
	b := started(t, Config{Handshake: 1})
	_, silent := b.dial()
	silent.wantClosed(ErrHandshake)

	b = started(t, Config{Handshake: 3 * lookEvery / 2})
	c, proven := b.dial()
	proven.conn.Proven()
	talking, r := b.dial()
	b.write(talking, framed(filled(9, 9)))
	r.wantClosed(ErrHandshake)
	if st := b.l.Stats(); st.Expired != 1 || st.Open != 1 {
		t.Errorf("counted %+v", st)
	}
	b.write(c, framed(filled(9, 9)))
	eventually(t, "the proven one goes on", func() bool { return len(proven.got()) == 1 })
}

func TestOtherEndResets(t *testing.T) {
	b := started(t, Config{})
	c, r := b.dial()
	if err := c.SetLinger(0); err != nil {
		t.Fatal(err)
	}
	c.Close()
	r.wantClosed(unix.ECONNRESET)
	if r.conn.SendPacket(filled(9, 1)) || r.conn.SendFrames(framed(filled(9, 1))) != 0 {
		t.Error("a closed connection takes packets")
	}
	r.conn.Proven()
	r.conn.Close()
}

// Without descriptors connections wait, and are accepted when there are some.
func TestDescriptorsRunOut(t *testing.T) {
	b := newBed(t, Config{Workers: 1})
	c := b.connect()
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	free, err := unix.Dup(0)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(free)
	none := before
	none.Cur = uint64(free)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	b.l.Start(b)
	w := b.l.workers[0]
	paused := false
	for range 1000 {
		if paused = w.paused.Load(); paused || b.l.Stats().Accepted > 0 {
			break
		}
		_, _ = unix.Poll(nil, 5)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if !paused {
		t.Error("accepting goes on without descriptors")
	}
	b.write(c, framed(filled(5, 5)))
	eventually(t, "the connection is served", func() bool {
		all := b.all()
		return len(all) == 1 && len(all[0].got()) == 1
	})
}

func TestListenErrors(t *testing.T) {
	b := newBed(t, Config{})
	b.ns.Do(func() {
		for name, c := range map[string]struct {
			addr netip.AddrPort
			want error
			says string
		}{
			"none":       {netip.AddrPort{}, nil, "no address"},
			"in use":     {b.l.Addr(), unix.EADDRINUSE, "port in use"},
			"not ours":   {netip.MustParseAddrPort("192.0.2.1:1194"), unix.EADDRNOTAVAIL, "not one of this host's"},
			"other zone": {netip.MustParseAddrPort("[fe80::1%nope]:1194"), nil, "zone nope"},
		} {
			l, err := Listen(Config{Addr: c.addr})
			if err == nil {
				l.Close()
				t.Errorf("%s: no error", name)
				continue
			}
			if (c.want != nil && !errors.Is(err, c.want)) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
