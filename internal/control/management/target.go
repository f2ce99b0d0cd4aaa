// SPDX-License-Identifier: Apache-2.0

package management

import (
	"net/netip"
	"strings"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/status"
)

// target is whom kill means.
type target struct {
	text string
	name bool       // a common name: text
	addr netip.Addr // without name
	port uint16
	any  bool // any port
	over transport
}

type transport uint8

const (
	either transport = iota
	overUDP
	overTCP
)

// transports are OpenVPN 2.7's names, which it writes in front of addresses.
var transports = map[string]transport{
	"udp": overUDP, "udp4": overUDP, "udp6": overUDP,
	"tcp": overTCP, "tcp4": overTCP, "tcp6": overTCP, "tcp-server": overTCP, "tcp4-server": overTCP, "tcp6-server": overTCP,
}

// parseTarget takes a.b.c.d:port and [IPv6]:port, both also behind udp: or tcp:, and
// an IPv6 address alone, as it stands in the status file, for addresses, and all else
// for a common name. OpenVPN takes everything without a colon for one.
func parseTarget(text string) target {
	t := target{text: text}
	rest := text
	if proto, behind, ok := strings.Cut(text, ":"); ok {
		if t.over = transports[proto]; t.over != either {
			rest = behind
		}
	}
	if ap, err := netip.ParseAddrPort(rest); err == nil {
		t.addr, t.port = ap.Addr().Unmap().WithZone(""), ap.Port()
		return t
	}
	if ip, err := netip.ParseAddr(rest); err == nil && ip.Is6() {
		t.addr, t.any = ip.Unmap().WithZone(""), true
		return t
	}
	return target{text: text, name: true}
}

// is reports whether a client is meant.
func (t target) is(c status.Client) bool {
	switch {
	case t.name:
		return c.CommonName == t.text
	case t.over == overUDP && c.TCP, t.over == overTCP && !c.TCP:
		return false
	}
	return c.Real.Addr().Unmap().WithZone("") == t.addr && (t.any || c.Real.Port() == t.port)
}
