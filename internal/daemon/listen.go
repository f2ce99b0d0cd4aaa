// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/ovpn-xdp/ovpn-xdp/internal/netdev"
	"github.com/ovpn-xdp/ovpn-xdp/internal/steer"
)

// refreshAddresses follows this namespace's own addresses: a wildcard listener
// stands for them, and no peer can float to one.
func (g *gateway) refreshAddresses() {
	addrs, err := netdev.LocalAddresses()
	if err != nil {
		g.log.Warn("listing addresses failed", "error", err)
		return
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	addrs = slices.Compact(addrs)
	g.peers.SetLocal(addrs)
	g.listenMu.Lock()
	g.local = addrs
	g.listenMu.Unlock()
	if inner, err := netdev.LinkAddresses(g.tun.Name()); err == nil {
		g.engine.SetAddresses(inner)
	}
	for _, att := range g.attachments() {
		if err := g.setListeners(att); err != nil {
			g.log.Warn("writing listeners into the BPF map failed", "error", err)
		}
	}
}

// setListeners makes an attachment's listeners those of this moment.
func (g *gateway) setListeners(att *steer.Attachment) error {
	g.listenMu.Lock()
	defer g.listenMu.Unlock()
	want := map[netip.AddrPort]bool{}
	for _, c := range g.conns {
		at := c.Addr()
		if a := at.Addr().WithZone(""); !a.IsUnspecified() {
			// An address that left this host is somebody else's: what comes for
			// it is only forwarded.
			if slices.Contains(g.local, a) {
				want[netip.AddrPortFrom(a, at.Port())] = true
			}
			continue
		}
		for _, a := range g.expand(at) {
			want[netip.AddrPortFrom(a.WithZone(""), at.Port())] = true
		}
	}
	have := g.listening[att]
	for l := range have {
		if !want[l] {
			if err := att.DelListener(l); err != nil {
				return fmt.Errorf("delete listener %s: %w", l, err)
			}
			delete(have, l)
		}
	}
	for l := range want {
		if !have[l] {
			if err := att.SetListener(l); err != nil {
				return fmt.Errorf("set listener %s: %w", l, err)
			}
			have[l] = true
		}
	}
	return nil
}

// expand returns the addresses that a wildcard listener stands for; listenMu
// is held.
func (g *gateway) expand(at netip.AddrPort) []netip.Addr {
	var out []netip.Addr
	for _, a := range g.local {
		if a.Is4() == at.Addr().Is4() && !a.IsLoopback() {
			out = append(out, a)
		}
	}
	return out
}
