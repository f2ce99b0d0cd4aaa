// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"crypto/tls"
	"net/netip"
	"slices"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/gate"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/keyex"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/session"
	"github.com/ovpn-xdp/ovpn-xdp/internal/ovpnconf"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/peer"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/statickey"
)

// accept makes an instance for a client that the gate let in.
func (s *Service) accept(acc *gate.Accepted, p packet, stream Stream, now time.Time) {
	set := s.set.Load()
	i := &instance{svc: s, set: set, stream: stream, created: now, away: p.local, sid: acc.Client, gone: make(chan struct{}), left: make(chan struct{})}
	i.at.Store(&p.remote)
	i.ctx, i.cancel = context.WithCancel(s.ctx)
	i.client.key = acc.Key
	i.keys.Role = statickey.Server
	// Others may find it from enter on; they wait until it is complete.
	i.mu.Lock()
	defer i.mu.Unlock()
	if !s.enter(i) {
		i.cancel()
		s.release(i)
		s.refused(p.remote, "too many handshakes at once from one prefix", now)
		if stream != nil {
			stream.Close()
		}
		return
	}
	i.log = s.log.With("cid", i.cid, "remote", p.remote)
	i.log.Debug("session begins")
	i.sess = session.New(session.Config{
		Role: session.Server, Wrap: acc.Wrap, Static: acc.Static,
		NewTLS: func(id uint8) (*tls.Config, error) { return i.set.tlsConfig(id) }, // with mu held
		Local:  acc.Server, Remote: acc.Client, NextRecv: acc.NextRecv, NextSend: acc.NextSend, SendReset: acc.SendReset,
		MaxPacket: maxPacket(set.conf.Tunnel.MaxPacket, p.remote, stream != nil), Stream: stream != nil,
		Timeout: set.conf.TLSTimeout, HandWindow: set.conf.HandWindow,
		Hello: func(_ uint8, m *keyex.Message, _ bool) keyex.Message {
			return keyex.Message{Options: keyex.EchoOptions(m.Options)}
		},
	}, now)
	if acc.First != nil {
		i.deliver(acc.First, p.local)
	} else {
		i.wake()
	}
}

// maxPacket is what remains of max-packet-size, which counts IP and UDP
// headers, for a datagram's payload.
func maxPacket(size int, remote netip.AddrPort, stream bool) int {
	switch {
	case stream:
		return size - 2
	case remote.Addr().Is4():
		return size - 20 - 8
	}
	return size - 40 - 8
}

// enter makes an instance findable, unless its prefix has too many half-open
// sessions.
func (s *Service) enter(i *instance) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing || !s.halfOpen.room(i.remote().Addr()) {
		return false
	}
	if old := s.halfOpen.add(i); old != nil {
		old.post(func(now time.Time) {
			if old.phase == handshaking { // else it has just come through
				old.end(now, "too many half-open sessions")
			}
		})
	}
	i.cid = s.nextCID // from 0 on, as with stock OpenVPN
	s.nextCID++
	s.all[i.cid] = i
	if i.stream != nil {
		s.streams[i.stream] = i
	} else {
		s.sessions[i.key()] = i
	}
	return true
}

// proven notes that an instance is authenticated.
func (s *Service) proven(i *instance) {
	s.mu.Lock()
	s.halfOpen.remove(i)
	s.mu.Unlock()
	s.release(i)
}

// release tells the gate that a session which it counts as half-open no longer is.
func (s *Service) release(i *instance) {
	s.gateMu.Lock()
	s.gate.Done(i.remote(), i.sid)
	s.gateMu.Unlock()
}

// bind ties an instance and its peer together.
func (s *Service) bind(i *instance, p *peer.Peer) {
	s.mu.Lock()
	s.byPeer[p] = i
	s.mu.Unlock()
	if i.stream != nil {
		i.stream.SetPeer(p)
	}
}

// drop ends a lease, nil: none. If commands have to hear of it, its addresses are kept, and
// the name's next session waits, until they have: farewell calls departed.
func (s *Service) drop(l *lease, conf *ovpnconf.Server) {
	if l == nil {
		return
	}
	p, last := s.books.peerOf(l), lastCommands(conf)
	s.mu.Lock()
	delete(s.byPeer, p)
	if last {
		s.departs(l.inst, l.name)
	}
	s.mu.Unlock()
	if last {
		s.books.retire(l, peer.ReasonUser)
	} else {
		s.books.release(l, peer.ReasonUser)
	}
}

// lastCommands reports whether commands hear of a client that has gone.
func lastCommands(conf *ovpnconf.Server) bool {
	return conf.Scripts.ClientDisconnect != nil || conf.Scripts.LearnAddress != nil
}

// departs notes that commands have yet to hear that an instance has gone; mu is held.
func (s *Service) departs(i *instance, name string) {
	select {
	case <-i.left: // they have
	default:
		if !slices.Contains(s.leaving[name], i) {
			s.leaving[name] = append(s.leaving[name], i)
		}
	}
}

// departed notes that all an instance had is free, and that commands have heard of it.
func (s *Service) departed(i *instance, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if rest := slices.DeleteFunc(s.leaving[name], func(o *instance) bool { return o == i }); len(rest) > 0 {
		s.leaving[name] = rest
	} else {
		delete(s.leaving, name)
	}
	close(i.left)
}

// key is how an instance on UDP is found; mu is held.
func (i *instance) key() sessionKey { return sessionKey{i.remote(), i.sid} }

// forget makes an instance unfindable.
func (s *Service) forget(i *instance) {
	s.mu.Lock()
	delete(s.all, i.cid)
	if s.sessions[i.key()] == i {
		delete(s.sessions, i.key())
	}
	if i.stream != nil {
		delete(s.streams, i.stream)
	}
	s.halfOpen.remove(i)
	s.mu.Unlock()
	s.release(i)
}

// rivals ends older sessions of an instance's name, unless clients may share it,
// and returns those that have to be waited for: commands have yet to hear that they have
// gone. What the others held is free when it returns. Safe for concurrent use.
func (s *Service) rivals(i *instance, name string, conf *ovpnconf.Server) []*instance {
	if !exclusive(name, conf) {
		return nil
	}
	wait := lastCommands(conf)
	for _, l := range s.books.rivals(name) {
		o := l.inst
		if o.cid >= i.cid {
			continue // reserve says what becomes of us
		}
		if s.atOnce(i, o, l) {
			i.log.Warn("a new session of the client replaces one from another address that was in use", "old_remote", o.remote(),
				"remedy", "if two devices share the certificate, give each its own, or set duplicate-cn")
		} else {
			i.log.Info("a new session of the client replaces the old one", "old_remote", o.remote())
		}
		s.drop(l, conf)
		o.post(func(now time.Time) { o.end(now, "replaced by a new session") })
	}
	if !wait {
		return nil
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.leaving[name])
}

// inUse is how short ago a session was heard of that is taken for one in use.
const inUse = 5 * time.Second

// atOnce reports whether a session looks as if another device had the older one's name.
func (s *Service) atOnce(i, o *instance, l *lease) bool {
	p := s.books.peerOf(l)
	return p != nil && i.remote().Addr() != o.remote().Addr() && s.cfg.Clock()-p.LastReceived.Load() < int64(inUse)
}

// floated moves a session to the address where its records come from, so that
// its control packets go there and are known when they come from there.
func (s *Service) floated(p *peer.Peer, remote netip.AddrPort) {
	s.mu.Lock()
	i := s.byPeer[p]
	if i == nil || i.stream != nil {
		s.mu.Unlock()
		return
	}
	if s.sessions[i.key()] == i {
		delete(s.sessions, i.key())
	}
	i.at.Store(&remote)
	s.sessions[i.key()] = i
	s.mu.Unlock()
}

// PeerEvent hears what the packet path has to say about a peer. It never
// blocks.
func (s *Service) PeerEvent(e peer.Event) {
	s.mu.RLock()
	i := s.byPeer[e.Peer]
	s.mu.RUnlock()
	if i == nil {
		return
	}
	switch e.Type {
	case peer.Gone:
		if e.Reason == peer.ReasonExpired {
			i.post(func(now time.Time) {
				i.dismiss(now, "ping-restart: nothing was received for the time of the keepalive")
			})
		} else {
			i.post(func(now time.Time) { i.dismiss(now, "peer was removed: "+e.Reason) })
		}
	case peer.Floated:
		s.floated(e.Peer, e.Remote)
		i.log.Info("client floated", "from", e.Previous, "to", e.Remote)
	case peer.Exited:
		i.post(func(now time.Time) {
			i.log.Info("client exits", "via", "data channel")
			i.part(now, "client exited")
		})
	case peer.KeyWanted:
		i.post(func(now time.Time) {
			if i.phase == established {
				i.log.Info("data path asks for a new key", "reason", e.Reason, "key_id", e.KeyID)
				i.renegotiate(now)
			}
		})
	}
}

// clients returns the instances that are connected, in order of their ids.
func (s *Service) clients() []*instance {
	s.mu.RLock()
	out := make([]*instance, 0, len(s.byPeer))
	for _, i := range s.byPeer {
		out = append(out, i)
	}
	s.mu.RUnlock()
	slices.SortFunc(out, func(a, b *instance) int {
		if a.cid < b.cid {
			return -1
		}
		return 1
	})
	return out
}
