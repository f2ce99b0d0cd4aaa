// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
)

// run runs a program and returns its stdout.
func run(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("%s %q: %w: %s%s", name, args, err, out, errs.Bytes())
	}
	return string(out), nil
}

var received = regexp.MustCompile(`(\d+) (?:packets )?received`)

// pings sends count echo requests and returns how many were answered. A
// request is given up after wait.
func pings(t *testing.T, ns *testlab.Namespace, to netip.Addr, count int, wait time.Duration, args ...string) int {
	t.Helper()
	args = append([]string{"-n", "-q", "-c", strconv.Itoa(count), "-i", "0.05", "-W", fmt.Sprint(wait.Seconds())}, args...)
	cmd := ns.Command("ping", append(args, to.String())...)
	out, err := cmd.CombinedOutput()
	if _, isExit := errors.AsType[*exec.ExitError](err); err != nil && !isExit {
		t.Fatal(err)
	}
	m := received.FindSubmatch(out)
	if m == nil {
		t.Fatalf("ping %s: %v\n%s", to, err, out)
	}
	n, _ := strconv.Atoi(string(m[1]))
	return n
}

// mustPing sends count echo requests, all of which have to be answered.
func mustPing(t *testing.T, ns *testlab.Namespace, to netip.Addr, count int, args ...string) {
	t.Helper()
	if n := pings(t, ns, to, count, limit/6, args...); n != count {
		t.Errorf("ping %s from %s: %d of %d answered", to, ns.Name(), n, count)
	}
}

// untilPing waits until an echo request is answered.
func untilPing(t *testing.T, ns *testlab.Namespace, to netip.Addr) {
	t.Helper()
	eventually(t, "ping "+to.String()+" answered", func() bool { return pings(t, ns, to, 1, time.Second) == 1 })
}

func listenTCP(t *testing.T, ns *testlab.Namespace, at netip.AddrPort) (l net.Listener) {
	t.Helper()
	ns.Do(func() {
		var err error
		if l, err = net.Listen("tcp", at.String()); err != nil {
			t.Fatal(err)
		}
	})
	t.Cleanup(func() { l.Close() })
	return l
}

// dialTCP connects from a local address, whose route decides the way.
func dialTCP(t *testing.T, ns *testlab.Namespace, from netip.Addr, to netip.AddrPort) (c *net.TCPConn) {
	t.Helper()
	ns.Do(func() {
		conn, err := net.DialTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), net.TCPAddrFromAddrPort(to))
		if err != nil {
			t.Fatalf("connect %s to %s: %v", from, to, err)
		}
		c = conn
	})
	t.Cleanup(func() { c.Close() })
	return c
}

// pseudoRandom is a stream of bytes that a seed determines.
func pseudoRandom(seed byte) io.Reader { return rand.NewChaCha8([32]byte{seed}) }

// transfer copies n bytes by TCP from one namespace to another and back at
// the same time, and compares both.
func transfer(t *testing.T, from, to *testlab.Namespace, src, dst netip.Addr, n int64) {
	t.Helper()
	l := listenTCP(t, to, netip.AddrPortFrom(dst, 0))
	dialled := dialTCP(t, from, src, l.Addr().(*net.TCPAddr).AddrPort())
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer dialled.Close()
	defer conn.Close()
	deadline := time.Now().Add(limit)
	_ = dialled.SetDeadline(deadline)
	_ = conn.SetDeadline(deadline)
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
	go receive(conn, 1)
	go send(conn, 2)
	go receive(dialled, 2)
	for range 4 {
		if err := <-results; err != nil {
			t.Errorf("TCP %s to %s: %v", src, dst, err)
		}
	}
}

// retransmissions is what the kernel counted for a connection.
func retransmissions(t *testing.T, c *net.TCPConn) uint32 {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var info *unix.TCPInfo
	var infoErr error
	if err := raw.Control(func(fd uintptr) {
		info, infoErr = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	}); err != nil || infoErr != nil {
		t.Fatal(err, infoErr)
	}
	return info.Total_retrans
}
