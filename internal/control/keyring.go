// SPDX-License-Identifier: Apache-2.0

package control

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
	acked bool      // the client has our half of the exchange, and so the key
}

// keyring keeps a peer's two key slots. A new key is received with from the
// moment it is installed, which is before the client can know it, and sent
// with later: as stock OpenVPN does, the newest key whose own waiting time is
// over is used, and if there is none, the newest. On top of that we wait until
// the client has acknowledged the exchange, so that it never meets a record
// under a key that it doesn't have.
type keyring struct {
	wait  time.Duration // min(hand-window, reneg-sec/2)
	grace time.Duration // tran-window: how long a replaced key is received with

	sending *generation // primary slot
	next    *generation // secondary slot: received with, not yet sent with
	old     *generation // secondary slot: replaced
	oldEnd  time.Time
}

// pace sets the times of keys that are installed or replaced from now on.
func (r *keyring) pace(conf *ovpnconf.Server) {
	r.wait, r.grace = conf.HandWindow, conf.TranWindow
	if conf.RenegMax > 0 {
		r.wait = min(r.wait, conf.RenegMax/2)
	}
}

// install puts a freshly derived key into its slot.
func (r *keyring) install(p *peer.Peer, id uint8, c aead.Cipher, block *[256]byte, now time.Time) error {
	send, receive, err := statickey.Halves(block, statickey.Server, c)
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

// acknowledged notes that the client has our half of a key's exchange.
func (r *keyring) acknowledged(id uint8) {
	for _, g := range []*generation{r.sending, r.next} {
		if g != nil && g.id == id {
			g.acked = true
		}
	}
}

// superseded sends with the next key at once: the client has begun to negotiate
// another, and a stock client keeps no more than the newest one beside that.
func (r *keyring) superseded(p *peer.Peer, now time.Time) {
	if r.next != nil && r.next.acked {
		r.swap(p, now)
	}
}

// due sends with the next key when its time has come, and drops the old one.
func (r *keyring) due(p *peer.Peer, now time.Time) {
	if n := r.next; n != nil && n.acked && (!now.Before(n.from) || r.sending.key.Dead()) {
		r.swap(p, now)
	}
	if r.old != nil && !now.Before(r.oldEnd) {
		_ = p.DeleteKey(peer.Secondary)
		r.old, r.oldEnd = nil, time.Time{}
	}
}

func (r *keyring) swap(p *peer.Peer, now time.Time) {
	p.SwapKeys()
	r.old, r.oldEnd = r.sending, now.Add(r.grace)
	r.sending, r.next = r.next, nil
}

// deadline returns when due has something to do; zero: not before the next
// acknowledgement or key.
func (r *keyring) deadline() time.Time {
	var swap time.Time
	if r.next != nil && r.next.acked {
		swap = r.next.from
	}
	return earliest(swap, r.oldEnd)
}
