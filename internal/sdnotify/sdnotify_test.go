// SPDX-License-Identifier: Apache-2.0

package sdnotify_test

import (
	"crypto/rand"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/sdnotify"
)

// manager listens as systemd does, and returns what comes next.
func manager(t *testing.T, name string) (next func() string) {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return func() string {
		t.Helper()
		b := make([]byte, 4096)
		conn.SetReadDeadline(time.Now().Add(time.Minute))
		n, err := conn.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
}

func TestMessages(t *testing.T) {
	dir, err := os.MkdirTemp("", "ovx")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for kind, name := range map[string]string{"path": filepath.Join(dir, "notify"), "abstract": "@ovx-" + rand.Text()} {
		t.Run(kind, func(t *testing.T) {
			next := manager(t, name)
			t.Setenv("NOTIFY_SOCKET", name)
			n, err := sdnotify.New()
			if err != nil {
				t.Fatal(err)
			}
			if v, ok := os.LookupEnv("NOTIFY_SOCKET"); ok {
				t.Errorf("NOTIFY_SOCKET is still %q", v)
			}
			for _, step := range []struct {
				send func() error
				want string
			}{
				{n.Ready, `^READY=1$`},
				{n.Reloading, `^RELOADING=1\nMONOTONIC_USEC=[1-9]\d*$`},
				{func() error { return n.Status("7 clients") }, `^STATUS=7 clients$`},
				{func() error { return n.Status("evil\nREADY=1\x00") }, `^STATUS=evil READY=1 $`},
				{func() error { return n.Status("x" + strings.Repeat("ä", 400)) }, `^STATUS=xä{255}$`},
				{n.Stopping, `^STOPPING=1$`},
			} {
				if err := step.send(); err != nil {
					t.Fatal(err)
				}
				if got := next(); !regexp.MustCompile(step.want).MatchString(got) {
					t.Errorf("got %q, want %s", got, step.want)
				}
			}
		})
	}
}

func TestWithoutManager(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	n, err := sdnotify.New()
	if n != nil || err != nil {
		t.Fatalf("notifier %v, error %v", n, err)
	}
	for _, send := range []func() error{n.Ready, n.Reloading, n.Stopping, func() error { return n.Status("x") }} {
		if err := send(); err != nil {
			t.Error(err)
		}
	}
}

func TestFaults(t *testing.T) {
	for _, name := range []string{"relative", "vsock:2:1234", "@", "/"} {
		t.Setenv("NOTIFY_SOCKET", name)
		if n, err := sdnotify.New(); err == nil {
			t.Errorf("%s: notifier %v", name, n)
		}
	}
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "nobody"))
	n, err := sdnotify.New()
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Ready(); err == nil {
		t.Error("no error when nobody listens")
	}
}
