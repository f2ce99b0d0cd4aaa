// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"
)

// TunOptions say where the maps of a TUN's queue selection are pinned.
type TunOptions struct {
	Gateway string // as in Options
	Dev     string // name of the TUN
	PinDir  string // as in Options
}

// TunQueues is the program that picks a TUN's queue by the inner destination,
// for TUNSETSTEERINGEBPF. Until routes are set it picks queue 0. All methods may
// be called from any goroutine.
type TunQueues struct {
	coll *ebpf.Collection
	pins *pins

	mu     sync.Mutex
	closed bool
}

// LoadTunQueues loads the program and pins its maps. It attaches nothing: that
// is for the owner of the TUN, with FD.
func LoadTunQueues(o TunOptions) (*TunQueues, error) {
	if !gatewayName.MatchString(o.Gateway) {
		return nil, fmt.Errorf("load TUN queue selection: gateway name %q: want 1 to 15 of letters, digits, - and _", o.Gateway)
	}
	if o.Dev == "" {
		return nil, errors.New("load TUN queue selection: no device name")
	}
	if o.PinDir == "" {
		o.PinDir = DefaultPinDir
	}
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("load TUN queue selection: raise memlock limit: %w", explain(err))
	}
	coll, _, err := load(loadTunQueue, settings{}, false)
	if err != nil {
		return nil, fmt.Errorf("load TUN queue selection: %w", err)
	}
	t := &TunQueues{coll: coll}
	if t.pins, err = makePins(o.PinDir, o.Gateway, o.Dev); err == nil {
		err = t.pins.add(coll)
	}
	if err != nil {
		return nil, fmt.Errorf("load TUN queue selection: %w", errors.Join(err, t.Close()))
	}
	return t, nil
}

// FD is the program's descriptor for the ioctl. It is valid until Close; the TUN
// keeps the program beyond that.
func (t *TunQueues) FD() int { return t.coll.Programs[tunQueueProgOvpnTunQueue].FD() }

// SetRoute sends packets to the prefix to that queue, from 0. The longest prefix
// wins; a queue that the TUN does not have counts modulo its number of queues.
func (t *TunQueues) SetRoute(prefix netip.Prefix, queue int) error {
	if queue < 0 {
		return fmt.Errorf("set TUN queue of %s: queue %d is below 0", prefix, queue)
	}
	return t.use(prefix, "set", func(m *ebpf.Map, key any) error {
		return full(put(m, key, uint32(queue), ebpf.UpdateAny), m, "routes")
	})
}

// DelRoute undoes SetRoute; a prefix that is not set is no error.
func (t *TunQueues) DelRoute(prefix netip.Prefix) error {
	return t.use(prefix, "delete", func(m *ebpf.Map, key any) error {
		if err := m.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return err
		}
		return nil
	})
}

func (t *TunQueues) use(prefix netip.Prefix, verb string, fn func(m *ebpf.Map, key any) error) error {
	if !prefix.IsValid() || prefix.Addr().Is4In6() {
		return fmt.Errorf("%s TUN queue of %s: not a prefix", verb, prefix)
	}
	prefix = prefix.Masked()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return fmt.Errorf("%s TUN queue of %s: %w", verb, prefix, ErrClosed)
	}
	var err error
	if prefix.Addr().Is4() {
		err = fn(t.coll.Maps[tunQueueMapTunRoutes4], tunQueueRoute4Key{PrefixLength: uint32(prefix.Bits()), Addr: prefix.Addr().As4()})
	} else {
		err = fn(t.coll.Maps[tunQueueMapTunRoutes6], tunQueueRoute6Key{PrefixLength: uint32(prefix.Bits()), Addr: prefix.Addr().As16()})
	}
	if err != nil {
		return fmt.Errorf("%s TUN queue of %s: %w", verb, prefix, err)
	}
	return nil
}

// Close unpins and closes the maps. A TUN that runs the program keeps both, as
// they were. May be called twice.
func (t *TunQueues) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil
	}
	t.closed = true
	var err error
	if t.pins != nil {
		err = t.pins.remove()
	}
	t.coll.Close()
	return err
}
