// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"net/netip"

	"github.com/ovpn-xdp/ovpn-xdp/internal/admin"
	"github.com/ovpn-xdp/ovpn-xdp/internal/engine"
	"github.com/ovpn-xdp/ovpn-xdp/internal/steer"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/peer"
)

func steerPeer(p *peer.Peer) steer.Peer {
	s := steer.Peer{ID: p.ID, KeyIDs: p.KeyIDs()}
	if e := p.Endpoint(); e != nil {
		s.Remote = e.Remote
	}
	return s
}

// PeerChanged writes a peer's present state into the maps of every NIC and of
// the TUN. It implements peer.Observer and may be called from workers: a map
// update takes a few microseconds.
func (g *gateway) PeerChanged(p *peer.Peer) {
	g.syncMu.Lock()
	defer g.syncMu.Unlock()
	gone := p.Gone()
	s := steerPeer(p)
	for _, a := range g.attached {
		var err error
		if gone {
			// The id may belong to a newer peer by now.
			if current := g.peers.Lookup(p.ID); current != nil {
				err = a.SetPeer(steerPeer(current))
			} else {
				err = a.DelPeer(p.ID)
			}
		} else {
			err = a.SetPeer(s)
		}
		if err != nil {
			g.log.Warn("writing a peer into the BPF map failed; its records take the socket", "peer", p.ID, "error", err)
		}
	}
	g.routeLocked(p.Prefixes())
}

// routeLocked writes the TUN queue of each prefix's present owner; syncMu is
// held.
func (g *gateway) routeLocked(prefixes []netip.Prefix) {
	if g.queues == nil {
		return
	}
	for _, f := range prefixes {
		var err error
		if owner := g.peers.Owner(f); owner != nil {
			err = g.queues.SetRoute(f, engine.QueueOf(owner, len(g.tun.Queues())))
		} else {
			err = g.queues.DelRoute(f)
		}
		if err != nil {
			g.log.Warn("writing a route into the TUN's map failed", "route", f, "error", err)
		}
	}
}

// PeerEvent implements peer.Observer.
func (g *gateway) PeerEvent(e peer.Event) {
	id := e.Peer.ID
	out := admin.Event{Peer: &id, Reason: e.Reason}
	switch e.Type {
	case peer.Gone:
		out.Type = admin.EventPeerGone
		go g.releaseKeys(e.Peer)
	case peer.KeyWanted:
		out.Type = admin.EventKeyWanted
		out.Key = &admin.EventKey{KeyID: e.KeyID}
		if e.Killed {
			killed := out
			killed.Type = admin.EventKeyKilled
			g.hub.Publish(killed)
		}
	case peer.Floated:
		out.Type = admin.EventFloat
		out.Remote, out.Previous = e.Remote, e.Previous
	case peer.Exited:
		out.Type = admin.EventOCCExit
	}
	g.hub.Publish(out)
	g.logEvent(e)
}

// logEvent says once per event what an operator may have to act on. Events
// that a remote end can cause at will are limited by their own budgets (float)
// or need an authentic record.
func (g *gateway) logEvent(e peer.Event) {
	switch e.Type {
	case peer.Gone:
		g.log.Info("peer gone", "peer", e.Peer.ID, "reason", e.Reason)
	case peer.KeyWanted:
		switch {
		case e.Reason == peer.WhySameRole:
			g.log.Error("both ends seal with the same half of the key: give one end --role server and the other --role client; key killed", "peer", e.Peer.ID, "key_id", e.KeyID)
		case e.Killed:
			g.log.Error("key is spent and was killed; install a new one", "peer", e.Peer.ID, "key_id", e.KeyID, "reason", e.Reason)
		default:
			g.log.Warn("key is near its limit; install a new one", "peer", e.Peer.ID, "key_id", e.KeyID, "reason", e.Reason)
		}
	case peer.Floated:
		g.log.Info("peer floated", "peer", e.Peer.ID, "remote", e.Remote, "previous", e.Previous)
	case peer.Exited:
		g.log.Info("peer said goodbye", "peer", e.Peer.ID)
	}
}

// offloadOff hears that a TUN or UDP offload was switched off.
func (g *gateway) offloadOff(what, why string) {
	g.offloadMu.Lock()
	g.offloadWhy = why
	g.offloadMu.Unlock()
	g.hub.Publish(admin.Event{Type: admin.EventOffload, Reason: why})
}
