// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// ErrNoXDPFeatures is wrapped when the kernel does not tell what a device's
// driver offers for XDP: before 6.3.
var ErrNoXDPFeatures = errors.New("kernel does not tell XDP features")

// XDPFeatures is what a driver says it offers, from the generic netlink family
// `netdev`. The kernel's own word does not replace a try: some drivers refuse
// at certain MTUs or queue counts.
type XDPFeatures struct {
	Basic       bool // PASS, DROP, TX, ABORTED in native mode
	Redirect    bool // XDP_REDIRECT of received frames
	NDOXmit     bool // takes redirected frames
	ZeroCopy    bool // AF_XDP zero-copy
	Offload     bool // runs programs in hardware
	RxSG        bool // frames of several buffers
	NDOXmitSG   bool // takes redirected frames of several buffers
	ZCMaxSegs   int  // buffers per frame in zero-copy mode; 0: not told
	RxTimestamp bool // metadata kfuncs
	RxHash      bool
	RxVLANTag   bool
}

// Numbers of linux/netdev.h, from 6.3 on.
const (
	netdevFamily          = "netdev"
	netdevCmdDevGet       = 1
	netdevADevIfindex     = 1
	netdevADevXDPFeatures = 3
	netdevADevZCMaxSegs   = 4
	netdevADevRxMetadata  = 5
)

// genlHeader is struct genlmsghdr. nl.Genlmsg has two bytes and is sent with the
// two behind it as the reserved field, which this family wants to be 0.
type genlHeader [nl.SizeofGenlmsg]byte

func (h genlHeader) Len() int          { return len(h) }
func (h genlHeader) Serialize() []byte { return h[:] }

// GetXDPFeatures asks what the driver of the device offers. It touches nothing.
func GetXDPFeatures(ifindex int) (XDPFeatures, error) {
	family, err := netlink.GenlFamilyGet(netdevFamily)
	if err != nil {
		if errors.Is(err, unix.ENOENT) {
			return XDPFeatures{}, ErrNoXDPFeatures
		}
		return XDPFeatures{}, fmt.Errorf("find netlink family %s: %w", netdevFamily, err)
	}
	req := nl.NewNetlinkRequest(int(family.ID), 0)
	req.AddData(genlHeader{netdevCmdDevGet, uint8(family.Version)})
	req.AddData(nl.NewRtAttr(netdevADevIfindex, nl.Uint32Attr(uint32(ifindex))))
	messages, err := req.Execute(unix.NETLINK_GENERIC, 0)
	if err != nil {
		return XDPFeatures{}, fmt.Errorf("get XDP features of link %d: %w", ifindex, err)
	}
	var f XDPFeatures
	for _, m := range messages {
		if len(m) < nl.SizeofGenlmsg {
			continue
		}
		attrs, err := nl.ParseRouteAttr(m[nl.SizeofGenlmsg:])
		if err != nil {
			return XDPFeatures{}, fmt.Errorf("get XDP features of link %d: %w", ifindex, err)
		}
		for _, a := range attrs {
			f.set(a.Attr.Type, a.Value)
		}
	}
	return f, nil
}

func (f *XDPFeatures) set(kind uint16, value []byte) {
	var v uint64
	switch len(value) {
	case 4:
		v = uint64(binary.NativeEndian.Uint32(value))
	case 8:
		v = binary.NativeEndian.Uint64(value)
	default:
		return
	}
	switch kind {
	case netdevADevXDPFeatures:
		f.Basic, f.Redirect, f.NDOXmit = v&1 != 0, v&2 != 0, v&4 != 0
		f.ZeroCopy, f.Offload = v&8 != 0, v&16 != 0
		f.RxSG, f.NDOXmitSG = v&32 != 0, v&64 != 0
	case netdevADevZCMaxSegs:
		f.ZCMaxSegs = int(v)
	case netdevADevRxMetadata:
		f.RxTimestamp, f.RxHash, f.RxVLANTag = v&1 != 0, v&2 != 0, v&4 != 0
	}
}
