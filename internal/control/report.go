// SPDX-License-Identifier: Apache-2.0

package control

import (
	"net/netip"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/keyex"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/status"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/peer"
)

// Report tells which clients there are. The title is left to the caller.
func (s *Service) Report() status.Report {
	r := status.Report{Time: time.Now(), BytesReceived: s.counters.bytesIn.Load(), BytesSent: s.counters.bytesOut.Load()}
	for _, i := range s.clients() {
		i.mu.Lock()
		if i.phase == established {
			c := i.report()
			r.Clients = append(r.Clients, c)
			r.BytesReceived += c.BytesReceived
			r.BytesSent += c.BytesSent
			r.Routes = append(r.Routes, i.reportRoutes()...)
		}
		i.mu.Unlock()
	}
	return r
}

func (i *instance) report() status.Client {
	c := &i.client
	in, out := i.bytes()
	return status.Client{
		CommonName: c.name, Real: i.remote(), TCP: i.stream != nil, Virtual4: c.lease.v4, Virtual6: c.lease.v6,
		BytesReceived: in, BytesSent: out, Since: c.since, Username: c.username, ClientID: i.cid, PeerID: c.lease.peer.ID, Cipher: c.cipher.String(),
	}
}

func (i *instance) reportRoutes() (out []status.Route) {
	l := i.client.lease
	last := i.client.since
	if at := l.peer.LastReceived.Load(); at > 0 {
		last = time.Now().Add(-time.Duration(i.svc.cfg.Clock() - at))
	}
	for _, f := range append(l.own(), l.routes...) {
		out = append(out, status.Route{Prefix: f, CommonName: i.client.name, Real: i.remote(), LastRef: last})
	}
	return out
}

// Client returns the name and the address of the client that has a peer, and
// whether it is on TCP; an empty name: there is none.
func (s *Service) Client(p *peer.Peer) (name string, remote netip.AddrPort, stream bool) {
	s.mu.RLock()
	i := s.byPeer[p]
	s.mu.RUnlock()
	if i == nil {
		return "", netip.AddrPort{}, false
	}
	return *i.display.Load(), i.remote(), i.stream != nil
}

// KillClient ends the session with a client id as Report gives it, after a message to
// the client if there is one, and reports whether there was such a session.
func (s *Service) KillClient(cid uint64, message string) bool {
	s.mu.RLock()
	i := s.all[cid]
	s.mu.RUnlock()
	if i == nil {
		return false
	}
	i.post(func(now time.Time) {
		i.log.Info("client is disconnected by the operator")
		if message == "" || i.phase < established {
			i.end(now, "killed")
			return
		}
		_ = i.sess.Send(message, now)
		i.shut(now, "killed")
	})
	return true
}

// Restart is the message that makes a client come again.
const Restart = keyex.Restart
