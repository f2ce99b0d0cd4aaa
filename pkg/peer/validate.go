// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"fmt"
	"net/netip"
)

// check validates what Add and Set were given.
func (t *Table) check(c *Config) error {
	if c.Stream != nil && (c.Remote.IsValid() || c.Local.IsValid()) {
		return fmt.Errorf("%w: a peer with a connection of its own has no remote or local address", ErrInvalid)
	}
	if c.Remote.IsValid() {
		c.Remote = netip.AddrPortFrom(c.Remote.Addr().Unmap(), c.Remote.Port())
		a := c.Remote.Addr()
		if c.Remote.Port() == 0 || a.IsUnspecified() || a.IsMulticast() || a == broadcast {
			return fmt.Errorf("%w: remote %s is not a unicast address with a port", ErrInvalid, c.Remote)
		}
	}
	if c.Local.IsValid() {
		c.Local = c.Local.Unmap()
		switch {
		case !c.Remote.IsValid():
			return fmt.Errorf("%w: local %s without a remote", ErrInvalid, c.Local)
		case c.Local.IsUnspecified() || c.Local.IsMulticast() || c.Local == broadcast:
			return fmt.Errorf("%w: local %s is not a unicast address", ErrInvalid, c.Local)
		case c.Local.Is4() != c.Remote.Addr().Is4():
			return fmt.Errorf("%w: local %s and remote %s are of different families", ErrInvalid, c.Local, c.Remote)
		}
	}
	if (c.Interval == 0) != (c.Timeout == 0) || c.Interval < 0 || c.Timeout < 0 {
		return fmt.Errorf("%w: keepalive needs interval and timeout, or 0:0 for off", ErrInvalid)
	}
	if t.p2p && len(c.Prefixes) > 0 {
		return fmt.Errorf("%w: a point-to-point peer gets everything; it takes no routes", ErrInvalid)
	}
	for i, f := range c.Prefixes {
		switch {
		case !f.IsValid() || f.Addr().Is4In6() || isCompatible(f):
			return fmt.Errorf("%w: route %s", ErrInvalid, f)
		case f.Masked() != f:
			return fmt.Errorf("%w: route %s has host bits set; use %s", ErrInvalid, f, f.Masked())
		case f.Addr().IsMulticast() || f.Addr().IsLoopback() || f.Addr() == broadcast || (f.IsSingleIP() && f.Addr().IsUnspecified()):
			return fmt.Errorf("%w: route %s is not unicast", ErrInvalid, f)
		}
		for _, g := range c.Prefixes[:i] {
			if f == g {
				return fmt.Errorf("%w: route %s is given twice", ErrInvalid, f)
			}
		}
	}
	return nil
}

// isCompatible reports whether f lies in ::/96: IPv4-compatible addresses, which
// no peer can have (RFC 4291, 2.5.5.1).
func isCompatible(f netip.Prefix) bool {
	a := f.Addr().As16()
	return f.Addr().Is6() && f.Bits() >= 96 && [12]byte(a[:]) == [12]byte{}
}

var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})
