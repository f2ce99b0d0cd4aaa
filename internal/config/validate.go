// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"math/bits"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// minMTU is IPv4's (RFC 791) and maxMTU what the kernel's ovpn driver
	// allows: 65,535 less 84 bytes of the largest outer headers.
	minMTU = 68
	maxMTU = 65535 - 84
	// minMTU6 is IPv6's minimum link MTU (RFC 8200).
	minMTU6 = 1280

	minMSSFix = 256
	maxMSSFix = 65535

	minRing = 64
	// maxRing keeps a queue's UMEM, two chunks of at most 4096 bytes for each
	// descriptor, at 256 MiB.
	maxRing = 32768

	maxBatch    = 64
	maxPrefetch = 64
	maxWorkers  = 64

	// maxName is IFNAMSIZ less the NUL.
	maxName = 15
	// maxSocketPath is sun_path less the NUL.
	maxSocketPath = 107
)

// Modes returns the values of Run.Mode, automatic choice first, then in the
// order in which it tries; the last is never chosen by itself.
func Modes() []string {
	return []string{ModeAuto, ModeZeroCopy, ModeXDP, ModeTC, ModeSocket, ModeXDPGeneric}
}

// Complete fills in what was left out and returns what an operator should
// know about values that were changed. It does not check anything else.
func (r *Run) Complete() (notes []string) {
	if r.Name == "" {
		r.Name = r.Dev
	}
	if len(r.Listen)+len(r.ListenTCP) == 0 {
		r.Listen, _ = ParseListen(fmt.Sprintf(":%d", DefaultPort))
	}
	if r.Mode == "" {
		r.Mode = ModeAuto
	}
	if r.LogFormat == "" {
		r.LogFormat = LogText
	}
	for _, dir := range []struct {
		value    *string
		standard string
	}{{&r.PinDir, DefaultPinDir}, {&r.StateDir, DefaultStateDir}, {&r.RunDir, DefaultRunDir}} {
		if *dir.value == "" {
			*dir.value = dir.standard
		}
		*dir.value = filepath.Clean(*dir.value)
	}
	if n := r.RingSize; n > 0 && n < maxRing && n&(n-1) != 0 {
		r.RingSize = 1 << bits.Len(uint(n))
		notes = append(notes, fmt.Sprintf("ring size %d is not a power of two: using %d", n, r.RingSize))
	}
	return notes
}

// Validate returns the first thing that cannot work, named, with the way out.
func (r *Run) Validate() error {
	for _, check := range []func() error{
		r.validateNames, r.validateListen, r.validateInner, r.validateRings, r.validateRest,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// ValidateName checks a gateway's name.
func ValidateName(name string) error {
	if name == "" || len(name) > maxName {
		return fmt.Errorf("name %q has %d characters: 1 to %d are allowed", name, len(name), maxName)
	}
	for _, c := range []byte(name) {
		if !isNameByte(c) {
			return fmt.Errorf("name %q: only letters, digits, '-' and '_' are allowed", name)
		}
	}
	return nil
}

func isNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

// ValidateDevice checks the name of a network device as the kernel's
// dev_valid_name does.
func ValidateDevice(name string) error {
	if name == "" || len(name) > maxName {
		return fmt.Errorf("device %q has %d characters: 1 to %d are allowed", name, len(name), maxName)
	}
	if name == "." || name == ".." || strings.ContainsAny(name, "/: \t\n\v\f\r") {
		return fmt.Errorf("device %q: not a name the kernel takes", name)
	}
	return nil
}

func (r *Run) validateNames() error {
	if err := ValidateDevice(r.Dev); err != nil {
		return err
	}
	if strings.Contains(r.Dev, "%") {
		return fmt.Errorf("device %q: give the whole name, such as tun0", r.Dev)
	}
	if err := ValidateName(r.Name); err != nil {
		if r.Name == r.Dev {
			return fmt.Errorf("%w; the default is the device's name, so give --name", err)
		}
		return err
	}
	if n := len(r.SocketPath()); n > maxSocketPath {
		return fmt.Errorf("admin socket %s: the path has %d bytes, a Unix socket's has at most %d; use a shorter --run-dir", r.SocketPath(), n, maxSocketPath)
	}
	for i, nic := range r.NICs {
		if err := ValidateDevice(nic); err != nil {
			return err
		}
		if nic == r.Dev {
			return fmt.Errorf("nic %s is also the TUN device; --dev names the tunnel, --nic the device its records arrive on", nic)
		}
		if slices.Contains(r.NICs[:i], nic) {
			return fmt.Errorf("nic %s is given twice", nic)
		}
	}
	return nil
}

func (r *Run) validateListen() error {
	for i, ap := range r.Listen {
		addr := ap.Addr()
		if !ap.IsValid() || ap.Port() == 0 {
			return fmt.Errorf("listen %s: ports are 1 to 65535", ap)
		}
		if addr.IsMulticast() || addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
			return fmt.Errorf("listen %s: not an address a host can have", ap)
		}
		if addr.Is6() && addr.IsLinkLocalUnicast() && addr.Zone() == "" {
			return fmt.Errorf("listen %s: a link-local address needs its device, such as [%s%%eth0]:%d", ap, addr, ap.Port())
		}
		for _, other := range r.Listen[:i] {
			if other == ap {
				return fmt.Errorf("listen %s is given twice", ap)
			}
			sameFamily := other.Addr().Is4() == addr.Is4()
			if sameFamily && other.Port() == ap.Port() && (addr.IsUnspecified() || other.Addr().IsUnspecified()) {
				return fmt.Errorf("listen %s and %s overlap: the wildcard already takes that port on every address", other, ap)
			}
		}
	}
	return nil
}

func (r *Run) validateInner() error {
	if r.MTU < minMTU || r.MTU > maxMTU {
		return fmt.Errorf("mtu %d: %d to %d bytes are possible, %d is the default", r.MTU, minMTU, maxMTU, DefaultMTU)
	}
	for i, p := range r.Addresses {
		if !p.IsValid() || p.Addr().Is4In6() || p.Addr().IsUnspecified() || p.Addr().IsMulticast() || p.Addr().IsLoopback() {
			return fmt.Errorf("address %s: not an address a tunnel can have", p)
		}
		if p.Addr().Is6() && r.MTU < minMTU6 {
			return fmt.Errorf("address %s: IPv6 needs an mtu of %d bytes, and mtu is %d", p, minMTU6, r.MTU)
		}
		for _, other := range r.Addresses[:i] {
			if other.Addr() == p.Addr() {
				return fmt.Errorf("address %s is given twice", p.Addr())
			}
		}
	}
	if r.MSSFix != MSSFixAuto && r.MSSFix != MSSFixOff && (r.MSSFix < minMSSFix || r.MSSFix > maxMSSFix) {
		return fmt.Errorf("mssfix %d: \"auto\", \"off\" or %d to %d bytes", r.MSSFix, minMSSFix, maxMSSFix)
	}
	return nil
}

func (r *Run) validateRings() error {
	if r.RingSize < minRing || r.RingSize > maxRing {
		return fmt.Errorf("ring size %d: %d to %d descriptors are possible, %d is the default", r.RingSize, minRing, maxRing, DefaultRingSize)
	}
	if r.RingSize&(r.RingSize-1) != 0 {
		return fmt.Errorf("ring size %d is not a power of two", r.RingSize)
	}
	for i, q := range r.Queues {
		if q < 0 || q > maxQueue {
			return fmt.Errorf("queue %d: queues are 0 to %d", q, maxQueue)
		}
		if i > 0 && r.Queues[i-1] >= q {
			return fmt.Errorf("queues %v: not in ascending order", r.Queues)
		}
	}
	return nil
}

func (r *Run) validateRest() error {
	if !slices.Contains(Modes(), r.Mode) {
		return fmt.Errorf("mode %q: one of %s", r.Mode, strings.Join(Modes(), ", "))
	}
	if len(r.NICs) == 0 && r.Mode != ModeAuto && r.Mode != ModeSocket {
		return fmt.Errorf("mode %s needs a NIC: give --nic", r.Mode)
	}
	if len(r.NICs) == 0 && len(r.Queues) > 0 {
		return fmt.Errorf("queues %v need a NIC: give --nic", r.Queues)
	}
	if r.Batch < 1 || r.Batch > maxBatch {
		return fmt.Errorf("batch %d: 1 to %d records are possible", r.Batch, maxBatch)
	}
	if r.Prefetch < 0 || r.Prefetch > maxPrefetch {
		return fmt.Errorf("prefetch %d: 0 to %d records are possible", r.Prefetch, maxPrefetch)
	}
	if r.Workers < 0 || r.Workers > maxWorkers {
		return fmt.Errorf("workers %d: 1 to %d are possible, 0 for one per CPU", r.Workers, maxWorkers)
	}
	if r.LogFormat != LogText && r.LogFormat != LogJSON {
		return fmt.Errorf("log format %q: %s or %s", r.LogFormat, LogText, LogJSON)
	}
	for _, dir := range []struct{ flag, value string }{
		{"pin-dir", r.PinDir}, {"state-dir", r.StateDir}, {"run-dir", r.RunDir},
	} {
		if !filepath.IsAbs(dir.value) {
			return fmt.Errorf("%s %q: give an absolute path", dir.flag, dir.value)
		}
	}
	return nil
}
