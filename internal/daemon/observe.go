// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"net/netip"
	"sync"

	"golang.org/x/sys/unix"

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

// steerPeers returns all peers.
func (g *gateway) steerPeers() []steer.Peer {
	all := g.peers.All()
	peers := make([]steer.Peer, 0, len(all))
	for _, p := range all {
		peers = append(peers, steerPeer(p))
	}
	return peers
}

// dirtyPeers are peers whose state in the BPF maps is out of date.
type dirtyPeers struct {
	mu   sync.Mutex
	set  map[*peer.Peer]struct{}
	wake chan struct{}
}

// PeerChanged notes that a peer has to be written into the maps. It implements
// peer.Observer and is called from workers, which must not wait for a map.
func (g *gateway) PeerChanged(p *peer.Peer) {
	g.dirty.mu.Lock()
	if g.dirty.set == nil {
		g.dirty.set = map[*peer.Peer]struct{}{}
	}
	g.dirty.set[p] = struct{}{}
	g.dirty.mu.Unlock()
	select {
	case g.dirty.wake <- struct{}{}:
	default:
	}
}

// followPeers writes changes that workers caused, such as floats.
func (g *gateway) followPeers(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.dirty.wake:
			g.syncPeers()
		}
	}
}

// syncPeers brings the maps of every NIC and of the TUN up to date. What a
// request changed is in the maps when its answer is sent.
func (g *gateway) syncPeers() {
	g.syncMu.Lock()
	defer g.syncMu.Unlock()
	g.dirty.mu.Lock()
	set := g.dirty.set
	g.dirty.set = nil
	g.dirty.mu.Unlock()
	attached := g.attachments()
	for p := range set {
		for _, a := range attached {
			g.writePeer(a, p.ID)
		}
		g.routeLocked(p.Prefixes())
	}
}

// writePeer writes the state that a peer id has now; syncMu is held.
func (g *gateway) writePeer(a *steer.Attachment, id uint32) {
	var err error
	if p := g.peers.Lookup(id); p != nil {
		err = a.SetPeer(steerPeer(p))
	} else {
		err = a.DelPeer(id)
	}
	// What a full map lacks takes the socket; verify says so once.
	if err != nil && !errors.Is(err, steer.ErrClosed) && !errors.Is(err, unix.E2BIG) {
		g.log.Warn("writing a peer into the BPF map failed; its records take the socket", "peer", id, "error", err)
	}
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
	if g.control != nil {
		g.control.service.PeerEvent(e)
	}
	id := e.Peer.ID
	out := admin.Event{Peer: &id, Reason: e.Reason}
	switch e.Type {
	case peer.Gone:
		out.Type = admin.EventPeerGone
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
	if g.control == nil {
		g.logEvent(e)
	}
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
