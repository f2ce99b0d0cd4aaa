// SPDX-License-Identifier: Apache-2.0

// Package daemon runs one gateway: it opens the TUN and the listeners, starts
// the engine, moves NICs on and off the fast path, keeps the BPF maps in step
// with the peer table, and answers the admin socket. It decides; moving packets
// is internal/engine's work and attaching programs internal/steer's.
package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/internal/admin"
	"github.com/ovpn-xdp/ovpn-xdp/internal/config"
	"github.com/ovpn-xdp/ovpn-xdp/internal/engine"
	"github.com/ovpn-xdp/ovpn-xdp/internal/keystore"
	"github.com/ovpn-xdp/ovpn-xdp/internal/netdev"
	"github.com/ovpn-xdp/ovpn-xdp/internal/steer"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/peer"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/tun"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/udp"
)

// heartbeat is how often the tc program hears that we live; it passes
// everything after a second of silence.
const heartbeat = 250 * time.Millisecond

// gateway is one running instance.
type gateway struct {
	cfg     config.Run
	log     *slog.Logger
	started time.Time
	hub     admin.Hub

	tun    *tun.Device
	queues *steer.TunQueues // nil with one queue
	conns  []*udp.Conn
	peers  *peer.Table
	keys   *keystore.Store
	engine *engine.Engine

	nics      []*nic
	nicMu     sync.Mutex // one NIC changes at a time
	listenMu  sync.Mutex // guards local and listening
	local     []netip.Addr
	listening map[*steer.Attachment]map[netip.AddrPort]bool // what its map holds

	syncMu   sync.Mutex // orders what is written into BPF maps
	attached []*steer.Attachment
	lost     lostCounts // of attachments that are gone

	offloadMu  sync.Mutex
	offloadWhy string
}

// Run runs a gateway until ctx ends, then detaches and returns nil. cfg has
// been completed and validated.
func Run(ctx context.Context, cfg config.Run, log *slog.Logger) (err error) {
	if err := secretProcess(); err != nil {
		return err
	}
	lock, err := acquire(cfg.LockPath())
	if err != nil {
		return err
	}
	defer lock.release()
	g := &gateway{cfg: cfg, log: log, started: time.Now(), listening: map[*steer.Attachment]map[netip.AddrPort]bool{}}
	if err := g.open(); err != nil {
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

	server, err := admin.Listen(cfg.SocketPath(), g, log)
	if err != nil {
		return err
	}
	defer server.Close()
	if cfg.ReadyFile != "" {
		if err := os.WriteFile(cfg.ReadyFile, fmt.Appendf(nil, "%d\n", os.Getpid()), 0o644); err != nil {
			return fmt.Errorf("write ready file: %w", err)
		}
		defer os.Remove(cfg.ReadyFile)
	}
	log.Info("ready", "name", cfg.Name, "device", g.tun.Name(), "mtu", cfg.MTU, "pid", os.Getpid())
	g.tick(ctx)
	log.Info("stopping", "name", cfg.Name)
	return nil
}

// open makes everything that needs no NIC.
func (g *gateway) open() (err error) {
	cfg := &g.cfg
	if g.keys, err = keystore.Open(cfg.StateDir); err != nil {
		return err
	}
	g.peers = peer.NewTable(cfg.P2P, g)
	if err := g.openTun(); err != nil {
		return err
	}
	for _, addr := range cfg.Listen {
		c, err := udp.Listen(udp.Config{Addr: addr, Mark: int(cfg.Mark), GRO: !cfg.NoUDPGRO, NoGSO: cfg.NoUDPGSO, Log: g.log})
		if err != nil {
			return err
		}
		g.conns = append(g.conns, c)
	}
	var answer []netip.Addr
	for _, a := range cfg.Addresses {
		answer = append(answer, a.Addr())
	}
	mss := 0
	if size := cfg.ClampSize(); size > 0 {
		mss = size - 40
	}
	g.engine, err = engine.New(engine.Config{
		Tun: g.tun, Conns: g.conns, Peers: g.peers,
		Batch: cfg.Batch, Prefetch: cfg.Prefetch, MSS: uint16(mss), Answer: answer,
		Log: g.log, Offload: g.offloadOff,
	})
	return err
}

// openTun makes the TUN device and brings it up with its addresses.
func (g *gateway) openTun() (err error) {
	cfg := &g.cfg
	if g.tun, err = tun.Open(tun.Config{Name: cfg.Dev, Queues: g.workers(), NoOffload: cfg.NoTunOffload}); err != nil {
		return err
	}
	name := g.tun.Name()
	if err := netdev.SetMTU(name, cfg.MTU); err != nil {
		return err
	}
	for _, a := range cfg.Addresses {
		if err := netdev.AddAddress(name, a); err != nil {
			return err
		}
	}
	if len(g.tun.Queues()) > 1 {
		if g.queues, err = steer.LoadTunQueues(steer.TunOptions{Gateway: cfg.Name, Dev: name, PinDir: cfg.PinDir}); err != nil {
			return err
		}
		if err := g.tun.SetSteering(g.queues.FD()); err != nil {
			return err
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
		for _, p := range g.peers.All() {
			g.releaseKeys(p)
		}
	}
	for _, c := range g.conns {
		c.Close()
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

// tick does what is due every so often, until ctx ends.
func (g *gateway) tick(ctx context.Context) {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
		}
		g.syncMu.Lock()
		for _, a := range g.attached {
			if err := a.Heartbeat(); err != nil {
				g.log.Debug("heartbeat failed", "error", err)
			}
		}
		g.syncMu.Unlock()
		if n%int(time.Second/heartbeat) == 0 {
			g.peers.Tick(engine.Monotonic(), g.engine.Ping)
			g.advanceKeys()
			g.retryNICs(ctx)
		}
	}
}
