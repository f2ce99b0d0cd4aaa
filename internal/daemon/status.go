// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/internal/admin"
	"github.com/ovpn-xdp/ovpn-xdp/internal/config"
	"github.com/ovpn-xdp/ovpn-xdp/internal/engine"
	"github.com/ovpn-xdp/ovpn-xdp/internal/netdev"
	"github.com/ovpn-xdp/ovpn-xdp/internal/steer"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/reason"
)

// counts are what the kernel counted for one attachment.
type counts struct {
	steered   uint64 // redirected by the program on the NIC
	unknown   uint64 // dropped by it: nobody has that peer id
	ringFull  uint64
	fillEmpty uint64
	dropped   uint64 // by the AF_XDP socket for another cause
	handover  uint64 // lost between the tc program and the ring
}

func countsOf(att *steer.Attachment) counts {
	var c counts
	verdicts, _ := att.Verdicts()
	for _, v := range verdicts {
		switch v.Reason {
		case reason.Steered:
			c.steered = v.Packets
		case reason.UnknownPeer:
			c.unknown = v.Packets
		}
	}
	for _, s := range att.Sockets() {
		st := ringStats(s)
		c.ringFull += st.RingFull
		c.fillEmpty += st.FillDropped
		c.dropped += st.Dropped
	}
	c.handover, _ = att.HandoverLost()
	return c
}

// Status tells everything.
func (g *gateway) Status(context.Context) (*admin.Status, error) {
	g.nicMu.Lock()
	defer g.nicMu.Unlock()
	st := g.engine.Stats()
	s := &admin.Status{
		Version: admin.Version, Name: g.cfg.Name, Software: g.cfg.Software, PID: os.Getpid(),
		Dev: g.tun.Name(), MTU: g.cfg.MTU, MSSFix: g.cfg.ClampSize(), P2P: g.cfg.P2P, Mode: g.cfg.Mode,
		Started: g.started.UTC(), UptimeSeconds: int64(time.Since(g.started) / time.Second),
		NICs: []admin.NIC{}, Peers: []admin.Peer{}, Workers: []admin.Worker{}, Listeners: g.listeners(),
		Tun: admin.Tun{Queues: len(g.tun.Queues()), TSO: st.TSO, USO: st.USO, Why: st.Why},
		UDP: admin.UDP{GSO: true, GRO: true},
	}
	if g.cfg.NoTunOffload {
		s.Tun.Why = "--no-tun-offload"
	}
	for _, c := range g.conns {
		s.UDP.GSO = s.UDP.GSO && c.GSO()
		s.UDP.GRO = s.UDP.GRO && c.GRO()
	}
	s.UDP.Why = g.whyUDP(s.UDP)
	for _, n := range g.nics {
		s.NICs = append(s.NICs, g.describeNIC(n, &st))
	}
	g.totals(s, &st)
	for _, p := range g.peers.All() {
		s.Peers = append(s.Peers, g.describe(p))
	}
	return s, nil
}

func (g *gateway) whyUDP(u admin.UDP) string {
	switch {
	case !u.GSO && g.cfg.NoUDPGSO:
		return "--no-udp-gso"
	case !u.GRO && g.cfg.NoUDPGRO:
		return "--no-udp-gro"
	case !u.GSO:
		return "UDP_SEGMENT: the device or kernel refused it"
	case !u.GRO:
		return "UDP_GRO is off while a tc rung is attached"
	}
	return ""
}

func (g *gateway) listeners() []admin.Listener {
	g.listenMu.Lock()
	defer g.listenMu.Unlock()
	out := []admin.Listener{}
	for _, c := range g.conns {
		l := admin.Listener{Transport: "udp", Addr: c.Addr()}
		if c.Addr().Addr().IsUnspecified() {
			l.Local = g.expand(c.Addr())
		}
		out = append(out, l)
	}
	for _, t := range g.streams {
		l := admin.Listener{Transport: "tcp", Addr: t.Addr()}
		if t.Addr().Addr().IsUnspecified() {
			l.Local = g.expand(t.Addr())
		}
		out = append(out, l)
	}
	return out
}

func (g *gateway) describeNIC(n *nic, st *engine.Stats) admin.NIC {
	a := admin.NIC{Name: n.name, Rung: config.ModeSocket, WhyNotHigher: n.why, State: n.state,
		MissingQueues: []int{}, Verdicts: map[string]admin.Verdict{}, Rings: []admin.Ring{}}
	if link, err := netdev.LinkByName(n.name); err == nil && !link.Up() && n.state == admin.NICAttached {
		a.State = admin.NICDown
	}
	if n.att == nil {
		return a
	}
	a.Rung, a.XDPMode, a.Copy = n.att.Rung(), n.att.XDPMode(), n.att.Copy()
	a.TCHook = n.att.TCHook()
	a.Queues, a.Pins, a.ChunkSize = len(n.att.Queues()), n.att.PinPath(), n.att.ChunkSize()
	a.MissingQueues = append(a.MissingQueues, n.att.Missing()...)
	verdicts, err := n.att.Verdicts()
	if err != nil {
		g.log.Warn("reading verdicts failed", "nic", n.name, "error", err)
	}
	for _, v := range verdicts {
		a.Verdicts[v.Reason.String()] = admin.Verdict{Packets: v.Packets, Bytes: v.Bytes}
	}
	for _, sock := range n.att.Sockets() {
		r := ringStats(sock)
		ring := admin.Ring{Queue: sock.Queue(), ZeroCopy: sock.ZeroCopy(), RingFull: r.RingFull, FillEmpty: r.FillDropped, Dropped: r.Dropped}
		for _, w := range st.Workers {
			if w.Kind == "ring" && w.NIC == n.name && w.Queue == sock.Queue() {
				ring.Received = w.Records
			}
		}
		a.Rings = append(a.Rings, ring)
	}
	return a
}

// userDrops are the reasons for which user space and the rings drop, in and
// out.
var userDrops = append([]reason.Reason{reason.UnknownPeer}, userReasons()...)

func userReasons() (all []reason.Reason) {
	for r := reason.BadFrame; int(r) < reason.Count; r++ {
		all = append(all, r)
	}
	return all
}

// totals adds everything up. What the program on a NIC dropped for an unknown
// peer id counts as steered and then dropped, so that every record that was
// taken from the stack has its one end.
func (g *gateway) totals(s *admin.Status, st *engine.Stats) {
	g.attMu.Lock()
	k := g.lost
	for _, att := range g.attached {
		k.add(att)
	}
	g.attMu.Unlock()
	t := &s.Totals
	t.Drops = map[string]uint64{}
	in := &t.In
	in.Drops, t.Out.Drops = map[string]uint64{}, map[string]uint64{}
	st.InDrops[reason.UnknownPeer] += k.unknown
	st.InDrops[reason.RingFull] += k.ringFull
	st.InDrops[reason.FillEmpty] += k.fillEmpty
	st.InDrops[reason.XSKDropped] += k.dropped
	st.InDrops[reason.HandoverLost] += k.handover
	for _, r := range userDrops {
		t.Drops[r.String()] = st.InDrops[r] + st.OutDrops[r]
		if n := st.InDrops[r]; n > 0 {
			in.Drops[r.String()] = n
		}
		if n := st.OutDrops[r]; n > 0 {
			t.Out.Drops[r.String()] = n
		}
	}

	in.Steered = k.steered + k.unknown + st.Split
	in.FloatsRefused = g.peers.FloatsRefused()
	in.Socket, in.Stream = st.Socket, st.Stream
	in.C2C, in.C2CBytes = st.C2C, st.C2CBytes
	in.Batches = st.Batches
	in.Delivered, in.DeliveredBytes, in.TunWrites = st.Delivered, st.DelBytes, st.Writes
	in.Keepalive = st.Keepalive
	in.InFlight = st.InFlight
	// Steered and not yet leased is in a ring.
	if leased := st.Ring - st.Split + k.ringFull + k.fillEmpty + k.dropped + k.handover; k.steered > leased {
		in.InFlight += k.steered - leased
	}
	in.Rungs = map[string]admin.RungCount{}
	for _, w := range st.Ended {
		in.Rungs[w.Rung] = admin.RungCount{Records: w.Records, Bytes: w.Bytes, Batches: w.Batches}
	}
	for _, w := range st.Workers {
		if w.Kind != "out" {
			c := in.Rungs[w.Rung]
			c.Records += w.Records
			c.Bytes += w.Bytes
			c.Batches += w.Batches
			in.Rungs[w.Rung] = c
		}
		name := w.Kind
		if name == "ring" {
			name = "in"
		}
		s.Workers = append(s.Workers, admin.Worker{Name: name + strconv.Itoa(w.Queue), NIC: w.NIC, Queue: w.Queue, Bursts: w.Bursts, Records: w.Records})
	}
	if in.Batches > 0 {
		in.MeanBatch = float64(st.Ring+st.Socket+st.Stream) / float64(in.Batches)
	}
	out := &t.Out
	out.Packets, out.Bytes, out.TunReads, out.Sends, out.Keepalive = st.Packets, st.Bytes, st.Reads, st.Sends, st.KeepaliveOut
	t.Control = admin.Control{Datagrams: st.Control, Bytes: st.CtlBytes, Dropped: st.CtlDrop, Sent: st.ControlOut, Lost: st.ControlLost}
	slices.SortFunc(s.Workers, func(a, b admin.Worker) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
}

// Attach moves the gateway onto a NIC's fast path.
func (g *gateway) Attach(ctx context.Context, name, mode string) (*admin.NIC, error) {
	g.nicMu.Lock()
	defer g.nicMu.Unlock()
	n := g.nic(name)
	if n == nil {
		n = &nic{name: name, mode: g.cfg.Mode, state: admin.NICDetached}
	}
	before := n.mode
	if mode != "" {
		n.mode = mode
	}
	if err := g.attach(ctx, n); err != nil {
		n.mode = before
		return nil, codedNIC(err)
	}
	if g.nic(name) == nil {
		g.nics = append(g.nics, n)
	}
	if n.att == nil {
		return nil, admin.Errorf(admin.CodeUnsupported, "%s stays on the socket: %s; name a rung with --mode", name, n.why)
	}
	st := g.engine.Stats()
	a := g.describeNIC(n, &st)
	return &a, nil
}

// codedNIC gives an error of attaching the admin protocol's code.
func codedNIC(err error) error {
	var held *steer.SlotHeldError
	switch {
	case errors.Is(err, netdev.ErrNotFound):
		return admin.Errorf(admin.CodeNotFound, "%v", err)
	case errors.As(err, &held):
		return admin.Errorf(admin.CodeBusy, "%v", err)
	case errors.Is(err, unix.EPERM):
		return admin.Errorf(admin.CodeDenied, "%v", err)
	case errors.Is(err, unix.EOPNOTSUPP):
		return admin.Errorf(admin.CodeUnsupported, "%v", err)
	}
	return err
}

// Detach takes the gateway off a NIC's fast path.
func (g *gateway) Detach(_ context.Context, name string) error {
	g.nicMu.Lock()
	defer g.nicMu.Unlock()
	n := g.nic(name)
	if n == nil {
		return admin.Errorf(admin.CodeNotFound, "%s is not a NIC of this gateway; status lists them", name)
	}
	if n.att == nil && n.state == admin.NICDetached && n.retry.IsZero() {
		return admin.Errorf(admin.CodeNotFound, "%s is not attached", name)
	}
	g.detach(n, admin.NICDetached, "detached on request")
	n.retry = time.Time{}
	return nil
}

func (g *gateway) nic(name string) *nic {
	for _, n := range g.nics {
		if n.name == name {
			return n
		}
	}
	return nil
}

// Subscribe starts a stream of events.
func (g *gateway) Subscribe() *admin.Subscription { return g.hub.Subscribe() }
