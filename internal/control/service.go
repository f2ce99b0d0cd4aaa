// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/gate"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/keyex"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wire"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/peer"
)

// Sender sends control datagrams from one of our addresses to a client. It
// must not block for longer than a full socket buffer takes to make room.
// The datagrams are borrowed. Several goroutines call it at once.
type Sender interface {
	Send(local, remote netip.AddrPort, datagrams [][]byte)
}

// Stream is a client's TCP connection. Its methods may be called from any
// goroutine and don't block.
type Stream interface {
	Remote() netip.AddrPort
	Local() netip.AddrPort
	// SendControl queues one packet, without its length prefix, and reports
	// whether there was room. The packet is copied.
	SendControl(packet []byte) bool
	// Data returns what the client's records are sent to, and received
	// from once SetPeer has named the peer.
	Data() peer.Stream
	SetPeer(p *peer.Peer)
	Close()
}

// Routes are the kernel's routes to networks behind clients, over the TUN device.
// A route that is there already is no error, nor is one that has gone.
type Routes interface {
	AddRoute(prefix netip.Prefix) error
	DelRoute(prefix netip.Prefix) error
}

const (
	// strangers is how many datagrams of unknown senders wait for the gate;
	// more are dropped, and their senders send again.
	strangers = 4096
	// inboxSize is how many datagrams of one session wait for a worker: twice
	// the window of the reliability layer.
	inboxSize = 24
	// maxDatagram bounds a control datagram in bytes: max-packet-size goes to
	// 2048, and a wrapped client key adds up to 1024.
	maxDatagram = 4096
	// scriptGrace is how long the commands of a client that has left may take.
	scriptGrace = 10 * time.Second
	// goodbyeTime is how long clients have to hear that we go, stock's time.
	goodbyeTime = 2 * time.Second
	// maxSaid bounds the complaints that are remembered as logged.
	maxSaid = 4096
	// tidyEvery is how often limits age and the log's suppressed lines are summed up.
	tidyEvery = time.Second
)

// sessionKey finds a session: a client's address and the session id that it
// made up, which stands in clear in every control packet. A client that was
// killed and comes back from the same port has another id.
type sessionKey struct {
	remote netip.AddrPort
	client wire.SessionID
}

// packet is a datagram on its way to the gate.
type packet struct {
	remote, local netip.AddrPort
	data          []byte
}

// Service is the control channel of one gateway. All goroutines and timers of
// the control channel are in this file: a dispatcher for datagrams of
// unknown senders, a worker for each CPU, a timer for each session, and
// one goroutine for each script that is running.
type Service struct {
	cfg Config
	log *slog.Logger
	set atomic.Pointer[settings]

	gateMu  sync.Mutex // guards gate and connect
	gate    *gate.Gate
	connect *gate.Limiter // connect-freq

	unknown chan packet
	runs    runQueue
	stop    context.CancelFunc
	ctx     context.Context
	wg      sync.WaitGroup
	scripts sync.WaitGroup // background work of instances

	mu       sync.RWMutex // guards what follows; taken inside an instance's lock, never around it
	sessions map[sessionKey]*instance
	streams  map[Stream]*instance
	byPeer   map[*peer.Peer]*instance
	all      map[uint64]*instance
	leaving  map[string][]*instance // by name: commands have yet to hear that they have gone
	halfOpen halfOpen
	nextCID  uint64
	closing  bool

	books books

	onceMu sync.Mutex
	said   map[string]bool

	counters counters
	noise    noise
	started  time.Time
}

// New makes a service; Start sets it going.
func New(cfg Config) (*Service, error) {
	s := &Service{
		cfg:      cfg,
		log:      cfg.Log,
		unknown:  make(chan packet, strangers),
		sessions: map[sessionKey]*instance{},
		streams:  map[Stream]*instance{},
		byPeer:   map[*peer.Peer]*instance{},
		all:      map[uint64]*instance{},
		leaving:  map[string][]*instance{},
		halfOpen: newHalfOpen(),
		said:     map[string]bool{},
		started:  time.Now(),
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.noise.log = cfg.Log
	set, err := newSettings(cfg.Server, cfg)
	if err != nil {
		return nil, err
	}
	if err := s.books.open(cfg, set); err != nil {
		return nil, err
	}
	s.set.Store(set)
	if s.gate, err = newGate(set); err != nil {
		return nil, err
	}
	s.connect = newConnectLimiter(set)
	s.runs.init()
	return s, nil
}

// Start sets the workers going.
func (s *Service) Start() {
	s.wg.Go(s.dispatch)
	for range runtime.NumCPU() {
		s.wg.Go(s.work)
	}
	s.wg.Go(func() {
		ticker := time.NewTicker(tidyEvery)
		defer ticker.Stop()
		for {
			select {
			case <-s.ctx.Done():
				return
			case now := <-ticker.C:
				s.tidy(now)
			}
		}
	})
}

// Datagram takes a datagram that is no DATA_V2 record. It copies it, never
// blocks, and reports whether there was room. Safe for concurrent use.
func (s *Service) Datagram(remote, local netip.AddrPort, b []byte) bool {
	h, ok := wire.ParseHeader(b)
	if !ok || len(b) > maxDatagram {
		s.counters.malformed.Add(1)
		return false
	}
	s.mu.RLock()
	i := s.sessions[sessionKey{remote, h.Session}]
	s.mu.RUnlock()
	if i != nil {
		return i.deliver(append([]byte(nil), b...), local)
	}
	if len(s.unknown) == cap(s.unknown) {
		s.counters.overflow.Add(1)
		return false
	}
	select {
	case s.unknown <- packet{remote, local, append([]byte(nil), b...)}:
		return true
	default:
		s.counters.overflow.Add(1)
		return false
	}
}

// dispatch answers datagrams of unknown senders, one after the other.
func (s *Service) dispatch() {
	for {
		select {
		case <-s.ctx.Done():
			return
		case p := <-s.unknown:
			s.stranger(p)
		}
	}
}

// stranger hands a datagram to the gate.
func (s *Service) stranger(p packet) {
	h, _ := wire.ParseHeader(p.data)
	s.mu.RLock()
	i, closing := s.sessions[sessionKey{p.remote, h.Session}], s.closing // made since it was queued?
	s.mu.RUnlock()
	if i != nil {
		i.deliver(p.data, p.local)
		return
	}
	if closing {
		return
	}
	now := time.Now()
	s.gateMu.Lock()
	d := s.limited(s.gate.Datagram(p.remote, p.data, now), p.remote, now)
	s.gateMu.Unlock()
	s.evict(d.Evicted)
	switch d.Verdict {
	case gate.Reply:
		answers := [][]byte{d.Reply}
		if len(d.Also) > 0 {
			answers = append(answers, d.Also)
		}
		s.cfg.Send.Send(p.local, p.remote, answers)
	case gate.Accept:
		s.accept(d.Accepted, p, nil, now)
	default:
		s.refused(p.remote, d.Reason, now)
	}
}

// limited turns down sessions beyond connect-freq; gateMu is held.
func (s *Service) limited(d gate.Decision, from netip.AddrPort, now time.Time) gate.Decision {
	if d.Verdict == gate.Accept && !s.connect.Allow(from.Addr(), now) {
		s.gate.Done(from, d.Accepted.Client)
		d.Verdict, d.Reason = gate.Drop, "more clients than connect-freq allows from one prefix"
	}
	return d
}

// evict ends a half-open session that had to make room for another one.
func (s *Service) evict(c gate.Client) {
	if !c.Remote.IsValid() {
		return
	}
	s.mu.RLock()
	i := s.sessions[sessionKey{c.Remote, c.Session}]
	s.mu.RUnlock()
	if i != nil {
		i.post(func(now time.Time) {
			if i.phase == handshaking && i.taken == 0 { // else its address has been proven meanwhile
				i.end(now, "half-open for too long, while others wait")
			}
		})
	}
}

// work runs instances that have something to do.
func (s *Service) work() {
	for {
		i := s.runs.next()
		if i == nil {
			return
		}
		i.run(time.Now())
		s.runs.done(i)
	}
}

// schedule puts an instance into the queue of those with something to do.
func (s *Service) schedule(i *instance) { s.runs.add(i) }

// timer makes the timer that wakes an instance.
func (s *Service) timer(i *instance, d time.Duration) *time.Timer {
	return time.AfterFunc(d, func() { i.wake() })
}

// background runs fn beside the workers, for an instance: scripts, and files
// that may be slow. What it returns is run with the instance locked.
func (s *Service) background(i *instance, fn func(ctx context.Context) func(now time.Time)) {
	s.scripts.Go(func() {
		ctx, cancel := context.WithCancel(i.ctx)
		defer cancel()
		i.post(fn(ctx))
	})
}

// after runs fn beside the workers for an instance that is over.
func (s *Service) after(fn func(ctx context.Context)) {
	s.scripts.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), scriptGrace)
		defer cancel()
		fn(ctx)
	})
}

// Close says goodbye to all clients if the configuration wants that, ends
// their sessions and waits until all scripts have ended.
func (s *Service) Close() {
	// Who hears that we go and is quick shall not come back to us.
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	s.goodbye()
	s.mu.Lock()
	var all []*instance
	for _, i := range s.all {
		all = append(all, i)
	}
	s.mu.Unlock()
	for _, i := range all {
		i.post(func(now time.Time) { i.end(now, "server shut down") })
	}
	s.drain(all)
	s.scripts.Wait()
	s.stop()
	s.runs.close()
	s.wg.Wait()
	s.books.save(time.Now(), true)
}

// Packet takes a packet from a client's TCP connection. It copies it, never
// blocks, and reports whether there was room.
func (s *Service) Packet(stream Stream, b []byte) bool {
	s.mu.RLock()
	i := s.streams[stream]
	s.mu.RUnlock()
	if i != nil {
		return i.deliver(append([]byte(nil), b...), stream.Local())
	}
	if len(b) > maxDatagram {
		stream.Close()
		return false
	}
	now := time.Now()
	s.gateMu.Lock()
	d := s.limited(s.gate.Stream(stream.Remote(), b, now), stream.Remote(), now)
	s.gateMu.Unlock()
	if d.Verdict != gate.Accept {
		s.refused(stream.Remote(), d.Reason, now)
		stream.Close()
		return false
	}
	s.accept(d.Accepted, packet{remote: stream.Remote(), local: stream.Local()}, stream, now)
	return true
}

// Closed hears that a client's TCP connection has ended.
func (s *Service) Closed(stream Stream, why error) {
	s.mu.RLock()
	i := s.streams[stream]
	s.mu.RUnlock()
	if i == nil {
		return
	}
	reason := "the client closed its connection"
	if why != nil && !errors.Is(why, io.EOF) {
		reason = why.Error()
	}
	i.post(func(now time.Time) { i.end(now, reason) })
}

// refused notes a datagram of an unknown sender that was dropped.
func (s *Service) refused(from netip.AddrPort, why string, now time.Time) {
	s.counters.refused.Add(1)
	s.noise.count(why, from)
}

// once logs a complaint about a configuration file that every client of it would
// cause again.
func (s *Service) once(text string) {
	s.onceMu.Lock()
	defer s.onceMu.Unlock()
	if s.said[text] {
		return
	}
	if len(s.said) >= maxSaid {
		clear(s.said) // rather once more than never
	}
	s.said[text] = true
	s.log.Warn(text)
}

// tidy does what comes round.
func (s *Service) tidy(now time.Time) {
	s.noise.flush(now)
	s.books.save(now, false)
	s.gateMu.Lock()
	s.gate.Tidy(now)
	s.gateMu.Unlock()
}

// goodbye tells the clients that we go, if explicit-exit-notify wants that, and
// gives them time to hear it.
func (s *Service) goodbye() {
	text := ""
	switch s.set.Load().conf.Clients.ExitNotify {
	case 0:
		return
	case 1:
		text = keyex.Restart
	default:
		text = keyex.RestartStay
	}
	told := s.clients()
	for _, i := range told {
		i.post(func(now time.Time) {
			if i.phase == established && i.stream == nil {
				_ = i.sess.Send(text, now)
			}
		})
	}
	if len(told) > 0 {
		time.Sleep(goodbyeTime)
	}
}

// drain waits until instances have ended, for a bounded time.
func (s *Service) drain(all []*instance) {
	limit := time.NewTimer(scriptGrace)
	defer limit.Stop()
	for _, i := range all {
		select {
		case <-i.gone:
		case <-limit.C:
			return
		}
	}
}

// counters count what happened to clients.
type counters struct {
	malformed, overflow, refused            atomic.Uint64 // datagrams
	failed, denied, connected, renegotiated atomic.Uint64
	bytesIn, bytesOut                       atomic.Uint64 // of clients that have gone
}
