// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/internal/netdev"
)

// Report is what a device and the kernel offer, found without touching the device.
type Report struct {
	NIC       string `json:"nic"`
	Driver    string `json:"driver,omitempty"`
	Kind      string `json:"kind"`
	MTU       int    `json:"mtu"`
	Up        bool   `json:"up"`
	RxQueues  int    `json:"rx_queues"`
	ChunkSize int    `json:"chunk_size"` // bytes of a UMEM chunk at this MTU
	// Features are the driver's own words, nil on kernels before 6.3.
	Features *netdev.XDPFeatures `json:"xdp_features,omitempty"`
	// XDP is who holds the XDP slot.
	XDP *Holder `json:"xdp_slot,omitempty"`
	// TC are the programs at the tc ingress, in the order they run.
	TC     []Holder `json:"tc_ingress,omitempty"`
	Kernel Kernel   `json:"kernel"`
	// Missing are the capabilities that attaching needs and this process lacks.
	Missing []string `json:"missing_capabilities,omitempty"`
	// Auto is the rung that --mode auto would try first with good hope, and Why
	// what speaks against the ones above it.
	Auto  Mode     `json:"auto"`
	Why   []string `json:"why,omitempty"`
	Notes []string `json:"notes,omitempty"` // what is known of the driver
}

// Kernel is what the running kernel offers, found by probing.
type Kernel struct {
	XSKMap bool `json:"xskmap"`
	TCX    bool `json:"tcx"`
	Frags  bool `json:"xdp_frags"`
	// Reasons is why not, by the names of the fields.
	Reasons map[string]string `json:"reasons,omitempty"`
}

// Probe looks at a device and the kernel. It loads small programs to see what
// the kernel takes, but attaches none. Any user may call it; what needs a right
// that the process lacks is reported as missing.
func Probe(nic string) (Report, error) {
	l, err := netdev.LinkByName(nic)
	if err != nil {
		return Report{}, fmt.Errorf("probe: %w", err)
	}
	r := Report{
		NIC: l.Name, Driver: l.Driver, Kind: l.Kind, MTU: l.MTU, Up: l.Up(),
		RxQueues: l.RxQueues, ChunkSize: chunkSize(l),
		XDP: slotHolder(l), Kernel: probeKernel(l.Index), Missing: missingCapabilities(),
	}
	if r.TC, err = tcHolders(l.Index); err != nil {
		r.Notes = append(r.Notes, "tc ingress not listed: "+err.Error())
	}
	if f, err := netdev.GetXDPFeatures(l.Index); err == nil {
		r.Features = &f
	} else if !errors.Is(err, netdev.ErrNoXDPFeatures) {
		r.Notes = append(r.Notes, "XDP features not read: "+err.Error())
	}
	r.Notes = append(r.Notes, driverNotes(l)...)
	r.choose(l)
	return r, nil
}

// choose foretells what the ladder would do. Only an attach knows for sure.
func (r *Report) choose(l netdev.Link) {
	reject := func(rung, why string) { r.Why = append(r.Why, rung+": "+why) }
	r.Auto = ModeSocket
	if len(l.MAC) != 6 {
		reject("xdp", "not an Ethernet device")
		reject("tc", "not an Ethernet device")
		return
	}
	if !r.Kernel.XSKMap {
		why := "kernel has no AF_XDP"
		if reason := r.Kernel.Reasons["xskmap"]; reason != "" {
			why = reason
		}
		reject("xdp", why)
		reject("tc", why)
		return
	}
	f := r.Features
	switch {
	case r.XDP != nil:
		reject("xdp", "slot held by "+r.XDP.String())
	case isAggregate(l):
		reject("xdp", errAggregate(l).Error())
	case f != nil && !(f.Basic && f.Redirect):
		reject("xdp", "driver has no native XDP with redirect")
	case f != nil && f.ZeroCopy:
		r.Auto = ModeZeroCopy
		return
	case f == nil:
		reject("zero-copy", "kernel does not tell what the driver offers: attach will try")
		r.Auto = ModeXDP
		return
	default:
		reject("zero-copy", "driver does not offer it")
		r.Auto = ModeXDP
		return
	}
	r.Auto = ModeTC
}

// tcHolders lists tcx programs, then clsact filters: the order they run in.
// bpftool of Debian 12 shows tcx links as "type 11", and `bpftool net` not at all.
func tcHolders(ifindex int) ([]Holder, error) {
	var out []Holder
	found, err := link.QueryPrograms(link.QueryOptions{Target: ifindex, Attach: ebpf.AttachTCXIngress})
	// A kernel without tcx says EINVAL.
	if err != nil && !errors.Is(err, ebpf.ErrNotSupported) && !errors.Is(err, unix.EINVAL) {
		return nil, explain(err)
	}
	if err == nil {
		for _, p := range found.Programs {
			h := describe(uint32(p.ID))
			h.Mode, h.Attached = "tcx", "netlink"
			if id, ok := p.LinkID(); ok {
				h.LinkID, h.Attached = uint32(id), "link"
			}
			out = append(out, h)
		}
	}
	filters, err := netdev.ClsactFilters(ifindex)
	if err != nil {
		return out, err
	}
	for _, f := range filters {
		h := describe(uint32(f.ProgID))
		h.Mode, h.Attached = "clsact", "netlink"
		if h.Name == "" {
			h.Name = f.Name
		}
		out = append(out, h)
	}
	return out, nil
}

func probeKernel(ifindex int) Kernel {
	k := Kernel{Reasons: map[string]string{}}
	note := func(name string, err error) bool {
		if err != nil {
			k.Reasons[name] = explain(err).Error()
		}
		return err == nil
	}
	k.XSKMap = note("xskmap", features.HaveMapType(ebpf.XSKMap))
	k.Frags = note("xdp_frags", probeFrags())
	_, err := link.QueryPrograms(link.QueryOptions{Target: ifindex, Attach: ebpf.AttachTCXIngress})
	k.TCX = note("tcx", err)
	return k
}

// probeFrags loads the handover program, the smallest of ours that may carry the flag.
func probeFrags() error {
	coll, granted, err := load(loadHandover, settings{queues: 1}, true)
	if err != nil {
		return err
	}
	coll.Close()
	if !granted {
		return ebpf.ErrNotSupported
	}
	return nil
}
