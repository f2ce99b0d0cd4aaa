// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// ABIVersion is the version of the pinned maps' layout (docs/bpf-maps.md).
const ABIVersion = 1

// settings are what is fixed in a program when it is loaded.
type settings struct {
	frameLimit      uint32        // longest steered frame in bytes
	heartbeatLimit  time.Duration // 0: no heartbeat needed
	handoverIfindex uint32        // near end of the tc rung's veth pair
	peers           uint32        // room in the maps
	queues          uint32        // slots of the XSKMAP
}

// load loads one object with all its maps. Programs that handle frames of
// several buffers are loaded with the frags flag where wanted and possible;
// the second result tells.
//
// A kernel before 5.18 refuses the flag with EINVAL, as it does much else, so
// the second attempt decides and its error is the one to show.
func load(spec func() (*ebpf.CollectionSpec, error), s settings, frags bool) (*ebpf.Collection, bool, error) {
	attempt := func(frags bool) (*ebpf.Collection, error) {
		cs, err := spec()
		if err != nil {
			return nil, fmt.Errorf("read BPF object: %w", err)
		}
		if err := s.apply(cs, frags); err != nil {
			return nil, err
		}
		coll, err := ebpf.NewCollection(cs)
		if err != nil {
			return nil, fmt.Errorf("load BPF programs: %w", explain(err))
		}
		return coll, nil
	}
	if frags {
		coll, err := attempt(true)
		if err == nil || !errors.Is(err, unix.EINVAL) {
			return coll, err == nil, err
		}
	}
	coll, err := attempt(false)
	return coll, false, err
}

func (s settings) apply(cs *ebpf.CollectionSpec, frags bool) error {
	for _, p := range cs.Programs {
		if p.Type == ebpf.XDP && !frags {
			p.Flags &^= unix.BPF_F_XDP_HAS_FRAGS
		}
	}
	for name, entries := range map[string]uint32{
		"peers": s.peers, "peer_stats": s.peers, "endpoints": s.peers, "xsks": s.queues,
	} {
		if m := cs.Maps[name]; m != nil {
			m.MaxEntries = entries
		}
	}
	for name, value := range map[string]any{
		"frags":              frags,
		"frame_limit":        s.frameLimit,
		"heartbeat_limit_ns": uint64(s.heartbeatLimit),
		"handover_ifindex":   s.handoverIfindex,
	} {
		v := cs.Variables[name]
		if v == nil {
			continue
		}
		if err := v.Set(value); err != nil {
			return fmt.Errorf("set BPF constant %s: %w", name, err)
		}
	}
	return nil
}
