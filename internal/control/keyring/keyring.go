// SPDX-License-Identifier: Apache-2.0

// Package keyring keeps a peer's two data key slots through renegotiations, for either
// side of a session. It has no clock.
package keyring

import (
	"fmt"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/ovpnconf"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/aead"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/peer"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/statickey"
)

// generation is one negotiated data channel key.
type generation struct {
	id    uint8
	key   *peer.Key
	ready time.Time // its own waiting time is over: it is preferred to older ones
	from  time.Time // when it may be sent with: ready, or at once if no older one was ready
	acked bool      // the other end has our half of the exchange, and so the key
}

// Ring keeps a peer's two key slots. A new key is received with from the moment it is
// installed, which a server does before the client can know it, and sent with later: as
// stock OpenVPN does, the newest key whose own waiting time is over is used, and if there
// is none, the newest. On top of that we wait until the other end has acknowledged the
// exchange, so that it never meets a record under a key that it doesn't have.
//
// A Ring is not safe for concurrent use. Role and Pace come before the first key.
type Ring struct {
	// Role says which half of a key block we send with.
	Role statickey.Role

	wait  time.Duration // min(hand-window, reneg-sec/2)
	grace time.Duration // tran-window: how long a replaced key is received with

	sending *generation // primary slot
	next    *generation // secondary slot: received with, not yet sent with
	old     *generation // secondary slot: replaced
	oldEnd  time.Time
}

// Pace sets the times of keys that are installed or replaced from now on.
func (r *Ring) Pace(t *ovpnconf.Timers) {
	r.wait, r.grace = t.HandWindow, t.TranWindow
	if t.RenegMax > 0 {
		r.wait = min(r.wait, t.RenegMax/2)
	}
}

// Install puts a freshly derived key into its slot. block is borrowed.
func (r *Ring) Install(p *peer.Peer, id uint8, c aead.Cipher, block *[256]byte, now time.Time) error {
	send, receive, err := statickey.Halves(block, r.Role, c)
	if err != nil {
		return err
	}
	defer clear(send.Key)
	defer clear(receive.Key)
	k, err := peer.NewKey(peer.KeyConfig{ID: id, Cipher: c,
		Send: send.Key, SendIV: send.IV, Receive: receive.Key, RecvIV: receive.IV})
	if err != nil {
		return err
	}
	g := &generation{id: id, key: k, ready: now.Add(r.wait)}
	g.from = g.ready
	if r.sending == nil {
		if err := p.SetKey(peer.Primary, k); err != nil {
			return fmt.Errorf("install key %d: %w", id, err)
		}
		r.sending = g
		return nil
	}
	if r.next != nil {
		r.swap(p, now) // its slot is needed
	}
	if err := p.SetKey(peer.Secondary, k); err != nil {
		return fmt.Errorf("install key %d: %w", id, err)
	}
	r.next, r.old, r.oldEnd = g, nil, time.Time{}
	if now.Before(r.sending.ready) {
		g.from = now
	}
	return nil
}

// Acknowledged notes that the other end has our half of a key's exchange.
func (r *Ring) Acknowledged(id uint8) {
	for _, g := range []*generation{r.sending, r.next} {
		if g != nil && g.id == id {
			g.acked = true
		}
	}
}

// Superseded sends with the next key at once: the other end has begun to negotiate
// another, and a stock one keeps no more than the newest one beside that.
func (r *Ring) Superseded(p *peer.Peer, now time.Time) {
	if r.next != nil && r.next.acked {
		r.swap(p, now)
	}
}

// Due sends with the next key when its time has come, and drops the old one.
func (r *Ring) Due(p *peer.Peer, now time.Time) {
	if n := r.next; n != nil && n.acked && (!now.Before(n.from) || r.sending.key.Dead()) {
		r.swap(p, now)
	}
	if r.old != nil && !now.Before(r.oldEnd) {
		_ = p.DeleteKey(peer.Secondary)
		r.old, r.oldEnd = nil, time.Time{}
	}
}

func (r *Ring) swap(p *peer.Peer, now time.Time) {
	p.SwapKeys()
	r.old, r.oldEnd = r.sending, now.Add(r.grace)
	r.sending, r.next = r.next, nil
}

// Deadline returns when Due has something to do; zero: not before the next
// acknowledgement or key.
func (r *Ring) Deadline() time.Time {
	var swap time.Time
	if r.next != nil && r.next.acked {
		swap = r.next.from
	}
	if swap.IsZero() || !r.oldEnd.IsZero() && r.oldEnd.Before(swap) {
		return r.oldEnd
	}
	return swap
}
