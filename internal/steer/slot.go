// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/ovpn-xdp/ovpn-xdp/internal/netdev"
)

// Holder is a program on a device: in its XDP slot, or at its tc ingress.
type Holder struct {
	ProgID uint32 `json:"prog_id"`
	Name   string `json:"name,omitempty"` // up to 15 bytes; empty when unknown
	Tag    string `json:"tag,omitempty"`  // the kernel's hash of the instructions
	LinkID uint32 `json:"link_id,omitempty"`
	// Attached is "link", "netlink", or "unknown": listing links takes CAP_SYS_ADMIN.
	Attached string `json:"attached"`
	Mode     string `json:"mode,omitempty"` // native, generic, offload, multiple, tcx, clsact
}

// String names the holder: program 42 `xdp_dispatcher` (link 7).
func (h Holder) String() string {
	s := "a program"
	if h.ProgID != 0 {
		s = fmt.Sprintf("program %d", h.ProgID)
	}
	if h.Name != "" {
		s += fmt.Sprintf(" `%s`", h.Name)
	}
	switch {
	case h.LinkID != 0:
		s += fmt.Sprintf(" (link %d)", h.LinkID)
	case h.Attached == "netlink":
		s += " (attached by netlink)"
	}
	return s
}

// SlotHeldError says that somebody else's XDP program is on the device. It is
// never replaced.
type SlotHeldError struct {
	NIC    string
	Holder Holder
}

func (e *SlotHeldError) Error() string {
	return fmt.Sprintf("%s: XDP slot held by %s; use --mode tc", e.NIC, e.Holder)
}

// slotHolder says who holds the XDP slot of the link, nil: nobody.
func slotHolder(l netdev.Link) *Holder {
	if !l.XDP.Attached {
		return nil
	}
	h := describe(l.XDP.ProgID)
	h.Mode = string(l.XDP.Mode)
	h.Attached, h.LinkID = findXDPLink(l.Index, l.XDP.ProgID)
	return &h
}

// describe looks the program up; without the right to, only its id is known.
func describe(id uint32) Holder {
	h := Holder{ProgID: id, Attached: "unknown"}
	if id == 0 {
		return h
	}
	p, err := ebpf.NewProgramFromID(ebpf.ProgramID(id))
	if err != nil {
		return h
	}
	defer p.Close()
	if info, err := p.Info(); err == nil {
		h.Name, h.Tag = info.Name, info.Tag
	}
	return h
}

// findXDPLink goes through the links of the system, since the device tells only
// the id of its program.
func findXDPLink(ifindex int, progID uint32) (attached string, linkID uint32) {
	var it link.Iterator
	defer it.Close()
	for it.Next() {
		info, err := it.Link.Info()
		if err != nil {
			continue
		}
		if xdp := info.XDP(); xdp != nil && xdp.Ifindex == uint32(ifindex) && (progID == 0 || uint32(info.Program) == progID) {
			return "link", uint32(info.ID)
		}
	}
	if it.Err() != nil {
		return "unknown", 0
	}
	return "netlink", 0
}
