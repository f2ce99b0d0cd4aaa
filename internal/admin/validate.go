// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/aead"
)

// Ciphers returns the names a key's cipher can have, as OpenVPN writes them.
func Ciphers() []string {
	var names []string
	for _, c := range aead.Ciphers() {
		names = append(names, c.String())
	}
	return names
}

// maxKeepalive is what the kernel's ovpn driver stores without overflow on
// every architecture, and more than a day.
const maxKeepalive = 1 << 17

var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

func invalid(format string, args ...any) error { return Errorf(CodeInvalid, format, args...) }

func validatePeerID(id uint32) error {
	if id > MaxPeerID {
		return invalid("peer %d: ids are 0 to %d", id, MaxPeerID)
	}
	return nil
}

// Validate checks p and brings its addresses into one form: IPv4 never mapped.
func (p *PeerAdd) Validate() error {
	if err := validatePeerID(p.ID); err != nil {
		return err
	}
	if p.TxID != nil && *p.TxID > 0xffffff {
		return invalid("peer %d: tx id %d: ids are 0 to %d", p.ID, *p.TxID, 0xffffff)
	}
	if p.Remote != (netip.AddrPort{}) {
		if err := normalizeRemote(p.ID, &p.Remote); err != nil {
			return err
		}
	}
	if err := normalizeLocal(p.ID, &p.Local, p.Remote); err != nil {
		return err
	}
	if err := validateRoutes(p.ID, p.Routes); err != nil {
		return err
	}
	return p.Keepalive.validate(p.ID)
}

// Validate checks p and brings its addresses into one form: IPv4 never mapped.
func (p *PeerSet) Validate() error {
	if err := validatePeerID(p.ID); err != nil {
		return err
	}
	if p.Remote == nil && p.Local == nil && p.Routes == nil && p.Keepalive == nil {
		return invalid("peer %d: nothing to set", p.ID)
	}
	var remote netip.AddrPort
	if p.Remote != nil {
		if err := normalizeRemote(p.ID, p.Remote); err != nil {
			return err
		}
		remote = *p.Remote
	}
	if p.Local != nil {
		if err := normalizeLocal(p.ID, p.Local, remote); err != nil {
			return err
		}
	}
	if p.Routes != nil {
		if err := validateRoutes(p.ID, *p.Routes); err != nil {
			return err
		}
	}
	if p.Keepalive != nil {
		return p.Keepalive.validate(p.ID)
	}
	return nil
}

func normalizeRemote(id uint32, remote *netip.AddrPort) error {
	*remote = netip.AddrPortFrom(remote.Addr().Unmap(), remote.Port())
	addr := remote.Addr()
	if !addr.IsValid() || addr.IsUnspecified() || addr.IsMulticast() || addr == broadcast {
		return invalid("peer %d: remote %s: not the address of one host", id, remote)
	}
	if remote.Port() == 0 {
		return invalid("peer %d: remote %s: ports are 1 to 65535", id, remote)
	}
	return nil
}

func normalizeLocal(id uint32, local *netip.Addr, remote netip.AddrPort) error {
	*local = local.Unmap()
	if *local == (netip.Addr{}) {
		return nil
	}
	if local.IsUnspecified() || local.IsMulticast() || *local == broadcast {
		return invalid("peer %d: local %s: not an address of this host", id, local)
	}
	if remote.IsValid() && remote.Addr().Is4() != local.Is4() {
		return invalid("peer %d: local %s and remote %s are of different families", id, local, remote)
	}
	return nil
}

func validateRoutes(id uint32, routes []netip.Prefix) error {
	seen := make(map[netip.Prefix]struct{}, len(routes))
	for _, r := range routes {
		if !r.IsValid() || r.Addr().Is4In6() {
			return invalid("peer %d: route %s: not a prefix", id, r)
		}
		if m := r.Masked(); m != r {
			return invalid("peer %d: route %s: host bits are set; the prefix is %s", id, r, m)
		}
		if _, dup := seen[r]; dup {
			return invalid("peer %d: route %s is given twice", id, r)
		}
		seen[r] = struct{}{}
	}
	return nil
}

func (k Keepalive) validate(id uint32) error {
	switch {
	case k == Keepalive{}:
		return nil
	case k.Interval < 1 || k.Timeout < 1:
		return invalid("peer %d: keepalive %d:%d: interval and timeout are both given or both 0", id, k.Interval, k.Timeout)
	case k.Interval > maxKeepalive || k.Timeout > maxKeepalive:
		return invalid("peer %d: keepalive %d:%d: at most %d seconds", id, k.Interval, k.Timeout, maxKeepalive)
	case k.Timeout <= k.Interval:
		return invalid("peer %d: keepalive %d:%d: the timeout has to be longer than the interval, or an idle peer dies between two pings", id, k.Interval, k.Timeout)
	}
	return nil
}

// Validate checks s.
func (s Slot) Validate() error {
	if s != Primary && s != Secondary {
		return invalid("slot %q: %s or %s", clip(string(s)), Primary, Secondary)
	}
	return nil
}

// Validate checks k and writes the cipher's name as OpenVPN does.
func (k *KeyAdd) Validate() error {
	if err := validatePeerID(k.Peer); err != nil {
		return err
	}
	if err := k.Slot.Validate(); err != nil {
		return err
	}
	if k.KeyID > 7 {
		return invalid("peer %d: key id %d: key ids are 0 to 7", k.Peer, k.KeyID)
	}
	cipher, err := aead.ParseCipher(k.Cipher)
	if err != nil {
		return invalid("peer %d: cipher %q: one of %s", k.Peer, clip(k.Cipher), strings.Join(Ciphers(), ", "))
	}
	k.Cipher = cipher.String()
	if k.Role != RoleServer && k.Role != RoleClient {
		return invalid("peer %d: role %q: %s or %s", k.Peer, clip(string(k.Role)), RoleServer, RoleClient)
	}
	if k.Block == nil {
		return invalid("peer %d: no key block", k.Peer)
	}
	if *k.Block == (Secret{}) {
		return invalid("peer %d: the key block is all zeros", k.Peer)
	}
	return nil
}

// clip keeps whatever was put into the wrong field out of logs and answers.
func clip(s string) string {
	const most = 24
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}

func validateNIC(nic, mode string) error {
	if nic == "" || len(nic) > 15 {
		return invalid("nic %q: a device's name has 1 to 15 characters", clip(nic))
	}
	if !slices.Contains([]string{"", "auto", "xdp-zerocopy", "xdp", "tc", "xdp-generic"}, mode) {
		return invalid("mode %q: one of auto, xdp-zerocopy, xdp, tc, xdp-generic", clip(mode))
	}
	return nil
}
