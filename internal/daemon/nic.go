// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/admin"
	"github.com/ovpn-xdp/ovpn-xdp/internal/config"
	"github.com/ovpn-xdp/ovpn-xdp/internal/engine"
	"github.com/ovpn-xdp/ovpn-xdp/internal/netdev"
	"github.com/ovpn-xdp/ovpn-xdp/internal/steer"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/xsk"
)

// nic is one device the gateway was told to use; nicMu guards it.
type nic struct {
	name  string
	mode  string // as asked for
	index int    // of the link when it was attached
	mtu   int
	state string // admin.NICAttached...
	why   string // why no higher rung, or why detached

	att   *steer.Attachment // nil on the socket rung
	rings *engine.Rings
	retry time.Time     // when to try again by itself; zero: not
	delay time.Duration // between tries

	overfull int // peers when the maps had no room for all; 0: they have
}

// attachAll attaches every NIC of the command line. A NIC that cannot get a
// rung that was named is an error; with auto there is always the socket.
func (g *gateway) attachAll(ctx context.Context) error {
	g.nicMu.Lock()
	defer g.nicMu.Unlock()
	for _, name := range g.cfg.NICs {
		n := &nic{name: name, mode: g.cfg.Mode, state: admin.NICDetached}
		g.nics = append(g.nics, n)
		if err := g.attach(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// attach moves a NIC onto the best rung that its mode allows; nicMu is held.
func (g *gateway) attach(ctx context.Context, n *nic) error {
	if n.att != nil {
		return admin.Errorf(admin.CodeExists, "%s is attached already, on rung %s", n.name, n.att.Rung())
	}
	link, err := netdev.LinkByName(n.name)
	if err != nil {
		n.state, n.why = admin.NICAbsent, "no such device"
		return fmt.Errorf("%s: %w", n.name, err)
	}
	n.index, n.mtu = link.Index, link.MTU
	if n.mode == config.ModeSocket {
		n.retry, n.delay = time.Time{}, 0
		n.state, n.why = admin.NICAttached, "socket was asked for"
		return nil
	}
	att, err := steer.Attach(ctx, steer.Options{Gateway: g.cfg.Name, NIC: n.name, Mode: steer.Mode(n.mode),
		Queues: g.cfg.Queues, RingSize: g.cfg.RingSize, PinDir: g.cfg.PinDir})
	if declined := (*steer.Declined)(nil); errors.As(err, &declined) {
		n.retry, n.delay = time.Time{}, 0
		n.state, n.why = admin.NICAttached, declined.Error()
		g.log.Warn("no fast path; records take the socket", "nic", n.name, "reason", n.why)
		return nil
	}
	if err != nil {
		return err
	}
	if err := g.populate(att); err != nil {
		att.Close()
		return err
	}
	if att.Rung() == config.ModeTC {
		g.setGRO(false) // aggregates would reach the tc program instead of records
	}
	rings, err := g.engine.Add(n.name, att.Rung(), att.Sockets(), att)
	if err != nil {
		g.forget(att)
		att.Close()
		g.restoreGRO()
		return err
	}
	n.retry, n.delay = time.Time{}, 0
	n.att, n.rings, n.state, n.why = att, rings, admin.NICAttached, att.WhyNotHigher()
	g.log.Info("attached", "nic", n.name, "rung", att.Rung(), "xdp_mode", att.XDPMode(), "copy", att.Copy(),
		"tc_hook", att.TCHook(), "queues", att.Queues(), "why_not_higher", n.why, "pins", att.PinPath())
	if missing := att.Missing(); len(missing) > 0 {
		g.log.Warn("receive queues without AF_XDP socket; their records take the UDP socket", "nic", n.name, "queues", missing)
	}
	if len(g.cfg.Listen) == 0 {
		g.log.Warn("nothing is steered here: all listeners are TCP, which has no AF_XDP; leave the NIC out, or add one with proto udp", "nic", n.name)
	}
	for _, note := range att.Notes() {
		g.log.Warn(note, "nic", n.name)
	}
	g.hub.Publish(admin.Event{Type: admin.EventNIC, NIC: n.name, Rung: att.Rung(), Reason: n.state})
	return nil
}

// detach takes a NIC off the fast path without losing a record; nicMu is held.
func (g *gateway) detach(n *nic, state, why string) {
	if n.att != nil {
		att := n.att
		if err := g.engine.Remove(n.rings, att); err != nil {
			g.log.Warn("switching off steering failed", "nic", n.name, "error", err)
		}
		g.forget(att)
		if err := att.Close(); err != nil {
			g.log.Warn("detaching left something behind", "nic", n.name, "error", err)
		}
		n.att, n.rings = nil, nil
		g.restoreGRO()
		g.log.Info("detached", "nic", n.name, "reason", why)
	}
	n.state, n.why = state, why
	g.hub.Publish(admin.Event{Type: admin.EventNIC, NIC: n.name, Rung: config.ModeSocket, Reason: state})
}

func (g *gateway) detachAll() {
	g.nicMu.Lock()
	defer g.nicMu.Unlock()
	for _, n := range g.nics {
		if n.att != nil {
			g.detach(n, admin.NICDetached, "stopping")
		}
	}
}

// restoreGRO switches UDP_GRO on again when no tc rung needs it off.
func (g *gateway) restoreGRO() {
	for _, n := range g.nics {
		if n.att != nil && n.att.Rung() == config.ModeTC {
			return
		}
	}
	g.setGRO(!g.cfg.NoUDPGRO)
}

func (g *gateway) setGRO(on bool) {
	for _, c := range g.conns {
		if err := c.SetGRO(on && !g.cfg.NoUDPGRO); err != nil {
			g.log.Warn("switching UDP_GRO failed", "listener", c.Addr(), "error", err)
		}
	}
}

// populate fills an attachment's maps and keeps them in step from now on.
func (g *gateway) populate(att *steer.Attachment) error {
	g.syncMu.Lock()
	g.attMu.Lock()
	g.attached = append(g.attached, att)
	g.attMu.Unlock()
	err := att.SetPeers(g.steerPeers())
	g.syncMu.Unlock()
	g.listenMu.Lock()
	g.listening[att] = map[netip.AddrPort]bool{}
	g.listenMu.Unlock()
	if err == nil {
		err = g.setListeners(att)
	}
	if err != nil {
		g.forget(att)
		return err
	}
	return nil
}

// forget ends populate and keeps the attachment's counts.
func (g *gateway) forget(att *steer.Attachment) {
	g.listenMu.Lock()
	delete(g.listening, att)
	g.listenMu.Unlock()
	g.attMu.Lock()
	defer g.attMu.Unlock()
	if i := slices.Index(g.attached, att); i >= 0 {
		g.attached = slices.Delete(g.attached, i, i+1)
		g.lost.add(att)
	}
}

// A NIC that could not be attached is tried again after firstRetry, and then
// less and less often: a try may bounce its link.
const (
	firstRetry = 2 * time.Second
	lastRetry  = 5 * time.Minute
)

// netdevEvent follows links and addresses.
func (g *gateway) netdevEvent(e netdev.Event) {
	switch e.Kind {
	case netdev.AddressAdded, netdev.AddressRemoved:
		g.refreshAddresses()
	case netdev.Resync:
		g.refreshAddresses()
		g.resyncLinks()
	case netdev.LinkDeleted:
		if e.Ifindex == g.tunIndex {
			g.fail(fmt.Errorf("TUN device %s was deleted by somebody else", g.cfg.Dev))
			return
		}
		g.linkEvent(e)
	case netdev.LinkChanged:
		g.linkEvent(e)
	}
}

func (g *gateway) linkEvent(e netdev.Event) {
	g.nicMu.Lock()
	defer g.nicMu.Unlock()
	for _, n := range g.nics {
		switch {
		case e.Kind == netdev.LinkDeleted && e.Ifindex == n.index && n.state != admin.NICDetached:
			g.absent(n)
		case e.Kind == netdev.LinkChanged && e.Link.Name == n.name:
			// The event may be older than what we have done since.
			if now, err := netdev.LinkByName(n.name); err == nil {
				g.linkChanged(n, now)
			}
		case e.Kind == netdev.LinkChanged && e.Ifindex == n.index && e.Link.Name != n.name && n.state == admin.NICAttached:
			g.absent(n) // renamed: the name is what we were told to use
		}
	}
}

// absent notes that a NIC has gone; what is left of the attachment is removed
// and the gateway carries on by socket.
func (g *gateway) absent(n *nic) {
	if n.state == admin.NICAbsent {
		return
	}
	g.log.Warn("NIC is gone; carrying on by socket until it returns", "nic", n.name)
	g.detach(n, admin.NICAbsent, "no such device")
}

// linkChanged compares a NIC with its state now. What has to be attached anew
// is left to retryNICs.
func (g *gateway) linkChanged(n *nic, link netdev.Link) {
	switch {
	case n.state == admin.NICDetached:
	case n.state == admin.NICAbsent:
		if n.retry.IsZero() || link.Index != n.index {
			n.retry, n.delay = time.Now(), 0
		}
	case link.Index != n.index:
		g.absent(n)
		n.retry = time.Now()
	case link.MTU != n.mtu && n.mode != config.ModeSocket:
		// Chunks are sized by the MTU, and a driver may refuse XDP now.
		g.log.Info("MTU changed; attaching anew", "nic", n.name, "from", n.mtu, "to", link.MTU)
		g.detach(n, admin.NICDetached, "MTU changed")
		n.retry = time.Now()
	}
}

// resyncLinks compares with what is there, after events were lost.
func (g *gateway) resyncLinks() {
	g.nicMu.Lock()
	defer g.nicMu.Unlock()
	for _, n := range g.nics {
		link, err := netdev.LinkByName(n.name)
		switch {
		case err == nil:
			g.linkChanged(n, link)
		case n.state != admin.NICDetached:
			g.absent(n)
		}
	}
}

// retryNICs attaches what came back, and notices what comes without an event:
// a device that is gone, and a program that somebody else took off.
func (g *gateway) retryNICs(ctx context.Context) {
	g.nicMu.Lock()
	defer g.nicMu.Unlock()
	for _, n := range g.nics {
		if n.rings != nil && n.rings.Broken() {
			if link, err := netdev.LinkByName(n.name); err != nil || link.Index != n.index {
				g.absent(n)
			}
		}
		g.verify(n)
		if n.retry.IsZero() || time.Now().Before(n.retry) {
			continue
		}
		before := n.why
		if err := g.attach(ctx, n); err != nil {
			n.delay = min(max(2*n.delay, firstRetry), lastRetry)
			n.retry = time.Now().Add(n.delay)
			if n.why = err.Error(); n.why != before {
				g.log.Warn("attaching failed; records take the socket", "nic", n.name, "error", err)
			}
		}
	}
}

// verify looks whether an attachment is still what it was; nicMu is held.
func (g *gateway) verify(n *nic) {
	if n.att == nil {
		return
	}
	if there, err := n.att.Present(); err == nil && !there {
		g.log.Warn("a program was taken off by somebody else; attaching anew", "nic", n.name)
		g.detach(n, admin.NICDetached, "a program was taken off by somebody else")
		n.retry, n.delay = time.Now(), 0
		return
	}
	peers := g.peers.Len()
	switch {
	case !n.att.Incomplete():
		n.overfull = 0
	case n.overfull == 0:
		n.overfull = peers
		g.log.Warn("more peers than the BPF map holds; the records of some take the socket", "nic", n.name, "peers", peers)
	case peers < n.overfull:
		n.overfull = peers
		g.syncMu.Lock()
		err := n.att.SetPeers(g.steerPeers())
		g.syncMu.Unlock()
		if err != nil {
			g.log.Warn("writing peers into the BPF map failed", "nic", n.name, "error", err)
		}
	}
}

// lostCounts keep what attachments counted before they went.
type lostCounts struct {
	steered, unknown             uint64
	ringFull, fillEmpty, dropped uint64
	handover                     uint64
}

func (l *lostCounts) add(att *steer.Attachment) {
	c := countsOf(att)
	l.steered += c.steered
	l.unknown += c.unknown
	l.ringFull += c.ringFull
	l.fillEmpty += c.fillEmpty
	l.dropped += c.dropped
	l.handover += c.handover
}

func ringStats(s *xsk.Socket) xsk.Stats {
	st, _ := s.Stats()
	return st
}
