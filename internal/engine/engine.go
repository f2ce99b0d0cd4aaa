// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"log/slog"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/aead"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/peer"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/poll"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/tcp"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/tun"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/tun/vnet"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/udp"
)

// Config is what an Engine is made of. Devices, sockets and table are
// borrowed: the caller closes them after Close.
type Config struct {
	Tun      *tun.Device
	Conns    []*udp.Conn
	Peers    *peer.Table
	Batch    int          // records per batch, run and super-packet, 1..64; 1: each by itself
	Prefetch int          // records ahead inward, 0 none
	Answer   []netip.Addr // as SetAddresses
	MSS      uint16       // largest MSS of IPv4 SYNs, 20 less for IPv6; 0 any
	Control  Control      // nil: control datagrams are counted and dropped

	// Listeners accept clients on TCP; the engine starts and stops them.
	Listeners     []*tcp.Listener
	StreamControl StreamControl // as Control, for TCP

	ClientToClient ClientToClient

	Log     *slog.Logger
	Offload func(what, why string) // told when a TUN offload goes off
}

// Engine runs the workers.
type Engine struct {
	cfg     Config
	offload *offload
	answer  atomic.Pointer[answerFrom]
	outward []*outward
	sockets []*socket
	streams []*streams
	control *controlSender

	mu      sync.Mutex // guards rings; switching is serialised by switching
	running bool
	rings   map[*Rings]struct{}
	gone    map[string]*InCounters // of workers that have ended, by rung

	switching sync.Mutex
}

var started = time.Now()

// Monotonic returns the packet path's clock: monotonic nanoseconds since the
// process started, never 0.
func Monotonic() int64 { return int64(time.Since(started)) + 1 }

// New makes an engine; Start sets it going.
func New(cfg Config) (*Engine, error) {
	e := &Engine{cfg: cfg, rings: map[*Rings]struct{}{}, gone: map[string]*InCounters{}, control: newControlSender()}
	e.SetAddresses(cfg.Answer)
	e.offload = newOffload(cfg.Tun, cfg.Batch, cfg.Log, cfg.Offload)
	for i, q := range cfg.Tun.Queues() {
		o, err := e.newOutward(i, q)
		if err != nil {
			e.Close()
			return nil, err
		}
		e.outward = append(e.outward, o)
	}
	for i, c := range cfg.Conns {
		s, err := e.newSocket(i, c)
		if err != nil {
			e.Close()
			return nil, err
		}
		e.sockets = append(e.sockets, s)
	}
	for _, l := range cfg.Listeners {
		e.streams = append(e.streams, e.newStreams(l))
	}
	return e, nil
}

func (e *Engine) newOutward(i int, q *tun.Queue) (*outward, error) {
	poller, err := poll.New()
	if err != nil {
		return nil, fmt.Errorf("make poller: %w", err)
	}
	o := &outward{
		c:       new(OutCounters),
		queue:   q,
		reply:   e.cfg.Tun.NewWriter(i),
		peers:   e.cfg.Peers,
		conns:   e.cfg.Conns,
		poller:  poller,
		scratch: aead.NewScratch(),
		mss:     e.cfg.MSS,
		pings:   make(chan *peer.Peer, pingQueue),
		done:    make(chan struct{}),
		buf:     make([]byte, vnet.HeaderLen+1<<16),
	}
	o.area = newArea(o.c, udp.NewSender(areaRuns), e.cfg.Batch, e.burst(areaRuns))
	o.answer.from = &e.answer
	if e.cfg.ClientToClient == C2CInside {
		o.cross = newCrossQueue()
	}
	return o, nil
}

func (e *Engine) newSocket(i int, c *udp.Conn) (*socket, error) {
	poller, err := poll.New()
	if err != nil {
		return nil, fmt.Errorf("make poller: %w", err)
	}
	s := &socket{
		conn:    c,
		merged:  c.GRO(),
		poller:  poller,
		control: e.cfg.Control,
		done:    make(chan struct{}),
	}
	for range e.burst(socketCalls) {
		s.recv = append(s.recv, udp.NewReceiver(e.burst(socketMessages)))
	}
	s.opener, s.inner = e.newInbound(i)
	return s, nil
}

// newInbound makes the part that all inward workers have. TUN queues are
// shared by turns: writing to one needs no lock.
func (e *Engine) newInbound(i int) (*Opener, *inner) {
	in := newInner(nil, e.cfg.Tun.NewWriter(i%len(e.cfg.Tun.Queues())), e.offload, e.cfg.MSS, e.newCross())
	o := NewOpener(e.cfg.Peers, in, e.cfg.Batch, e.cfg.Prefetch)
	in.c = o.Counters
	return o, in
}

// burst returns how many of something to take at once: one where batches are
// of one record, so that each goes by itself from receive to send.
func (e *Engine) burst(most int) int {
	if e.cfg.Batch == 1 {
		return 1
	}
	return most
}

// Start sets the socket and outward workers going. Every worker is a thread
// that spends its life in system calls; with a scheduler slot for each of them
// the runtime never hands a slot away and takes it back around a call.
func (e *Engine) Start() {
	e.running = true
	e.reserveThreads(e.workers())
	for _, o := range e.outward {
		go o.run()
	}
	for _, s := range e.sockets {
		go s.run()
	}
	for _, s := range e.streams {
		s.listener.Start(s)
	}
}

// workers is how many threads the engine has, those of rings not counted.
func (e *Engine) workers() int {
	n := len(e.outward) + len(e.sockets)
	for _, s := range e.streams {
		n += len(s.workers)
	}
	return n
}

func (e *Engine) reserveThreads(workers int) {
	if want := workers + 2; runtime.GOMAXPROCS(0) < want {
		runtime.GOMAXPROCS(want)
	}
}

// SetAddresses names our own inner addresses, the sources of ICMP errors. The
// first of each family that is not link-local is used.
func (e *Engine) SetAddresses(addrs []netip.Addr) {
	var from answerFrom
	for _, a := range addrs {
		switch {
		case a.IsLinkLocalUnicast():
		case a.Is4() && !from.v4.IsValid():
			from.v4 = a
		case a.Is6() && !from.v6.IsValid():
			from.v6 = a
		}
	}
	e.answer.Store(&from)
}

// Ping asks for a keepalive to a peer. It never blocks.
func (e *Engine) Ping(p *peer.Peer) {
	o := e.outward[QueueOf(p, len(e.outward))]
	select {
	case o.pings <- p:
		o.poller.Wake()
	default:
	}
}

// QueueOf returns the TUN queue, of so many, whose worker serves a peer.
func QueueOf(p *peer.Peer, queues int) int { return int(p.ID) % queues }

// Close stops all workers, rings first, and waits for them.
func (e *Engine) Close() {
	e.mu.Lock()
	var rings []*Rings
	for r := range e.rings {
		rings = append(rings, r)
	}
	e.mu.Unlock()
	e.switching.Lock()
	for _, r := range rings {
		e.end(r)
	}
	e.switching.Unlock()
	for _, s := range e.streams {
		s.listener.Stop()
	}
	for _, s := range e.sockets {
		s.stopped.Store(true)
		s.poller.Wake()
	}
	for _, o := range e.outward {
		o.stopped.Store(true)
		o.poller.Wake()
	}
	for _, s := range e.sockets {
		if e.running {
			<-s.done
		}
		s.poller.Close()
	}
	for _, o := range e.outward {
		if e.running {
			<-o.done
		}
		o.poller.Close()
	}
}
