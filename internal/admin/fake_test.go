// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// fake is a gateway that only keeps books.
type fake struct {
	Hub
	mu    sync.Mutex
	peers map[uint32]PeerAdd
	keys  map[uint32][]KeyAdd
	block Secret // of the last key added
	wait  chan struct{}
}

func newFake() *fake {
	return &fake{peers: map[uint32]PeerAdd{}, keys: map[uint32][]KeyAdd{}}
}

func (f *fake) Status(ctx context.Context) (*Status, error) {
	if f.wait != nil {
		select {
		case <-f.wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return &Status{Name: "gw", Dev: "tun0", MTU: 1420}, nil
}

func (f *fake) PeerAdd(_ context.Context, p PeerAdd) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.peers[p.ID]; ok {
		return fmt.Errorf("add peer: %w", Errorf(CodeExists, "peer %d exists already", p.ID))
	}
	f.peers[p.ID] = p
	return nil
}

func (f *fake) PeerSet(_ context.Context, p PeerSet) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	old, ok := f.peers[p.ID]
	if !ok {
		return Errorf(CodeNotFound, "peer %d: no such peer", p.ID)
	}
	if p.Remote != nil {
		old.Remote = *p.Remote
	}
	f.peers[p.ID] = old
	return nil
}

func (f *fake) PeerDel(_ context.Context, id uint32) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.peers[id]; !ok {
		return Errorf(CodeNotFound, "peer %d: no such peer", id)
	}
	delete(f.peers, id)
	f.Publish(PeerEvent(EventPeerGone, id, GoneUserspace))
	return nil
}

func (f *fake) PeerGet(_ context.Context, id uint32) (*Peer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, ok := f.peers[id]
	if !ok {
		return nil, Errorf(CodeNotFound, "peer %d: no such peer", id)
	}
	return &Peer{ID: p.ID, Remote: p.Remote, Routes: p.Routes, Keepalive: p.Keepalive}, nil
}

func (f *fake) PeerList(ctx context.Context) ([]Peer, error) {
	f.mu.Lock()
	ids := make([]uint32, 0, len(f.peers))
	for id := range f.peers {
		ids = append(ids, id)
	}
	f.mu.Unlock()
	slices.Sort(ids)
	var out []Peer
	for _, id := range ids {
		if p, err := f.PeerGet(ctx, id); err == nil {
			out = append(out, *p)
		}
	}
	return out, nil
}

func (f *fake) KeyAdd(_ context.Context, k *KeyAdd) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.block = *k.Block
	f.keys[k.Peer] = append(f.keys[k.Peer], *k)
	return nil
}

func (f *fake) KeySwap(context.Context, uint32) error { panic("a defect in the gateway") }

func (f *fake) KeyDel(context.Context, uint32, Slot) error { return errors.New("plain error") }

func (f *fake) KeyShow(_ context.Context, peer uint32) ([]Key, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []Key
	for _, k := range f.keys[peer] {
		out = append(out, Key{Slot: k.Slot, KeyID: k.KeyID, Cipher: k.Cipher})
	}
	return out, nil
}

func (f *fake) Attach(_ context.Context, nic, mode string) (*NIC, error) {
	if nic == "eth9" {
		return nil, Errorf(CodeBusy, "eth9: XDP slot held by program 42 `xdp_dispatcher` (link 7); use --mode tc")
	}
	return &NIC{Name: nic, Rung: "xdp", State: NICAttached}, nil
}

func (f *fake) Detach(context.Context, string) error { return nil }

// serve starts a server on a socket of its own and returns its path.
func serve(t *testing.T, h Handler, edit func(*Server)) (*Server, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run", "gw.sock")
	l, err := listen(path)
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(l, h, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if edit != nil {
		edit(s)
	}
	s.start()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s, path
}

func dial(t *testing.T, path string) *Client {
	t.Helper()
	c, err := Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func dialRaw(t *testing.T, path string) *net.UnixConn {
	t.Helper()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}
