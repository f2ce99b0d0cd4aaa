// SPDX-License-Identifier: Apache-2.0

package tun

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// Config describes a device to make.
type Config struct {
	// Name is 1 to 15 bytes; a %d in it stands for the first free number.
	// Empty: tun%d.
	Name string
	// Queues is 1 to MaxQueues; 0: 1.
	Queues int
	// NoOffload leaves all offloads off: the kernel then hands over single,
	// completely checksummed packets.
	NoOffload bool
}

// MaxQueues is MAX_TAP_QUEUES of the kernel.
const MaxQueues = 256

// ErrNameInUse is wrapped when a device of that name exists, of whatever kind.
var ErrNameInUse = errors.New("tun name in use")

// Offload is what kinds of super-packet the kernel and we exchange.
type Offload struct {
	TSO bool // TCP, both families
	USO bool // UDP, both families; kernels from 6.2 on
}

// Device is a TUN device that exists until Close. It isn't brought up and has
// no address.
type Device struct {
	name   string
	queues []*Queue

	mu      sync.Mutex
	offload Offload
}

// clonePath is the device node that all TUN devices are made by.
const clonePath = "/dev/net/tun"

// Open makes a device in the network namespace of the calling thread. The name
// must be free: a TUN that exists, also one of another process with more queues
// to give away, is never joined, and the error wraps ErrNameInUse.
func Open(cfg Config) (*Device, error) {
	if len(cfg.Name) >= unix.IFNAMSIZ {
		return nil, fmt.Errorf("open tun %s: name is longer than %d bytes", cfg.Name, unix.IFNAMSIZ-1)
	}
	queues := max(cfg.Queues, 1)
	if queues > MaxQueues {
		return nil, fmt.Errorf("open tun %s: %d queues, at most %d are possible", cfg.Name, queues, MaxQueues)
	}
	d := &Device{name: cfg.Name}
	for i := range queues {
		if err := d.addQueue(i); err != nil {
			return nil, errors.Join(fmt.Errorf("open tun %s: %w", cfg.Name, err), d.Close())
		}
	}
	if err := d.setUp(cfg.NoOffload); err != nil {
		return nil, errors.Join(fmt.Errorf("open tun %s: %w", cfg.Name, err), d.Close())
	}
	return d, nil
}

// queueFlags: IFF_NAPI is left out, since it makes each write 30 to 80 % dearer.
const queueFlags = unix.IFF_TUN | unix.IFF_NO_PI | unix.IFF_VNET_HDR | unix.IFF_MULTI_QUEUE

func (d *Device) addQueue(i int) error {
	fd, err := unix.Open(clonePath, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENXIO):
		return fmt.Errorf("open %s: %w; load the tun module (modprobe tun), or in a container pass the device in", clonePath, err)
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return fmt.Errorf("open %s: %w; a container needs the device allowed", clonePath, err)
	case err != nil:
		return fmt.Errorf("open %s: %w", clonePath, err)
	}
	// IFF_TUN_EXCL makes the first queue fail where a device of the name
	// exists; without it a second process would silently become one more queue
	// of the first one's device.
	flags := uint16(queueFlags)
	if i == 0 {
		flags |= unix.IFF_TUN_EXCL
	}
	req, err := unix.NewIfreq(d.name)
	if err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	req.SetUint16(flags)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, req); err != nil {
		return errors.Join(attachError(i, err), unix.Close(fd))
	}
	d.name = req.Name()
	d.queues = append(d.queues, &Queue{fd: fd, index: i})
	return nil
}

func attachError(queue int, err error) error {
	switch {
	case errors.Is(err, unix.EBUSY) && queue == 0:
		return fmt.Errorf("%w: stop its owner or take another name", ErrNameInUse)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("attach queue %d: %w; CAP_NET_ADMIN is needed", queue, err)
	case errors.Is(err, unix.EINVAL) && queue == 0:
		return fmt.Errorf("attach queue 0: %w; the name is not valid or the kernel has no multi-queue tun", err)
	}
	return fmt.Errorf("attach queue %d: %w", queue, err)
}

func (d *Device) setUp(noOffload bool) error {
	// Both are properties of the device and not of the queue. The header's
	// byte order is the host's unless it is fixed.
	if err := unix.IoctlSetPointerInt(d.queues[0].fd, unix.TUNSETVNETLE, 1); err != nil {
		return fmt.Errorf("set little-endian virtio-net headers: %w", err)
	}
	if noOffload {
		return d.setOffload(Offload{})
	}
	// Kernels before 6.2 refuse USO with EINVAL.
	err := d.setOffload(Offload{TSO: true, USO: true})
	if errors.Is(err, unix.EINVAL) {
		err = d.setOffload(Offload{TSO: true})
	}
	if errors.Is(err, unix.EINVAL) {
		err = d.setOffload(Offload{})
	}
	return err
}

// setOffload tells the kernel what it may hand over. USO goes for both families
// or for none. TSO_ECN lets super-packets with CWR set pass whole.
func (d *Device) setOffload(o Offload) error {
	flags := 0
	if o.TSO || o.USO {
		flags |= unix.TUN_F_CSUM
	}
	if o.TSO {
		flags |= unix.TUN_F_TSO4 | unix.TUN_F_TSO6 | unix.TUN_F_TSO_ECN
	}
	if o.USO {
		flags |= unix.TUN_F_USO4 | unix.TUN_F_USO6
	}
	if err := unix.IoctlSetInt(d.queues[0].fd, unix.TUNSETOFFLOAD, flags); err != nil {
		return fmt.Errorf("set offloads %+v: %w", o, err)
	}
	d.offload = o
	return nil
}

// Name is the device's name as the kernel has it.
func (d *Device) Name() string { return d.name }

// Queues returns the queues in order of their index. The slice is the device's own.
func (d *Device) Queues() []*Queue { return d.queues }

// Offload returns what is on. It may be called from any goroutine.
func (d *Device) Offload() Offload {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.offload
}

// DisableOffload switches off what is true in off, in both directions. With
// nothing left on, checksums come complete as well. Super-packets that are queued
// already still come. It may be called from any goroutine.
func (d *Device) DisableOffload(off Offload) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.offload
	now.TSO = now.TSO && !off.TSO
	now.USO = now.USO && !off.USO
	if now == d.offload {
		return nil
	}
	return d.setOffload(now)
}

// SetSteering makes a BPF program of type BPF_PROG_TYPE_SOCKET_FILTER choose the
// queue of each packet from the kernel: its return value modulo the number of
// queues. The kernel takes a reference, so progFD may be closed. -1 removes the
// program, and flows are spread by hash again.
func (d *Device) SetSteering(progFD int) error {
	if err := unix.IoctlSetPointerInt(d.queues[0].fd, unix.TUNSETSTEERINGEBPF, progFD); err != nil {
		return fmt.Errorf("set steering program of tun %s: %w", d.name, err)
	}
	return nil
}

// Close removes the device with its addresses and routes. Nobody may be using
// its queues or writers any more. A second Close does nothing.
func (d *Device) Close() error {
	var failed []error
	for i := len(d.queues) - 1; i >= 0; i-- {
		failed = append(failed, d.queues[i].close())
	}
	d.queues = nil
	return errors.Join(failed...)
}
