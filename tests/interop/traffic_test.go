// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
)

var received = regexp.MustCompile(`(\d+) (?:packets )?received`)

// pings sends count echo requests and returns how many were answered. A
// request is given up after wait.
func pings(t *testing.T, ns *testlab.Namespace, to netip.Addr, count int, wait time.Duration) int {
	t.Helper()
	out, err := ns.Command("ping", "-n", "-q", "-c", strconv.Itoa(count), "-i", "0.05",
		"-W", fmt.Sprint(wait.Seconds()), to.String()).CombinedOutput()
	if exited(err) != nil {
		t.Fatal(err)
	}
	m := received.FindSubmatch(out)
	if m == nil {
		// An unreachable destination is an answer like none.
		return 0
	}
	n, _ := strconv.Atoi(string(m[1]))
	return n
}

// mustPing sends count echo requests, all of which have to be answered.
func mustPing(t *testing.T, ns *testlab.Namespace, to netip.Addr, count int) {
	t.Helper()
	if n := pings(t, ns, to, count, limit/10); n != count {
		t.Errorf("ping %s from %s: %d of %d answered", to, ns.Name(), n, count)
	}
}

// pseudoRandom is a stream of bytes that a seed determines.
func pseudoRandom(seed byte) io.Reader { return rand.NewChaCha8([32]byte{seed}) }

// transfer copies n bytes by TCP from one namespace to another and back at
// the same time, and compares both.
func transfer(t *testing.T, from, to *testlab.Namespace, src, dst netip.Addr, n int64) {
	t.Helper()
	var dialled, accepted net.Conn
	to.Do(func() {
		l, err := net.Listen("tcp", netip.AddrPortFrom(dst, 0).String())
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		from.Do(func() {
			d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(src, 0)), Timeout: limit}
			if dialled, err = d.Dial("tcp", l.Addr().String()); err != nil {
				t.Fatalf("connect %s to %s: %v", src, dst, err)
			}
		})
		if accepted, err = l.Accept(); err != nil {
			t.Fatal(err)
		}
	})
	defer dialled.Close()
	defer accepted.Close()
	deadline := time.Now().Add(limit)
	_ = dialled.SetDeadline(deadline)
	_ = accepted.SetDeadline(deadline)
	results := make(chan error, 4)
	send := func(c net.Conn, seed byte) {
		_, err := io.CopyN(c, pseudoRandom(seed), n)
		results <- err
	}
	receive := func(c net.Conn, seed byte) {
		got, want := sha256.New(), sha256.New()
		_, err := io.CopyN(got, c, n)
		_, _ = io.CopyN(want, pseudoRandom(seed), n)
		if err == nil && !bytes.Equal(got.Sum(nil), want.Sum(nil)) {
			err = errors.New("content changed on the way")
		}
		results <- err
	}
	go send(dialled, 1)
	go receive(accepted, 1)
	go send(accepted, 2)
	go receive(dialled, 2)
	for range 4 {
		if err := <-results; err != nil {
			t.Errorf("TCP %s to %s: %v", src, dst, err)
		}
	}
}

// carries checks that a client's tunnel carries both families, in both directions.
func (c *client) carries() {
	c.t.Helper()
	v4, v6 := c.addresses()
	if !v4.IsValid() || !v6.IsValid() {
		c.t.Fatalf("%s has the addresses %s and %s", c.name, v4, v6)
	}
	mustPing(c.t, c.ns, inner4, 3)
	mustPing(c.t, c.ns, inner6, 3)
}
