// SPDX-License-Identifier: Apache-2.0

package management

import (
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
)

func TestSocketLeftBehindIsReplaced(t *testing.T) {
	path := socketPath(t)
	old, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	old.SetUnlinkOnClose(false)
	old.Close()
	call(t, serve(t, Config{Unix: path}))
}

func TestSocketInUseStays(t *testing.T) {
	s := serve(t, Config{})
	if _, err := New(Config{Unix: s.Addr().String(), Source: &source{}}); err == nil || !strings.Contains(err.Error(), "another process listens") {
		t.Errorf("error is %v", err)
	}
	call(t, s)
}

func TestOtherFilesStay(t *testing.T) {
	path := socketPath(t)
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Config{Unix: path, Source: &source{}}); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("error is %v", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "x" {
		t.Errorf("the file is now %q, %v", b, err)
	}
}

func TestCallers(t *testing.T) {
	uid, gid := strconv.Itoa(os.Geteuid()), strconv.Itoa(os.Getegid())
	other := strconv.Itoa(os.Geteuid() + 1)
	for name, test := range map[string]struct {
		cfg  Config
		mode fs.FileMode
		in   bool
	}{
		"default":        {Config{}, 0o700, true},
		"user":           {Config{User: uid}, 0o777, true},
		"group":          {Config{Group: gid}, 0o777, true},
		"both":           {Config{User: uid, Group: gid}, 0o777, true},
		"other user":     {Config{User: other}, 0o777, false},
		"other group":    {Config{User: uid, Group: other}, 0o777, false},
		"user and other": {Config{User: other, Group: gid}, 0o777, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, test.cfg)
			info, err := os.Stat(s.Addr().String())
			if err != nil || info.Mode().Perm() != test.mode {
				t.Errorf("mode is %v, %v; want %v", info.Mode(), err, test.mode)
			}
			if got := dial(t, "unix", s.Addr().String()).line(); (got != "<end>") != test.in {
				t.Errorf("got %q", got)
			}
		})
	}
	for _, cfg := range []Config{{User: "no such user"}, {Group: "no such group"}, {User: "-1"}} {
		cfg.Unix, cfg.Source = socketPath(t), &source{}
		if _, err := New(cfg); err == nil {
			t.Errorf("no error for user %q, group %q", cfg.User, cfg.Group)
		}
	}
}

func TestNoAddressIsNotEveryAddress(t *testing.T) {
	s, err := New(Config{Addr: netip.AddrPortFrom(netip.Addr{}, 7505), Source: &source{}})
	if err == nil {
		s.Close()
		t.Errorf("listens on %v", s.Addr())
	}
}
