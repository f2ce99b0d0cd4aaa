// SPDX-License-Identifier: Apache-2.0

package control

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/session"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/aead"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/peer"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/record"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/statickey"
)

// opens reports whether what one key seals the other one opens.
func opens(from, to *aead.Key) bool {
	plain := []byte("E is for everything")
	room := make([]byte, 24+len(plain), 24+len(plain)+aead.Slack)
	from.Seal(aead.NewScratch(), []aead.SealItem{{Dst: room, Word: record.Word(9, 0, 1), PacketID: 1, Buf: bytes.Clone(plain), Len: len(plain)}}, 0)
	return to.Open(aead.NewScratch(), [][]byte{room}, make([]bool, 1), 0) == 1 && bytes.Equal(room[24:], plain)
}

// fits checks that the peer has the client's key, and as its counterpart.
func (b *bed) fits(s *session.Session, p *peer.Peer, id uint8, ekm bool) {
	k := p.KeyByID(id)
	if k == nil {
		b.t.Errorf("the client may send with key %d, and the peer hasn't got it", id)
		return
	}
	block, err := s.Derive(id, ekm)
	if err != nil {
		b.t.Error(err)
		return
	}
	send, receive, err := statickey.Halves(block, statickey.Client, k.Cipher)
	if err != nil {
		b.t.Error(err)
		return
	}
	out, in := must(aead.NewKey(k.Cipher, send.Key, send.IV)), must(aead.NewKey(k.Cipher, receive.Key, receive.IV))
	if !opens(out, k.Opener()) || !opens(k.Sealer(), in) {
		b.t.Errorf("key %d of both ends differs", id)
	}
}

// TestDataKeysFit at both ends, for each way to derive them and each cipher, from the
// moment on when the client has a key; and no key is sent with that it hasn't got.
func TestDataKeysFit(t *testing.T) {
	for name, x := range map[string]struct {
		info string
		ekm  bool
	}{
		"exporter": {peerInfo26, true},
		"chacha":   {"IV_CIPHERS=CHACHA20-POLY1305\nIV_NCP=2\nIV_PROTO=990\n", true},
		"prf":      {"IV_CIPHERS=AES-128-GCM\nIV_NCP=2\nIV_PROTO=6\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, "hand-window 2")
			var p *peer.Peer
			profile := named("alice")
			profile.peerInfo = x.info
			profile.exchanged = func(s *session.Session, id uint8) {
				if id > 0 {
					b.fits(s, p, id, x.ekm)
				}
			}
			c := b.dial(address(1), profile)
			p = b.peer(c.up())
			c.session(func(s *session.Session) { b.fits(s, p, 0, x.ekm) })
			for id := uint8(1); id <= 3; id++ {
				if id%2 == 0 {
					b.svc.PeerEvent(peer.Event{Type: peer.KeyWanted, Peer: p, Reason: peer.WhyUsage})
				} else {
					c.session(func(s *session.Session) { s.Renegotiate(time.Now()) })
				}
				b.eventually("a new key is sent with", func() bool {
					k := p.PrimaryKey()
					c.mu.Lock()
					defer c.mu.Unlock()
					if !slices.Contains(c.held, k.ID) {
						t.Errorf("key %d is sent with, the client has %d", k.ID, c.held)
					}
					return k.ID == id
				})
				if p.KeyIDs() != 1<<id|1<<(id-1) {
					t.Errorf("received with %08b, want keys %d and %d", p.KeyIDs(), id-1, id)
				}
			}
		})
	}
}
