// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/admin"
	"github.com/ovpn-xdp/ovpn-xdp/internal/engine"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/peer"
)

// coded gives a table error the admin protocol's code.
func coded(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, peer.ErrExists):
		return admin.Errorf(admin.CodeExists, "%v", err)
	case errors.Is(err, peer.ErrNotFound):
		return admin.Errorf(admin.CodeNotFound, "%v", err)
	case errors.Is(err, peer.ErrInvalid):
		return admin.Errorf(admin.CodeInvalid, "%v", err)
	}
	return err
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

// PeerAdd makes a peer.
func (g *gateway) PeerAdd(_ context.Context, a admin.PeerAdd) error {
	_, err := g.peers.Add(peer.Config{ID: a.ID, TxID: a.TxID, Remote: a.Remote, Local: a.Local, Prefixes: a.Routes,
		Interval: seconds(a.Keepalive.Interval), Timeout: seconds(a.Keepalive.Timeout)}, engine.Monotonic())
	g.syncPeers()
	if err == nil {
		g.log.Debug("peer added", "peer", a.ID, "remote", a.Remote)
	}
	return coded(err)
}

// PeerSet changes a peer.
func (g *gateway) PeerSet(_ context.Context, s admin.PeerSet) error {
	change := peer.Change{Remote: s.Remote, Local: s.Local, Prefixes: s.Routes}
	if s.Keepalive != nil {
		interval, timeout := seconds(s.Keepalive.Interval), seconds(s.Keepalive.Timeout)
		change.Interval, change.Timeout = &interval, &timeout
	}
	var before []netip.Prefix
	if p := g.peers.Lookup(s.ID); p != nil {
		before = p.Prefixes()
	}
	if _, err := g.peers.Set(s.ID, change, engine.Monotonic()); err != nil {
		return coded(err)
	}
	g.syncPeers()
	g.syncMu.Lock()
	g.routeLocked(before) // those it no longer has
	g.syncMu.Unlock()
	return nil
}

// PeerDel removes a peer.
func (g *gateway) PeerDel(_ context.Context, id uint32) error {
	err := g.peers.Remove(id, peer.ReasonUser)
	g.syncPeers()
	g.releaseDead()
	return coded(err)
}

// PeerGet tells of one peer.
func (g *gateway) PeerGet(_ context.Context, id uint32) (*admin.Peer, error) {
	p, err := g.peer(id)
	if err != nil {
		return nil, err
	}
	out := g.describe(p)
	return &out, nil
}

// PeerList tells of all peers.
func (g *gateway) PeerList(context.Context) ([]admin.Peer, error) {
	out := []admin.Peer{}
	for _, p := range g.peers.All() {
		out = append(out, g.describe(p))
	}
	return out, nil
}

func (g *gateway) describe(p *peer.Peer) admin.Peer {
	interval, timeout := p.Keepalive()
	a := admin.Peer{ID: p.ID, Transport: "udp", Routes: slices.Clone(p.Prefixes()), Keys: keysOf(p),
		Keepalive: admin.Keepalive{Interval: int(interval / time.Second), Timeout: int(timeout / time.Second)},
		In:        traffic(&p.In), Out: traffic(&p.Out), LinkIn: traffic(&p.LinkIn), LinkOut: traffic(&p.LinkOut),
	}
	if p.TxID != p.ID {
		id := p.TxID
		a.TxID = &id
	}
	if a.Routes == nil {
		a.Routes = []netip.Prefix{}
	}
	if g.control != nil {
		name, remote, stream := g.control.service.Client(p)
		if a.Name = name; stream {
			a.Transport, a.Remote = "tcp", remote
		}
	}
	if e := p.Endpoint(); e != nil {
		a.Remote, a.Local = e.Remote, e.Local.Addr()
	}
	if at := p.LastReceived.Load(); at > 0 {
		a.LastReceived = wall(at)
	}
	if p.LinkOut.Records.Load() > 0 {
		a.LastSent = wall(p.LastSent.Load())
	}
	return a
}

func traffic(c *peer.Counter) admin.Traffic {
	return admin.Traffic{Records: c.Records.Load(), Bytes: c.Bytes.Load()}
}

// wall turns the packet path's monotonic time into the time of day.
func wall(at int64) time.Time {
	return time.Now().Add(-time.Duration(engine.Monotonic() - at)).UTC()
}
