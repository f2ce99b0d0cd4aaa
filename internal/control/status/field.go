// SPDX-License-Identifier: Apache-2.0

package status

import (
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxName bounds a name in bytes. Common names have at most 64 characters by
// X.520, usernames may have thousands.
const maxName = 512

// Printable makes a name fit for a field: commas, control characters, whatever
// else is not to be seen, and bytes that are no UTF-8 become '_', so that no name
// can shift columns or forge rows, in any version. Spaces stay. What is longer than
// 512 bytes is cut at a character. Different names may become equal.
func Printable(s string) string {
	if len(s) > maxName {
		cut := maxName
		for cut > maxName-utf8.UTFMax && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut]
	}
	return strings.Map(func(r rune) rune {
		if r == ',' || r == utf8.RuneError || !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, s)
}

// name is a name, or what OpenVPN writes for none.
func name(s string) string {
	if s == "" {
		return "UNDEF"
	}
	return Printable(s)
}

// Real is an outer address as OpenVPN 2.4 to 2.6 write it: a.b.c.d:port, and
// IPv6 without port and brackets. 2.7 has udp6:[address]:port, which readers
// of that field that were written for the others take for no address. A mapped IPv4
// address is IPv4. No address is written as nothing.
func Real(a netip.AddrPort) string {
	if !a.Addr().IsValid() {
		return ""
	}
	ip := a.Addr().Unmap()
	if ip.Is4() {
		return netip.AddrPortFrom(ip, a.Port()).String()
	}
	// The zone of a link-local address is an interface's name: text from outside.
	return ip.WithZone("").String()
}

// inner is a tunnel address, or nothing.
func inner(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// destination is a route's network, or its address when it is only one.
func destination(p netip.Prefix) string {
	switch {
	case !p.IsValid():
		return ""
	case p.IsSingleIP():
		return p.Addr().String()
	}
	return p.String()
}
