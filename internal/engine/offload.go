// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/tun"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/tun/vnet"
)

// offload is the state of the TUN's offloads, shared by all workers. An
// offload only ever goes off.
type offload struct {
	opts atomic.Pointer[vnet.Options] // replaced, never changed

	dev   *tun.Device
	log   *slog.Logger
	event func(what, why string)

	mu  sync.Mutex
	why string
}

func newOffload(dev *tun.Device, batch int, log *slog.Logger, event func(what, why string)) *offload {
	has := dev.Offload()
	o := &offload{dev: dev, log: log, event: event}
	o.opts.Store(&vnet.Options{TSO: has.TSO, USO: has.USO, MaxPackets: batch})
	return o
}

// refuse switches off what the kernel refused, and says so once.
func (o *offload) refuse(udp bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	opts := *o.opts.Load()
	name, on := "TSO", &opts.TSO
	if udp {
		name, on = "USO", &opts.USO
	}
	if !*on {
		return
	}
	*on = false
	// What it refuses to take it may not give rightly either.
	if err := o.dev.DisableOffload(tun.Offload{TSO: !udp, USO: udp}); err != nil {
		o.log.Warn("switching a TUN offload off failed", "offload", name, "error", err)
	}
	o.why = name + ": the kernel refused a super-packet"
	o.opts.Store(&opts)
	o.log.Warn("TUN offload switched off", "offload", name, "device", o.dev.Name(), "reason", "the kernel refused a super-packet")
	o.event(name, o.why)
}

// state returns what is on and why something is not.
func (o *offload) state() (tso, uso bool, why string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	opts := o.opts.Load()
	return opts.TSO, opts.USO, o.why
}
