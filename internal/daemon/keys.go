// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"github.com/ovpn-xdp/ovpn-xdp/internal/admin"
	"github.com/ovpn-xdp/ovpn-xdp/internal/keystore"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/aead"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/peer"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/statickey"
)

var slots = []peer.Slot{peer.Primary, peer.Secondary}

func (g *gateway) peer(id uint32) (*peer.Peer, error) {
	p := g.peers.Lookup(id)
	if p == nil {
		return nil, admin.Errorf(admin.CodeNotFound, "no peer %d; peer list shows those there are", id)
	}
	return p, nil
}

func slotOf(s admin.Slot) peer.Slot {
	if s == admin.Secondary {
		return peer.Secondary
	}
	return peer.Primary
}

// KeyAdd installs a fixed key. The half it sends with is claimed on disk
// before the key exists, so that no packet id is ever used twice.
func (g *gateway) KeyAdd(_ context.Context, k *admin.KeyAdd) error {
	p, err := g.peer(k.Peer)
	if err != nil {
		return err
	}
	c, err := aead.ParseCipher(k.Cipher)
	if err != nil {
		return admin.Errorf(admin.CodeInvalid, "%v", err)
	}
	slot := slotOf(k.Slot)
	if other := p.Key(1 - slot); other != nil && other.ID == k.KeyID {
		return admin.Errorf(admin.CodeExists, "peer %d: the %s slot holds a key with key id %d already", k.Peer, 1-slot, k.KeyID)
	}
	role := statickey.Client
	if k.Role == admin.RoleServer {
		role = statickey.Server
	}
	send, receive, err := statickey.Halves((*[admin.KeyBlockLen]byte)(k.Block), role, c)
	if err != nil {
		return admin.Errorf(admin.CodeInvalid, "%v", err)
	}
	defer clear(send.Key)
	defer clear(receive.Key)
	key, err := peer.NewKey(peer.KeyConfig{ID: k.KeyID, Cipher: c,
		Send: send.Key, SendIV: send.IV, Receive: receive.Key, RecvIV: receive.IV,
		NextPacketID: k.NextPacketID, Fingerprint: fingerprint(send, role)})
	if err != nil {
		return err
	}
	if err := g.keys.Claim(keystore.Fingerprint(key.Fingerprint), max(k.NextPacketID, 1)); err != nil {
		if errors.Is(err, keystore.ErrUsed) {
			return admin.Errorf(admin.CodeExists, "peer %d: %v", k.Peer, err)
		}
		return err
	}
	old := p.Key(slot)
	if err := p.SetKey(slot, key); err != nil {
		g.releaseKey(key) // nothing was sealed with it
		if errors.Is(err, peer.ErrNotFound) {
			return coded(err)
		}
		return admin.Errorf(admin.CodeExists, "peer %d: %v", k.Peer, err)
	}
	g.releaseKey(old)
	g.log.Info("key installed", "peer", k.Peer, "slot", slot, "key_id", k.KeyID, "cipher", c)
	return nil
}

// fingerprint identifies what one direction seals with: SHA-256 of direction,
// key and implicit IV.
func fingerprint(send statickey.Half, role statickey.Role) (f [32]byte) {
	h := sha256.New()
	h.Write([]byte("ovpn-xdp sending half of a static key\x00" + role.String() + "\x00"))
	h.Write(send.Key)
	h.Write(send.IV[:])
	h.Sum(f[:0])
	return f
}

// KeySwap makes the secondary key primary and the other way round.
func (g *gateway) KeySwap(_ context.Context, id uint32) error {
	p, err := g.peer(id)
	if err != nil {
		return err
	}
	p.SwapKeys()
	g.log.Info("keys swapped", "peer", id)
	return nil
}

// KeyDel empties a slot.
func (g *gateway) KeyDel(_ context.Context, id uint32, s admin.Slot) error {
	p, err := g.peer(id)
	if err != nil {
		return err
	}
	old := p.Key(slotOf(s))
	if err := p.DeleteKey(slotOf(s)); err != nil {
		return admin.Errorf(admin.CodeNotFound, "peer %d: the %s slot is empty", id, s)
	}
	g.releaseKey(old)
	g.log.Info("key deleted", "peer", id, "slot", s)
	return nil
}

// KeyShow tells what is installed, never key bytes.
func (g *gateway) KeyShow(_ context.Context, id uint32) ([]admin.Key, error) {
	p, err := g.peer(id)
	if err != nil {
		return nil, err
	}
	return keysOf(p), nil
}

func keysOf(p *peer.Peer) []admin.Key {
	keys := []admin.Key{}
	for _, s := range slots {
		if k := p.Key(s); k != nil {
			keys = append(keys, admin.Key{Slot: admin.Slot(s.String()), KeyID: k.ID, Cipher: k.Cipher.String(),
				NextPacketID: min(k.NextPacketID(), 1<<32), HighestReceived: k.HighestReceived(),
				Fingerprint: hex.EncodeToString(k.Fingerprint[:])})
		}
	}
	return keys
}

// advanceKeys keeps the marks on disk ahead of the ids in use.
func (g *gateway) advanceKeys() {
	for _, p := range g.peers.All() {
		for _, s := range slots {
			if k := p.Key(s); k != nil {
				if err := g.keys.Advance(keystore.Fingerprint(k.Fingerprint), k.NextPacketID()); err != nil {
					g.log.Error("marking packet ids as used failed; the key is killed so that none is used twice", "peer", p.ID, "error", err)
					p.KillKey(k, "key store")
				}
			}
		}
	}
}

// releaseKeys writes down how far a peer's keys were used.
func (g *gateway) releaseKeys(p *peer.Peer) {
	for _, s := range slots {
		g.releaseKey(p.Key(s))
	}
}

// releaseKey does so for one key that sends no more. A reservation under way
// at this moment is covered: ids are reserved in one atomic step, and a dead key
// gives out none.
func (g *gateway) releaseKey(k *peer.Key) {
	if k == nil {
		return
	}
	if err := g.keys.Release(keystore.Fingerprint(k.Fingerprint), k.NextPacketID()+maxReservation); err != nil {
		g.log.Warn("writing down used packet ids failed; they stay marked in advance", "error", err)
	}
}

// maxReservation covers a worker that passed the check for a dead key just
// before it died: one super-packet of at most 65,535 one-byte segments.
const maxReservation = 1 << 16
