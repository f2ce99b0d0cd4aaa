// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
)

// patience is how long tests wait for something that must come.
const patience = 20 * time.Second

func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// bed is a listener on loopback in a namespace of its own.
type bed struct {
	t  testing.TB
	ns *testlab.Namespace
	l  *Listener

	mu    sync.Mutex
	conns []*taker
}

// taker is a Receiver that keeps what it is given.
type taker struct {
	bed  *bed
	conn *Conn
	echo atomic.Bool

	mu      sync.Mutex
	packets [][]byte
	bytes   int
	workers map[int]bool
	closed  []error
}

func newBed(t testing.TB, cfg Config) *bed {
	t.Helper()
	b := &bed{t: t, ns: testlab.New(t).Namespace("t")}
	if !cfg.Addr.IsValid() {
		cfg.Addr = netip.MustParseAddrPort("127.0.0.1:0")
	}
	b.ns.Do(func() {
		var err error
		if b.l, err = Listen(cfg); err != nil {
			t.Fatal(err)
		}
	})
	t.Cleanup(func() {
		if err := b.l.Close(); err != nil {
			t.Error(err)
		}
		for i, c := range b.all() {
			if n := len(c.whys()); n != 1 {
				t.Errorf("connection %d was told %d times that it has ended", i, n)
			}
		}
		if s := b.l.Stats(); s.Open != 0 || len(b.l.limits.unproven) != 0 {
			t.Errorf("%d connections left, unproven %v", s.Open, b.l.limits.unproven)
		}
	})
	return b
}

// started is newBed with the workers going.
func started(t testing.TB, cfg Config) *bed {
	t.Helper()
	b := newBed(t, cfg)
	b.l.Start(b)
	return b
}

func (b *bed) Opened(c *Conn) Receiver {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := &taker{bed: b, conn: c, workers: map[int]bool{}}
	b.conns = append(b.conns, r)
	return r
}

func (b *bed) all() []*taker {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]*taker(nil), b.conns...)
}

func (r *taker) Packets(worker int, packets [][]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.workers[worker] = true
	for _, p := range packets {
		r.packets = append(r.packets, bytes.Clone(p))
		r.bytes += len(p)
		// The 16 bytes behind it can be borrowed.
		behind := p[len(p) : len(p)+16]
		saved := bytes.Clone(behind)
		clear(behind)
		copy(behind, saved)
		if r.echo.Load() && !r.conn.SendPacket(p) {
			r.bed.t.Error("no room for an echo")
		}
	}
}

func (r *taker) Closed(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = append(r.closed, why)
}

func (r *taker) got() [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.packets
}

func (r *taker) whys() []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

// wantClosed waits for the end of the connection and looks why.
func (r *taker) wantClosed(want error) {
	r.bed.t.Helper()
	eventually(r.bed.t, "the connection has ended", func() bool { return len(r.whys()) > 0 })
	if got := r.whys()[0]; !errors.Is(got, want) {
		r.bed.t.Errorf("ended because of %v, want %v", got, want)
	}
}

// dial makes a connection and returns both ends of it.
func (b *bed) dial() (*net.TCPConn, *taker) {
	b.t.Helper()
	c := b.connect()
	var r *taker
	eventually(b.t, "the connection is accepted", func() bool {
		for _, each := range b.all() {
			if each.conn.Remote().String() == c.LocalAddr().String() {
				r = each
			}
		}
		return r != nil
	})
	return c, r
}

func (b *bed) connect() (c *net.TCPConn) {
	b.t.Helper()
	b.ns.Do(func() {
		got, err := net.DialTimeout("tcp", b.l.Addr().String(), patience)
		if err != nil {
			b.t.Fatal(err)
		}
		c = got.(*net.TCPConn)
	})
	b.t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		b.t.Fatal(err)
	}
	return c
}

func (b *bed) write(c net.Conn, data []byte) {
	b.t.Helper()
	if _, err := c.Write(data); err != nil {
		b.t.Fatal(err)
	}
}

// next reads one packet; nil: the other end has closed in good order, or the test
// has failed.
func next(t testing.TB, c net.Conn) []byte {
	t.Helper()
	var length [PrefixLen]byte
	_, err := io.ReadFull(c, length[:])
	if errors.Is(err, io.EOF) {
		return nil
	}
	p := make([]byte, binary.BigEndian.Uint16(length[:]))
	if err == nil {
		_, err = io.ReadFull(c, p)
	}
	if err != nil {
		t.Error(err)
		return nil
	}
	return p
}
