// SPDX-License-Identifier: Apache-2.0

package testlab

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/internal/netdev"
)

// Directory is where named namespaces are bound, as iproute2 has it.
const Directory = "/run/netns"

// Namespace is a network namespace of a lab.
type Namespace struct {
	lab  *Lab
	name string
	fd   int
}

// Namespace makes a namespace or fails the test.
func (l *Lab) Namespace(name string) *Namespace {
	if l.t != nil {
		l.t.Helper()
	}
	ns, err := l.AddNamespace(name)
	l.check(err)
	return ns
}

// AddNamespace makes a namespace with loopback up, without IPv6 duplicate
// address detection, router solicitations and autoconfiguration on links made later.
func (l *Lab) AddNamespace(name string) (*Namespace, error) {
	ns := &Namespace{lab: l, name: l.prefix + "-" + name}
	if err := ns.create(); err != nil {
		return nil, fmt.Errorf("create namespace %s: %w", ns.name, err)
	}
	if err := ns.Run(ns.prepare); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare namespace %s: %w", ns.name, err), ns.remove())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errors.Join(errors.New("lab is closed"), ns.remove())
	}
	l.namespaces = append(l.namespaces, ns)
	return ns, nil
}

// Name is the full name, as `ip netns` lists it.
func (ns *Namespace) Name() string { return ns.name }

// Path is the file to enter the namespace by: `nsenter --net=<path>`.
func (ns *Namespace) Path() string { return filepath.Join(Directory, ns.name) }

// FD is an open descriptor of the namespace, valid until the lab ends.
func (ns *Namespace) FD() int { return ns.fd }

// Do calls fn on this goroutine with its thread in the namespace. Sockets and
// devices that fn opens belong to the namespace for good. Goroutines that fn
// starts do not run in it. t.Fatal works inside.
func (ns *Namespace) Do(fn func()) {
	if ns.lab.t != nil {
		ns.lab.t.Helper()
	}
	ns.lab.check(ns.Run(func() error { fn(); return nil }))
}

// Run is Do for functions that return an error, which it hands on.
func (ns *Namespace) Run(fn func() error) error {
	runtime.LockOSThread()
	origin, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("open own network namespace: %w", err)
	}
	defer unix.Close(origin)
	if err := unix.Setns(ns.fd, unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("enter namespace %s: %w", ns.name, err)
	}
	// Deferred, so that it also happens when fn ends the goroutine by t.Fatal.
	// A thread that can't go back stays locked and dies with its goroutine.
	defer func() {
		if unix.Setns(origin, unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
	}()
	return fn()
}

// Sysctl sets a variable of the namespace, such as net.ipv4.ip_forward, or fails the test.
func (ns *Namespace) Sysctl(name, value string) {
	if ns.lab.t != nil {
		ns.lab.t.Helper()
	}
	ns.lab.check(ns.SetSysctl(name, value))
}

// SetSysctl sets a variable of the namespace.
func (ns *Namespace) SetSysctl(name, value string) error {
	return ns.Run(func() error { return sysctl(name, value) })
}

// Forward makes the namespace a router for IPv4 and IPv6, or fails the test.
func (ns *Namespace) Forward() {
	ns.Sysctl("net.ipv4.ip_forward", "1")
	ns.Sysctl("net.ipv6.conf.all.forwarding", "1")
}

// Route adds a route through the gateway (none: on link) or fails the test.
func (ns *Namespace) Route(link string, dst netip.Prefix, gateway netip.Addr) {
	if ns.lab.t != nil {
		ns.lab.t.Helper()
	}
	ns.lab.check(ns.Run(func() error { return netdev.AddRoute(link, netdev.Route{Dst: dst, Gateway: gateway}) }))
}

// Address gives a link of the namespace, which must be up, an address, and waits
// until packets to it are delivered; or it fails the test.
func (ns *Namespace) Address(link string, prefix netip.Prefix) {
	if ns.lab.t != nil {
		ns.lab.t.Helper()
	}
	ns.lab.check(ns.Run(func() error {
		if err := netdev.AddAddress(link, prefix); err != nil {
			return err
		}
		return awaitLocal(prefix.Addr())
	}))
}

// Link returns a link of the namespace or fails the test.
func (ns *Namespace) Link(name string) (link netdev.Link) {
	if ns.lab.t != nil {
		ns.lab.t.Helper()
	}
	ns.lab.check(ns.Run(func() (err error) {
		link, err = netdev.LinkByName(name)
		return err
	}))
	return link
}

func sysctl(name, value string) error {
	path := "/proc/sys/" + strings.ReplaceAll(name, ".", "/")
	// Without O_CREATE: a variable that isn't there is an error of its own.
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("set %s: %w", name, err)
	}
	if _, err := f.WriteString(value); err != nil {
		return errors.Join(fmt.Errorf("set %s: %w", name, err), f.Close())
	}
	return f.Close()
}

// prepare runs inside a fresh namespace.
func (ns *Namespace) prepare() error {
	for _, kind := range []string{"all", "default"} {
		for _, name := range []string{"accept_dad", "dad_transmits", "accept_ra", "router_solicitations", "autoconf"} {
			if err := sysctl("net.ipv6.conf."+kind+"."+name, "0"); err != nil {
				return err
			}
		}
	}
	return netdev.SetUp("lo")
}

// create unshares a network namespace on a thread of its own and binds it to its name.
func (ns *Namespace) create() error {
	if err := shareDirectory(); err != nil {
		return err
	}
	// O_EXCL: the namespace of another lab is never taken over.
	file, err := os.OpenFile(ns.Path(), os.O_CREATE|os.O_EXCL|os.O_RDONLY, 0o444)
	if err != nil {
		return err
	}
	file.Close()
	result := make(chan error, 1)
	go func() {
		// Never unlocked: the thread is in the new namespace and must not
		// be used again, so it ends with this goroutine.
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			result <- fmt.Errorf("unshare: %w", err)
			return
		}
		if err := unix.Mount("/proc/thread-self/ns/net", ns.Path(), "", unix.MS_BIND, ""); err != nil {
			result <- fmt.Errorf("bind mount: %w", err)
			return
		}
		result <- nil
	}()
	if err := <-result; err != nil {
		return errors.Join(err, os.Remove(ns.Path()))
	}
	ns.fd, err = unix.Open(ns.Path(), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return errors.Join(err, unix.Unmount(ns.Path(), unix.MNT_DETACH), os.Remove(ns.Path()))
	}
	return nil
}

func (ns *Namespace) remove() error {
	err := errors.Join(
		unix.Close(ns.fd),
		unix.Unmount(ns.Path(), unix.MNT_DETACH),
		os.Remove(ns.Path()))
	if err != nil {
		return fmt.Errorf("remove namespace %s: %w", ns.name, err)
	}
	return nil
}

// shareDirectory makes Directory a shared mount, as iproute2 does and under the
// same lock. If it were left to a later `ip netns add`, that would mount the
// directory over our namespaces and they could not be removed any more.
func shareDirectory() error {
	if err := os.MkdirAll(Directory, 0o755); err != nil {
		return err
	}
	dir, err := unix.Open(Directory, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", Directory, err)
	}
	defer unix.Close(dir)
	if err := unix.Flock(dir, unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", Directory, err)
	}
	err = unix.Mount("", Directory, "none", unix.MS_SHARED|unix.MS_REC, "")
	if !errors.Is(err, unix.EINVAL) {
		return err
	}
	// EINVAL: not a mount point yet.
	if err := unix.Mount(Directory, Directory, "none", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("bind %s to itself: %w", Directory, err)
	}
	if err := unix.Mount("", Directory, "none", unix.MS_SHARED|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("share mount %s: %w", Directory, err)
	}
	return nil
}
