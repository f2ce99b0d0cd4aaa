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
		NextPacketID: k.NextPacketID, Fingerprint: fingerprint(k.Block, role)})
	if err != nil {
		return err
	}
	claim, err := g.keys.Claim(keystore.Fingerprint(key.Fingerprint), max(k.NextPacketID, 1))
	if errors.Is(err, keystore.ErrUsed) || errors.Is(err, keystore.ErrLive) {
		return admin.Errorf(admin.CodeExists, "peer %d: %v", k.Peer, err)
	}
	if err != nil {
		return err
	}
	key.SetCeiling(claim.Ceiling())
	g.claimMu.Lock()
	g.claims[key] = claim
	g.claimMu.Unlock()
	if err := p.SetKey(slot, key); err != nil {
		g.releaseClaims(map[*peer.Key]*keystore.Claim{key: claim}, 0) // nothing was sealed with it
		if errors.Is(err, peer.ErrNotFound) {
			return coded(err)
		}
		return admin.Errorf(admin.CodeExists, "peer %d: %v", k.Peer, err)
	}
	g.releaseDead()
	g.syncPeers()
	g.log.Info("key installed", "peer", k.Peer, "slot", slot, "key_id", k.KeyID, "cipher", c)
	return nil
}

// fingerprint identifies the half of a key block that a role sends with:
// SHA-256 of direction, key half and IV. It is the same for every cipher.
func fingerprint(block *admin.Secret, role statickey.Role) (f [32]byte) {
	half := block[:admin.KeyBlockLen/2]
	if role == statickey.Server {
		half = block[admin.KeyBlockLen/2:]
	}
	h := sha256.New()
	h.Write([]byte("ovpn-xdp sending half of a static key\x00" + role.String() + "\x00"))
	h.Write(half)
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
	if p.PrimaryKey() == nil {
		g.log.Warn("the primary slot is empty now: nothing is sent to the peer", "peer", id)
	}
	return nil
}

// KeyDel empties a slot.
func (g *gateway) KeyDel(_ context.Context, id uint32, s admin.Slot) error {
	p, err := g.peer(id)
	if err != nil {
		return err
	}
	if err := p.DeleteKey(slotOf(s)); err != nil {
		return admin.Errorf(admin.CodeNotFound, "peer %d: the %s slot is empty", id, s)
	}
	g.releaseDead()
	g.syncPeers()
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

// markKeys keeps the marks on disk ahead of the ids in use, and writes down how
// far keys were used that are in use no more.
func (g *gateway) markKeys() {
	g.releaseDead()
	for k, claim := range g.claimed(func(k *peer.Key) bool { return !k.Dead() }) {
		ceiling, err := claim.Advance(k.NextPacketID())
		if err != nil {
			g.log.Error("marking packet ids as used failed; the key stops at the last mark", "key_id", k.ID, "ids_left", int64(k.Ceiling()-k.NextPacketID()), "error", err)
			continue
		}
		k.SetCeiling(ceiling)
	}
}

// claimed returns the claims of keys that fn picks.
func (g *gateway) claimed(fn func(*peer.Key) bool) map[*peer.Key]*keystore.Claim {
	g.claimMu.Lock()
	defer g.claimMu.Unlock()
	picked := map[*peer.Key]*keystore.Claim{}
	for k, claim := range g.claims {
		if fn(k) {
			picked[k] = claim
		}
	}
	return picked
}

// maxReservation covers a worker that passed the check for a dead key just
// before it died: one super-packet of at most 65,535 one-byte segments.
const maxReservation = 1 << 16

// releaseDead writes down how far keys were used that died.
func (g *gateway) releaseDead() {
	g.releaseClaims(g.claimed((*peer.Key).Dead), maxReservation)
}

// releaseAll does so for every key; the workers have ended. A key that was
// installed counts as used, even if nothing was sealed with it.
func (g *gateway) releaseAll() {
	g.releaseClaims(g.claimed(func(*peer.Key) bool { return true }), 1)
}

// releaseClaims writes down ids as used up to margin behind the next, and lets
// the halves be claimed again from there.
func (g *gateway) releaseClaims(claims map[*peer.Key]*keystore.Claim, margin uint64) {
	if len(claims) == 0 {
		return
	}
	list := make([]keystore.Released, 0, len(claims))
	for k, claim := range claims {
		list = append(list, keystore.Released{Claim: claim, Next: k.NextPacketID() + margin})
	}
	if err := g.keys.Release(list); err != nil {
		g.log.Warn("writing down used packet ids failed; they stay marked in advance", "error", err)
	}
	g.claimMu.Lock()
	defer g.claimMu.Unlock()
	for k := range claims {
		delete(g.claims, k)
	}
}
