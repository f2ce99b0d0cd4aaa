// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/ovpn-xdp/ovpn-xdp/internal/netdev"
)

// RemoveStale removes what a killed process of that gateway may have left on the
// device: pins, the tc rung's veth pair and clsact filter. The caller holds the
// lock of the gateway's name, so that nobody uses them.
func RemoveStale(gateway, nic, pinDir string) error {
	if pinDir == "" {
		pinDir = DefaultPinDir
	}
	var errs []error
	if is, err := isBPFFS(pinDir); err == nil && is {
		p := &pins{root: pinDir, path: pinPath(pinDir, gateway, nic)}
		errs = append(errs, p.remove())
	}
	near, _ := pairNames(gateway, nic)
	errs = append(errs, netdev.DeleteLink(near))
	if l, err := netdev.LinkByName(nic); err == nil {
		errs = append(errs, netdev.DetachClsact(l.Index, filterName(gateway)))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove leftovers: %w", explain(err))
	}
	return nil
}

// pairAlias marks the near end of a private pair with its gateway, since the
// names hold only a hash.
func pairAlias(gateway string) string { return "ovpn-xdp " + gateway }

var pairName = regexp.MustCompile(`^ovx-[0-9a-f]{8}-n$`)

// Sweep removes what a killed process of that gateway may have left on any
// device, also on one that this start does not name or that is gone: all its pins,
// and in the namespace of the calling thread its private veth pairs and clsact
// filters. The caller holds the lock of the gateway's name and has attached
// nothing yet. Nothing there, and no bpffs, are no errors; it takes two netlink
// dumps then, and one more for each link with a clsact qdisc.
func Sweep(gateway, pinDir string) error {
	if !gatewayName.MatchString(gateway) {
		return fmt.Errorf("remove leftovers: gateway name %q: want 1 to 15 of letters, digits, - and _", gateway)
	}
	if pinDir == "" {
		pinDir = DefaultPinDir
	}
	var errs []error
	if is, err := isBPFFS(pinDir); err == nil && is {
		p := &pins{root: pinDir, path: filepath.Dir(pinPath(pinDir, gateway, "any"))}
		if _, err := os.Lstat(p.path); err == nil {
			errs = append(errs, p.remove())
		}
	}
	errs = append(errs, sweepPairs(gateway), sweepFilters(gateway))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove leftovers: %w", explain(err))
	}
	return nil
}

// sweepPairs finds pairs by their mark, and those that were killed before they
// had one by what they would be called for each device that is there.
func sweepPairs(gateway string) error {
	links, err := netdev.LinkDump()
	if err != nil {
		return err
	}
	stale := map[string]bool{}
	for _, l := range links {
		near, _ := pairNames(gateway, l.Name)
		stale[near] = true
	}
	var errs []error
	for _, l := range links {
		if pairName.MatchString(l.Name) && (stale[l.Name] || l.Alias == pairAlias(gateway)) {
			errs = append(errs, netdev.DeleteLink(l.Name))
		}
	}
	return errors.Join(errs...)
}

func sweepFilters(gateway string) error {
	links, err := netdev.ClsactLinks()
	if err != nil {
		return err
	}
	var errs []error
	for _, index := range links {
		errs = append(errs, netdev.DetachClsact(index, filterName(gateway)))
	}
	return errors.Join(errs...)
}
