// SPDX-License-Identifier: Apache-2.0

package keyring

import (
	"net/netip"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/aead"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/peer"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/statickey"
)

type deaf struct{}

func (deaf) PeerChanged(*peer.Peer) {}
func (deaf) PeerEvent(peer.Event)   {}

// ring is a peer with a keyring, driven by a clock of its own.
type ring struct {
	t *testing.T
	Ring
	p   *peer.Peer
	now time.Time
}

func newRing(t *testing.T, wait, grace time.Duration) *ring {
	t.Helper()
	p, err := peer.NewTable(false, deaf{}).Add(peer.Config{ID: 1, Prefixes: []netip.Prefix{netip.MustParsePrefix("10.8.0.2/32")}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	return &ring{t: t, Ring: Ring{Role: statickey.Server, wait: wait, grace: grace}, p: p, now: time.Unix(1000, 0)}
}

// key installs a key and, unless the client is silent, has it acknowledged.
func (r *ring) key(id uint8, acked bool) {
	r.t.Helper()
	var block [256]byte
	for i := range block {
		block[i] = byte(i) ^ id<<4
	}
	if err := r.Install(r.p, id, aead.AES256GCM, &block, r.now); err != nil {
		r.t.Fatal(err)
	}
	if acked {
		r.Acknowledged(id)
	}
	r.Due(r.p, r.now)
}

func (r *ring) pass(d time.Duration) {
	r.now = r.now.Add(d)
	r.Due(r.p, r.now)
}

// wants checks which key is sent with and which ones are received with.
func (r *ring) wants(when string, send uint8, receive ...uint8) {
	r.t.Helper()
	if k := r.p.PrimaryKey(); k == nil || k.ID != send {
		r.t.Errorf("%s: sending with %v, want key %d", when, k, send)
	}
	var mask uint8
	for _, id := range receive {
		mask |= 1 << id
	}
	if got := r.p.KeyIDs(); got != mask {
		r.t.Errorf("%s: receiving with %08b, want %08b", when, got, mask)
	}
}

// TestOldKeyIsSentWithForAWhile: the peer may still be without the new one.
func TestOldKeyIsSentWithForAWhile(t *testing.T) {
	r := newRing(t, time.Minute, time.Hour)
	r.key(0, true)
	r.wants("first key", 0, 0)
	r.pass(50 * time.Minute)
	r.key(1, true)
	r.wants("new key", 0, 0, 1)
	r.pass(59 * time.Second)
	r.wants("before its time", 0, 0, 1)
	if want := r.now.Add(time.Second); !r.Deadline().Equal(want) {
		t.Errorf("next look in %v", r.Deadline().Sub(r.now))
	}
	r.pass(time.Second)
	r.wants("at its time", 1, 0, 1)
	r.pass(time.Hour - time.Second)
	r.wants("the old one is still received with", 1, 0, 1)
	r.pass(time.Second)
	r.wants("tran-window is over", 1, 1)
	if !r.Deadline().IsZero() {
		t.Errorf("next look at %v, want none", r.Deadline())
	}
}

// TestYoungKeysGiveWayAtOnce: while none is older than its waiting time, the
// newest is used, over any number of renegotiations.
func TestYoungKeysGiveWayAtOnce(t *testing.T) {
	r := newRing(t, time.Minute, time.Hour)
	r.key(0, true)
	last := uint8(0)
	for id := uint8(1); id <= 7; id++ {
		r.pass(5 * time.Second)
		r.key(id, true)
		r.wants("renegotiated", id, last, id)
		last = id
	}
}

// TestNeverAheadOfTheClient: a key that the client has not acknowledged is
// received with and not sent with.
func TestNeverAheadOfTheClient(t *testing.T) {
	r := newRing(t, time.Minute, time.Hour)
	r.key(0, true)
	r.pass(5 * time.Second)
	r.key(1, false)
	r.pass(10 * time.Minute)
	r.wants("not acknowledged", 0, 0, 1)
	r.Acknowledged(1)
	r.pass(0)
	r.wants("acknowledged", 1, 0, 1)
}

// TestSupersededKey: who negotiates another key has dropped the one before the
// newest.
func TestSupersededKey(t *testing.T) {
	r := newRing(t, time.Minute, time.Hour)
	r.key(0, true)
	r.pass(50 * time.Minute)
	r.key(1, true)
	r.wants("new key", 0, 0, 1)
	r.Superseded(r.p, r.now)
	r.wants("the client begins another", 1, 0, 1)
	r.key(2, true)
	r.wants("and has it", 2, 1, 2)
}

// TestSpentKeyIsLeftAtOnce: a dead key is no reason to wait.
func TestSpentKeyIsLeftAtOnce(t *testing.T) {
	r := newRing(t, time.Minute, time.Hour)
	r.key(0, true)
	r.pass(50 * time.Minute)
	r.key(1, true)
	r.p.KillKey(r.sending.key, peer.WhyPacketID)
	r.pass(0)
	if k := r.p.PrimaryKey(); k == nil || k.ID != 1 {
		t.Errorf("sending with %v, want key 1", k)
	}
}
