// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/ovpn-xdp/ovpn-xdp/internal/admin"
	"github.com/ovpn-xdp/ovpn-xdp/internal/keystore"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/peer"
)

// newKeyed returns a gateway with a peer table and a key store and nothing
// else: no device, no socket, no NIC.
func newKeyed(t *testing.T, dir string, peers ...uint32) *gateway {
	t.Helper()
	g := &gateway{log: slog.New(slog.DiscardHandler), dirty: dirtyPeers{wake: make(chan struct{}, 1)}, claims: map[*peer.Key]*keystore.Claim{}}
	var err error
	if g.keys, err = keystore.Open(dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.keys.Close() })
	g.peers = peer.NewTable(false, g)
	for _, id := range peers {
		if err := g.PeerAdd(context.Background(), admin.PeerAdd{ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

func keyAdd(id uint32, block byte, role admin.Role, next uint32) *admin.KeyAdd {
	s := new(admin.Secret)
	for i := range s {
		s[i] = block + byte(i)
	}
	return &admin.KeyAdd{Peer: id, Slot: admin.Primary, Cipher: "AES-128-GCM", Role: role, Block: s, NextPacketID: next}
}

func wantCode(t *testing.T, what string, err error, code admin.Code) {
	t.Helper()
	if admin.CodeOf(err) != code {
		t.Errorf("%s: %v (code %q), want code %q", what, err, admin.CodeOf(err), code)
	}
}

func TestKeyHalfIsUsedOnce(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	g := newKeyed(t, dir, 7, 8)
	wantCode(t, "first", g.KeyAdd(ctx, keyAdd(7, 1, admin.RoleServer, 0)), "")
	wantCode(t, "another peer", g.KeyAdd(ctx, keyAdd(8, 1, admin.RoleServer, 0)), admin.CodeExists)
	wantCode(t, "another peer, above the mark", g.KeyAdd(ctx, keyAdd(8, 1, admin.RoleServer, 1<<30)), admin.CodeExists)
	other := keyAdd(8, 1, admin.RoleServer, 0)
	other.Cipher = "CHACHA20-POLY1305"
	wantCode(t, "another cipher", g.KeyAdd(ctx, other), admin.CodeExists)
	wantCode(t, "the other half", g.KeyAdd(ctx, keyAdd(8, 1, admin.RoleClient, 0)), "")
	wantCode(t, "no such peer", g.KeyAdd(ctx, keyAdd(9, 2, admin.RoleServer, 0)), admin.CodeNotFound)

	k := g.peers.Lookup(7).PrimaryKey()
	if _, use, _ := k.Reserve(1000, 1000); use != peer.Fine {
		t.Fatalf("reserve: %v", use)
	}
	wantCode(t, "delete", g.KeyDel(ctx, 7, admin.Primary), "")
	wantCode(t, "delete twice", g.KeyDel(ctx, 7, admin.Primary), admin.CodeNotFound)
	wantCode(t, "again from the start", g.KeyAdd(ctx, keyAdd(7, 1, admin.RoleServer, 0)), admin.CodeExists)
	wantCode(t, "again above the ids used", g.KeyAdd(ctx, keyAdd(7, 1, admin.RoleServer, 1001+maxReservation)), "")
}

func TestKeysOutliveTheProcess(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	g := newKeyed(t, dir, 7)
	wantCode(t, "first", g.KeyAdd(ctx, keyAdd(7, 1, admin.RoleServer, 0)), "")
	g.releaseAll()
	g.keys.Close()
	after := newKeyed(t, dir, 7)
	wantCode(t, "after a restart", after.KeyAdd(ctx, keyAdd(7, 1, admin.RoleServer, 0)), admin.CodeExists)
}

func TestKilledKeyIsReleasedByTheNextRound(t *testing.T) {
	g := newKeyed(t, t.TempDir(), 7)
	wantCode(t, "add", g.KeyAdd(context.Background(), keyAdd(7, 1, admin.RoleServer, 0)), "")
	p := g.peers.Lookup(7)
	p.KillKey(p.PrimaryKey(), peer.WhyUsage)
	g.markKeys()
	if len(g.claims) != 0 {
		t.Error("the claim of a killed key is kept")
	}
}

func TestIDsStopAtTheMark(t *testing.T) {
	g := newKeyed(t, t.TempDir(), 7)
	wantCode(t, "add", g.KeyAdd(context.Background(), keyAdd(7, 1, admin.RoleServer, 0)), "")
	k := g.peers.Lookup(7).PrimaryKey()
	before := k.Ceiling()
	k.Reserve(keystore.Ahead*3/4, 0)
	g.markKeys()
	if k.Ceiling() <= before {
		t.Errorf("ceiling %d was not raised from %d", k.Ceiling(), before)
	}
	g.keys.Close() // the disk is gone
	for range 3 {
		k.Reserve(keystore.Ahead/4, 0)
		g.markKeys()
	}
	if _, use, why := k.Reserve(keystore.Ahead, 0); use != peer.Spent || why != peer.WhyKeyStore {
		t.Errorf("beyond the mark: %v, %q", use, why)
	}
}

func TestFingerprintTellsDirections(t *testing.T) {
	g := newKeyed(t, t.TempDir(), 1, 2)
	ctx := context.Background()
	wantCode(t, "server", g.KeyAdd(ctx, keyAdd(1, 1, admin.RoleServer, 0)), "")
	wantCode(t, "client", g.KeyAdd(ctx, keyAdd(2, 1, admin.RoleClient, 0)), "")
	a, b := g.peers.Lookup(1).PrimaryKey().Fingerprint, g.peers.Lookup(2).PrimaryKey().Fingerprint
	if bytes.Equal(a[:], b[:]) {
		t.Error("both directions have one fingerprint")
	}
}

func TestErrorsHaveCodes(t *testing.T) {
	ctx := context.Background()
	g := newKeyed(t, t.TempDir(), 7)
	wantCode(t, "peer again", g.PeerAdd(ctx, admin.PeerAdd{ID: 7}), admin.CodeExists)
	wantCode(t, "peer gone", g.PeerDel(ctx, 8), admin.CodeNotFound)
	_, err := g.PeerGet(ctx, 8)
	wantCode(t, "peer unknown", err, admin.CodeNotFound)
	if err := coded(errors.New("other")); admin.CodeOf(err) != admin.CodeFailed {
		t.Errorf("other: %v", err)
	}
}
