// SPDX-License-Identifier: Apache-2.0

// Package daemon runs one gateway: it opens the TUN and the listeners, starts
// the engine, moves NICs on and off the fast path, keeps the BPF maps in step
// with the peer table, and answers the admin socket. It decides; moving packets
// is internal/engine's work and attaching programs internal/steer's.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/internal/admin"
	"github.com/ovpn-xdp/ovpn-xdp/internal/config"
	"github.com/ovpn-xdp/ovpn-xdp/internal/engine"
	"github.com/ovpn-xdp/ovpn-xdp/internal/keystore"
	"github.com/ovpn-xdp/ovpn-xdp/internal/netdev"
	"github.com/ovpn-xdp/ovpn-xdp/internal/sdnotify"
	"github.com/ovpn-xdp/ovpn-xdp/internal/steer"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/peer"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/tcp"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/tun"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/udp"
)

const (
	// heartbeat is how often the tc program hears that we live; it passes
	// everything after a second of silence.
	heartbeat = 250 * time.Millisecond
	// period is that of everything else that comes round: keepalives, marks of
	// used packet ids, NICs to try again.
	period = time.Second
)

// gateway is one running instance.
type gateway struct {
	cfg     config.Run
	log     *slog.Logger
	started time.Time
	hub     admin.Hub

	tun      *tun.Device
	tunIndex int
	queues   *steer.TunQueues // nil with one queue
	conns    []*udp.Conn
	peers    *peer.Table
	keys     *keystore.Store
	engine   *engine.Engine
	control  *controlled // nil: peers and keys come by the admin socket
	streams  []*tcp.Listener
	notify   *sdnotify.Notifier

	nics      []*nic
	nicMu     sync.Mutex // one NIC changes at a time
	listenMu  sync.Mutex // guards local and listening
	local     []netip.Addr
	listening map[*steer.Attachment]map[netip.AddrPort]bool // what its map holds

	syncMu   sync.Mutex // orders what is written into BPF maps
	dirty    dirtyPeers
	attMu    sync.Mutex // guards attached and lost; held for moments only
	attached []*steer.Attachment
	lost     lostCounts // of attachments that are gone

	claimMu sync.Mutex // guards claims
	claims  map[*peer.Key]*keystore.Claim

	fatal chan error // what ends the gateway

	offloadMu  sync.Mutex
	offloadWhy string
}

// Run runs a gateway until ctx ends, then detaches and returns nil. cfg has
// been completed and validated. server is nil for a gateway without control
// channel.
func Run(ctx context.Context, cfg config.Run, server *Server, log *slog.Logger) (err error) {
	if err := secretProcess(); err != nil {
		return err
	}
	lock, err := acquire(cfg.LockPath())
	if err != nil {
		return err
	}
	defer lock.release()
	if err := clean(&cfg); err != nil {
		return err
	}
	g := &gateway{cfg: cfg, log: log, started: time.Now(), listening: map[*steer.Attachment]map[netip.AddrPort]bool{},
		dirty: dirtyPeers{wake: make(chan struct{}, 1)}, claims: map[*peer.Key]*keystore.Claim{}, fatal: make(chan error, 1)}
	if g.notify, err = sdnotify.New(); err != nil {
		return err
	}
	if err := g.open(server); err != nil {
		g.close()
		return err
	}
	defer g.close()
	g.engine.Start()

	watching, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	watched, err := netdev.Watch(watching, g.netdevEvent)
	if err != nil {
		return fmt.Errorf("watch links and addresses: %w", err)
	}
	defer func() { stopWatching(); <-watched }()
	g.refreshAddresses()
	if err := g.attachAll(ctx); err != nil {
		return err
	}
	if g.control != nil {
		if err := g.control.start(ctx); err != nil {
			return err
		}
		defer g.control.close()
	}

	requests, err := admin.Listen(cfg.SocketPath(), g, log)
	if err != nil {
		return err
	}
	defer requests.Close()
	if cfg.ReadyFile != "" {
		if err := os.WriteFile(cfg.ReadyFile, fmt.Appendf(nil, "%d\n", os.Getpid()), 0o644); err != nil {
			return fmt.Errorf("write ready file: %w", err)
		}
		defer os.Remove(cfg.ReadyFile)
	}
	_ = g.notify.Ready()
	log.Info("ready", "name", cfg.Name, "device", g.tun.Name(), "mtu", cfg.MTU, "pid", os.Getpid())
	err = g.serve(ctx)
	_ = g.notify.Stopping()
	log.Info("stopping", "name", cfg.Name)
	return err
}

// clean removes what a killed process of this name has left. We hold its lock.
func clean(cfg *config.Run) error {
	if cfg.ReadyFile != "" {
		if err := os.Remove(cfg.ReadyFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove stale ready file: %w", err)
		}
	}
	return steer.Sweep(cfg.Name, cfg.PinDir)
}

// serve does what comes round, each in its own time: none may wait for
// another, least of all the heartbeat. It returns when ctx ends, or with what
// made going on impossible.
func (g *gateway) serve(ctx context.Context) (err error) {
	ctx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { every(ctx, heartbeat, g.beat) })
	wg.Go(func() { every(ctx, period, func() { g.peers.Tick(engine.Monotonic(), g.engine.Ping) }) })
	wg.Go(func() { every(ctx, period, g.markKeys) })
	wg.Go(func() { every(ctx, period, func() { g.retryNICs(ctx) }) })
	wg.Go(func() { g.followPeers(ctx) })
	if g.control != nil {
		wg.Go(func() { g.control.serve(ctx) })
	}
	select {
	case <-ctx.Done():
	case err = <-g.fatal:
	}
	stop()
	wg.Wait()
	return err
}

// every calls fn once a period until ctx ends.
func every(ctx context.Context, period time.Duration, fn func()) {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			fn()
		}
	}
}

// fail ends the gateway with an error.
func (g *gateway) fail(err error) {
	select {
	case g.fatal <- err:
	default: // it is ending already
	}
}

func (g *gateway) beat() {
	for _, a := range g.attachments() {
		if err := a.Heartbeat(); err != nil {
			g.log.Debug("heartbeat failed", "error", err)
		}
	}
}

// attachments returns those there are at the moment.
func (g *gateway) attachments() []*steer.Attachment {
	g.attMu.Lock()
	defer g.attMu.Unlock()
	return slices.Clone(g.attached)
}

// open makes everything that needs no NIC.
func (g *gateway) open(server *Server) (err error) {
	cfg := &g.cfg
	if g.keys, err = keystore.Open(cfg.StateDir); err != nil {
		return err
	}
	g.peers = peer.NewTable(cfg.P2P, g)
	if err := g.openTun(); err != nil {
		return err
	}
	for _, addr := range cfg.Listen {
		c, err := udp.Listen(udp.Config{Addr: addr, Mark: int(cfg.Mark), RcvBuf: cfg.RcvBuf, SndBuf: cfg.SndBuf, GRO: !cfg.NoUDPGRO, NoGSO: cfg.NoUDPGSO, Log: g.log})
		if err != nil {
			return err
		}
		g.conns = append(g.conns, c)
	}
	if server != nil {
		if err := g.openControl(server); err != nil {
			return err
		}
	}
	mss := 0
	if size := cfg.ClampSize(); size > 0 {
		mss = size - 40
	}
	ec := engine.Config{
		Tun: g.tun, Conns: g.conns, Peers: g.peers, Listeners: g.streams,
		Batch: cfg.Batch, Prefetch: cfg.Prefetch, MSS: uint16(mss),
		ClientToClient: [...]engine.ClientToClient{engine.C2CHost, engine.C2CInside, engine.C2CBlock}[cfg.ClientToClient],
		Log:            g.log, Offload: g.offloadOff,
	}
	if g.control != nil {
		ec.Control, ec.StreamControl = g.control.service, g.control
	}
	g.engine, err = engine.New(ec)
	return err
}

// openTun makes the TUN device and brings it up with its addresses.
func (g *gateway) openTun() (err error) {
	cfg := &g.cfg
	queues := g.workers()
	if queues > 1 {
		g.queues, err = steer.LoadTunQueues(steer.TunOptions{Gateway: cfg.Name, Dev: cfg.Dev, PinDir: cfg.PinDir})
		if err != nil {
			// Several queues without a program that keeps a peer on one would
			// send its records out of order.
			g.log.Warn("one outward worker only: the program that picks a TUN queue by peer is not to be had", "error", err)
			queues = 1
		}
	}
	if g.tun, err = tun.Open(tun.Config{Name: cfg.Dev, Queues: queues, NoOffload: cfg.NoTunOffload}); err != nil {
		return err
	}
	name := g.tun.Name()
	link, err := netdev.LinkByName(name)
	if err != nil {
		return err
	}
	g.tunIndex = link.Index
	if err := netdev.SetMTU(name, cfg.MTU); err != nil {
		return err
	}
	for _, a := range cfg.Addresses {
		if err := netdev.AddAddress(name, a); err != nil {
			return err
		}
	}
	if g.queues != nil {
		if err := g.tun.SetSteering(g.queues.FD()); err != nil {
			return err
		}
	}
	if !cfg.P2P {
		// ICMP errors about packets without a peer come from our own address.
		// Point to point everything has a peer, who shall not use that address.
		if err := netdev.AcceptLocalSource(name); err != nil {
			g.log.Warn("no ICMP errors for IPv4 packets that no peer takes", "error", err)
		}
	}
	if err := netdev.SetUp(name); err != nil {
		return err
	}
	return g.awaitAddresses()
}

// awaitAddresses waits until the kernel takes packets to the addresses just
// set: it installs an IPv6 address's local route from a work queue, and until
// then drops what comes.
func (g *gateway) awaitAddresses() error {
	deadline := time.Now().Add(2 * time.Second)
	for _, a := range g.cfg.Addresses {
		for {
			ok, err := netdev.IsLocal(a.Addr())
			if err != nil {
				return err
			}
			if ok || time.Now().After(deadline) {
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

// workers returns the number of outward workers. A point-to-point gateway has
// one peer, and one worker serves a peer.
func (g *gateway) workers() int {
	if g.cfg.P2P {
		return 1
	}
	if g.cfg.Workers > 0 {
		return g.cfg.Workers
	}
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return 1
	}
	return max(1, min(set.Count(), 8))
}

// close undoes open and attachAll in reverse.
func (g *gateway) close() {
	g.detachAll()
	if g.engine != nil {
		g.engine.Close()
	}
	if g.peers != nil {
		g.releaseAll()
	}
	for _, c := range g.conns {
		c.Close()
	}
	for _, l := range g.streams {
		l.Close()
	}
	if g.queues != nil {
		g.queues.Close()
	}
	if g.tun != nil {
		g.tun.Close()
	}
	if g.keys != nil {
		g.keys.Close()
	}
}
