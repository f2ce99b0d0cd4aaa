// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/internal/netdev"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/reason"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/xsk"
)

// ErrClosed is returned by calls that change an attachment after Close.
var ErrClosed = errors.New("attachment closed")

// Attachment is one device with the programs on it, their maps and the AF_XDP
// sockets behind. All methods may be called from any goroutine.
type Attachment struct {
	nic     string
	rung    Mode
	xdpMode netdev.XDPMode
	tcHook  string
	copy    bool
	queues  []int
	missing []int
	chunk   int
	why     string
	notes   []string // why the rung is not a higher one of the same attach
	remarks []string // what an operator should know of this one
	sockets []*xsk.Socket
	tables  *tables

	main     *ebpf.Collection // the device's program
	handover *ebpf.Collection // tc rung: the far end's
	hook     link.Link        // nil with a clsact filter
	farHook  link.Link
	filter   string
	ifindex  int
	pair     string
	pins     *pins

	// peersMu orders what is written about peers with the flag that it may lack some.
	peersMu sync.Mutex
	// mu guards what follows and keeps Close from the maps while they are in use.
	mu        sync.RWMutex
	closed    bool
	control   ingressControlState
	unsettled bool   // steering was switched off, and nobody has waited for readers since
	pairLost  uint64 // lost in the private pair before the last settle
	refused   uint64 // arrived there and found no socket
	final     []Verdict
	lost      uint64
}

func newAttachment(o Options, l netdev.Link) *Attachment {
	return &Attachment{nic: o.NIC, ifindex: l.Index}
}

// loadMain loads the device's program, not accepting.
func (a *Attachment) loadMain(spec func() (*ebpf.CollectionSpec, error), s settings, frags bool) error {
	var err error
	if a.main, _, err = load(spec, s, frags); err != nil {
		return err
	}
	if a.tables, err = newTables(a.main); err != nil {
		return err
	}
	a.control.Abi = ABIVersion
	if err := a.putControl(); err != nil {
		return err
	}
	return nameVerdicts(a.main.Maps[ingressMapVerdicts])
}

// Rung is the rung in use: xdp-zerocopy, xdp, tc or xdp-generic.
func (a *Attachment) Rung() string { return string(a.rung) }

// XDPMode is "native" or "generic". On the tc rung it is that of the private pair.
func (a *Attachment) XDPMode() string { return string(a.xdpMode) }

// TCHook is "tcx" or "clsact" on the tc rung, else empty.
func (a *Attachment) TCHook() string { return a.tcHook }

// Copy says whether the kernel copies frames into the sockets' memory.
func (a *Attachment) Copy() bool { return a.copy }

// Queues are the receive queues with a socket; on the tc rung those of the
// private pair.
func (a *Attachment) Queues() []int { return slices.Clone(a.queues) }

// Missing are the device's receive queues without a socket. Their records take
// the UDP socket. The tc rung has none.
func (a *Attachment) Missing() []int { return slices.Clone(a.missing) }

// WhyNotHigher says what kept the rung from being a higher one, such as
// "zero-copy: operation not supported"; empty on the highest.
func (a *Attachment) WhyNotHigher() string { return a.why }

// Notes are what an operator should know: options that have no effect on this
// rung, such as "queues 0-1 asked for: the tc rung sees all queues".
func (a *Attachment) Notes() []string { return slices.Clone(a.remarks) }

// PinPath is the folder of the pinned maps and programs.
func (a *Attachment) PinPath() string { return a.pins.path }

// ChunkSize is the size in bytes of a UMEM chunk, 2,048 or 4,096.
func (a *Attachment) ChunkSize() int { return a.chunk }

// Sockets are the AF_XDP sockets in order of Queues. The attachment closes them.
func (a *Attachment) Sockets() []*xsk.Socket { return slices.Clone(a.sockets) }

// SetListener makes records to this address and port steerable. It is one local
// address, never a wildcard: there is no "any" in the map, since a host must not
// take what it only forwards. Setting one twice is no error.
func (a *Attachment) SetListener(addr netip.AddrPort) error {
	return a.use(func() error { return a.tables.setListener(addr) })
}

// DelListener undoes SetListener; one that is not set is no error.
func (a *Attachment) DelListener(addr netip.AddrPort) error {
	return a.use(func() error { return a.tables.delListener(addr) })
}

// SetPeer adds a peer or changes its endpoint and key ids. Counters of a peer
// that is there already go on. When the maps did not take it, for want of room or
// another cause, the error says so and the attachment is Incomplete.
func (a *Attachment) SetPeer(p Peer) error {
	a.peersMu.Lock()
	defer a.peersMu.Unlock()
	err := a.use(func() error { return a.tables.setPeer(p) })
	if err != nil && !errors.Is(err, ErrClosed) && !errors.Is(err, errPeerID) {
		err = errors.Join(err, a.setIncomplete(true))
	}
	return err
}

// SetPeers is SetPeer for all the peers there are. Those that the maps have no
// room for are no error: the attachment is Incomplete then, and no longer when
// all found room. Any other error ends it; peers before it stay.
func (a *Attachment) SetPeers(peers []Peer) error {
	a.peersMu.Lock()
	defer a.peersMu.Unlock()
	complete := true
	err := a.use(func() error {
		for _, p := range peers {
			err := a.tables.setPeer(p)
			if err == nil {
				continue
			}
			complete = false
			if !noRoom(err) {
				return err
			}
			// A full map still takes changes of the peers it holds. Without
			// memory each further one would be waited for in vain.
			if errors.Is(err, unix.ENOMEM) {
				break
			}
		}
		return nil
	})
	if errors.Is(err, ErrClosed) {
		return err
	}
	return errors.Join(err, a.setIncomplete(!complete))
}

// Incomplete says whether the maps may lack a peer, since one could not be
// written. Records of peer ids that are not in the map then pass to the UDP socket,
// as unknown_passed, instead of being dropped. It stays so until SetPeers finds
// room for all, which is worth a try after DelPeer.
func (a *Attachment) Incomplete() bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.control.Incomplete != 0
}

func (a *Attachment) setIncomplete(on bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return fmt.Errorf("%s: %w", a.nic, ErrClosed)
	}
	old := a.control.Incomplete
	a.control.Incomplete = 0
	if on {
		a.control.Incomplete = 1
	}
	if a.control.Incomplete == old {
		return nil
	}
	return a.putControl()
}

// DelPeer removes a peer and its counters: from now on its records are dropped
// as unknown_peer, or pass while the attachment is Incomplete. One that is not
// there is no error.
func (a *Attachment) DelPeer(id uint32) error {
	a.peersMu.Lock()
	defer a.peersMu.Unlock()
	return a.use(func() error { return a.tables.delPeer(id) })
}

func (a *Attachment) use(fn func() error) error {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if a.closed {
		return fmt.Errorf("%s: %w", a.nic, ErrClosed)
	}
	return fn()
}

// Accept starts or stops the steering, for every program that starts after it
// returned; one that was running may still do as before, and what it decided is
// still on its way: see Settle. Whatever is not steered passes to the stack. No
// frame is lost or doubled by the switch. The heartbeat is fresh when it returns.
func (a *Attachment) Accept(on bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return fmt.Errorf("%s: %w", a.nic, ErrClosed)
	}
	return a.accept(on)
}

func (a *Attachment) accept(on bool) error {
	a.control.Accepting = 0
	if on {
		a.control.Accepting = 1
	}
	a.unsettled = !on
	return a.beat()
}

// Settle returns when every program that ran before has ended and what it decided
// has arrived: after Accept(true), what it passed is in the UDP sockets' queues;
// after Accept(false), what it steered is in the AF_XDP sockets' rings, so that
// draining them empties them for good. It takes a grace period of RCU, 5 to 30 ms,
// and two on the tc rung after Accept(false).
func (a *Attachment) Settle() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return fmt.Errorf("%s: %w", a.nic, ErrClosed)
	}
	if a.control.Accepting != 0 {
		return waitForReaders()
	}
	return a.settleOff()
}

func (a *Attachment) settleOff() error {
	if err := a.settle(); err != nil {
		return err
	}
	a.unsettled = false
	return nil
}

// Heartbeat says that user space is alive. It is due every 250 ms: on the tc
// rung everything passes once it is over a second old. The other rungs end with
// the process and do without, but show it in `control`.
func (a *Attachment) Heartbeat() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return fmt.Errorf("%s: %w", a.nic, ErrClosed)
	}
	return a.beat()
}

func (a *Attachment) beat() error {
	now, err := monotonic()
	if err != nil {
		return err
	}
	a.control.HeartbeatNs = now
	return a.putControl()
}

func (a *Attachment) putControl() error {
	if err := a.main.Maps[ingressMapControl].Put(uint32(0), a.control); err != nil {
		return fmt.Errorf("write control: %w", err)
	}
	return nil
}

// Present says whether the programs are still where Attach put them: false once
// somebody has taken one off, by force as with `bpftool link detach`, or the device
// is gone. The kernel tells nobody that a bpf_link was detached, so this has to be
// asked: it is a system call or two. On a clsact filter it looks at the namespace of
// the calling thread. An attachment that lost its program steers nothing and has to
// be closed, which works as ever.
func (a *Attachment) Present() (bool, error) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if a.closed {
		return false, nil
	}
	for _, l := range []link.Link{a.hook, a.farHook} {
		if l == nil {
			continue
		}
		info, err := l.Info()
		if err != nil {
			return false, fmt.Errorf("%s: look at the program's link: %w", a.nic, explain(err))
		}
		// A link without a device has index 0.
		xdp, tcx := info.XDP(), info.TCX()
		if xdp != nil && xdp.Ifindex == 0 || tcx != nil && tcx.Ifindex == 0 {
			return false, nil
		}
	}
	if a.filter == "" {
		return true, nil
	}
	filters, err := netdev.ClsactFilters(a.ifindex)
	if err != nil {
		return false, fmt.Errorf("%s: %w", a.nic, err)
	}
	return slices.ContainsFunc(filters, func(f netdev.ClsactFilter) bool { return f.Name == a.filter }), nil
}

// Verdicts are the program's counters in the order of their reasons, summed over
// CPUs since Attach. After Close they are what they were at its end.
func (a *Attachment) Verdicts() ([]Verdict, error) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if a.closed {
		return slices.Clone(a.final), nil
	}
	return readVerdicts(a.main.Maps[ingressMapVerdicts])
}

// HandoverLost is the number of frames that were steered on the tc rung but did
// not reach a socket: the private pair's ring was full, or nothing was behind
// it. Frames on their way count too, so it is exact only when nothing is
// steered: after Accept(false) and Settle, or Close. 0 on other rungs.
func (a *Attachment) HandoverLost() (uint64, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed || a.handover == nil {
		return a.lost, nil
	}
	steered, arrived, err := a.handoverCounts()
	if err != nil {
		return 0, err
	}
	return steered - min(steered, arrived) + a.refused, nil
}

// totals keeps the counters for after Close.
func (a *Attachment) totals() error {
	if a.main == nil {
		return nil
	}
	var err error
	if a.final, err = readVerdicts(a.main.Maps[ingressMapVerdicts]); err != nil || a.handover == nil {
		return err
	}
	arrived, refused, err := readHandover(a.handover.Maps[handoverMapHandover])
	if err != nil {
		return err
	}
	steered := a.final[reason.Steered].Packets
	a.lost = steered - min(steered, arrived) + refused
	return nil
}

// Close takes the device back to where it was, in this order: stop accepting and
// wait for readers (unless Settle did), take the program off the device,
// read the last counters, close the sockets, unpin, remove the private pair.
// What is still in the sockets' rings is lost, so drain them first. It goes on
// after errors, returns all of them, and may be called twice.
func (a *Attachment) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil
	}
	a.closed = true
	var errs []error
	if a.control.Accepting != 0 {
		errs = append(errs, a.accept(false))
	}
	if a.unsettled {
		errs = append(errs, a.settleOff())
	}
	if a.hook != nil {
		errs = append(errs, a.hook.Close())
	}
	if a.filter != "" {
		errs = append(errs, netdev.DetachClsact(a.ifindex, a.filter))
	}
	errs = append(errs, a.totals())
	if a.farHook != nil {
		errs = append(errs, a.farHook.Close())
	}
	errs = append(errs, closeSockets(a.sockets))
	if a.pins != nil {
		errs = append(errs, a.pins.remove())
	}
	if a.pair != "" {
		errs = append(errs, netdev.DeleteLink(a.pair))
	}
	for _, coll := range []*ebpf.Collection{a.main, a.handover} {
		if coll != nil {
			coll.Close()
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("detach %s: %w", a.nic, err)
	}
	return nil
}
