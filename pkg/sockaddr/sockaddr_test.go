// SPDX-License-Identifier: Apache-2.0

package sockaddr

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

func TestThereAndBack(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.1:1194":      "192.0.2.1:1194",
		"[2001:db8::1]:1":     "[2001:db8::1]:1",
		"[fe80::1%lo]:9":      "[fe80::1%1]:9", // lo is link 1 in every namespace
		"[fe80::1%7]:9":       "[fe80::1%7]:9",
		"[2001:db8::1%lo]:9":  "[2001:db8::1]:9", // only link-local addresses need a zone
		"[::ffff:1.2.3.4]:80": "[::ffff:1.2.3.4]:80",
	} {
		sa, err := From(netip.MustParseAddrPort(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := AddrPort(sa).String(); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	if _, err := From(netip.MustParseAddrPort("[fe80::1%no-such-link]:1")); err == nil {
		t.Error("a zone that is no link was taken")
	}
	if a := AddrPort(&unix.SockaddrUnix{Name: "x"}); a.IsValid() {
		t.Errorf("a Unix socket has the address %s", a)
	}
}
