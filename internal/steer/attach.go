// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/internal/netdev"
)

// Declined says that no rung with AF_XDP sockets is to be had, so that records
// have to take the UDP socket. The device is as it was before.
type Declined struct {
	NIC string
	// Reasons has one entry per rung tried, such as "tc: operation not supported".
	Reasons []string
}

func (d *Declined) Error() string {
	return fmt.Sprintf("%s: no rung above socket: %s", d.NIC, strings.Join(d.Reasons, "; "))
}

// Attach takes the device onto the highest rung that Options.Mode allows. The
// attachment does not steer yet: every record passes to the stack until Accept.
//
// Errors: *Declined when mode is auto and nothing worked, or is socket;
// *SlotHeldError when the mode needs the XDP slot and somebody else has it;
// netdev.ErrNotFound wrapped when there is no such device; else what failed,
// with the missing capability or limit by name. After an error nothing of the
// attempt is left.
func Attach(ctx context.Context, o Options) (*Attachment, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("attach: %w", err)
	}
	l, err := netdev.LinkByName(o.NIC)
	if err != nil {
		return nil, fmt.Errorf("attach: %w", err)
	}
	if o.Mode == ModeSocket {
		return nil, &Declined{NIC: o.NIC, Reasons: []string{"asked for by --mode socket"}}
	}
	// A loopback device has an Ethernet header and address, a TUN or PPP device has none.
	if len(l.MAC) != 6 {
		return nil, fmt.Errorf("attach %s: not an Ethernet device; use --mode socket", o.NIC)
	}
	// A queue that is not there is a mistake, and no reason to take another rung.
	if o.Mode != ModeTC && o.Queues != nil {
		if _, _, err := pickQueues(l, o.Queues); err != nil {
			return nil, fmt.Errorf("attach %s: %w", o.NIC, err)
		}
	}
	// Does nothing where maps are accounted to the cgroup, from 5.11 on.
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("attach %s: raise memlock limit: %w", o.NIC, explain(err))
	}
	if err := RemoveStale(o.Gateway, o.NIC, o.PinDir); err != nil {
		return nil, fmt.Errorf("attach %s: %w", o.NIC, err)
	}

	var why []string
	for _, r := range ladder(o.Mode) {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("attach %s: %w", o.NIC, err)
		}
		a, err := r.attach(o, l)
		if err == nil {
			a.why = strings.Join(append(why, a.notes...), "; ")
			if a.why == "" && a.rung != ModeZeroCopy {
				a.why = "--mode " + string(o.Mode)
			}
			return a, nil
		}
		if o.Mode != ModeAuto {
			var held *SlotHeldError
			if errors.As(err, &held) {
				return nil, held
			}
			return nil, fmt.Errorf("attach %s: %w", o.NIC, err)
		}
		why = append(why, r.name+": "+cause(err))
	}
	return nil, &Declined{NIC: o.NIC, Reasons: why}
}

// rung is one try of the ladder.
type rung struct {
	name   string
	attach func(Options, netdev.Link) (*Attachment, error)
}

func ladder(m Mode) []rung {
	switch m {
	case ModeZeroCopy:
		return []rung{{"zero-copy", attachZeroCopy}}
	case ModeXDP:
		return []rung{{"xdp", attachCopy}}
	case ModeTC:
		return []rung{{"tc", attachTC}}
	case ModeXDPGeneric:
		return []rung{{"xdp-generic", attachGeneric}}
	}
	// One native attach serves both upper rungs, since many drivers reset
	// their rings or the link each time.
	return []rung{{"xdp", attachNative}, {"tc", attachTC}}
}

// cause shortens an error for the operator: the bare errno where it says all,
// the holder of the slot without the advice.
func cause(err error) string {
	var held *SlotHeldError
	if errors.As(err, &held) {
		return "slot held by " + held.Holder.String()
	}
	if errors.Is(err, unix.EOPNOTSUPP) {
		return unix.EOPNOTSUPP.Error()
	}
	return err.Error()
}
