// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/aead"
)

// recorder is an Observer that writes down what it hears. It calls back into the
// table, as the gateway's does: with a lock held that would never return.
type recorder struct {
	table *Table

	mu      sync.Mutex
	changed []*Peer
	events  []Event
}

func (r *recorder) PeerChanged(p *Peer) {
	r.callBack(p)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed = append(r.changed, p)
}

func (r *recorder) PeerEvent(e Event) {
	r.callBack(e.Peer)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// callBack takes every lock there is.
func (r *recorder) callBack(p *Peer) {
	r.table.All()
	r.table.SetLocal(nil)
	none := time.Duration(0)
	_, _ = r.table.Set(1<<24, Change{Interval: &none}, 0)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.KeyIDs()
	for _, s := range []Slot{Primary, Secondary} {
		if k := p.Key(s); k != nil {
			k.HighestReceived()
		}
	}
}

// take returns the events heard since the last take, in short form, and forgets
// them and the changes.
func (r *recorder) take() (events []string, changed []*Peer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		s := fmt.Sprintf("%s %d", e.Type, e.Peer.ID)
		switch e.Type {
		case Gone:
			s += " " + e.Reason
		case KeyWanted:
			s += fmt.Sprintf(" key %d %s", e.KeyID, e.Reason)
			if e.Killed {
				s += " killed"
			}
		case Floated:
			s += fmt.Sprintf(" %s -> %s", e.Previous, e.Remote)
		}
		events = append(events, s)
	}
	changed = r.changed
	r.events, r.changed = nil, nil
	return events, changed
}

// want asks for exactly these events and changes since the last time.
func (r *recorder) want(t *testing.T, changed []*Peer, events ...string) {
	t.Helper()
	gotEvents, gotChanged := r.take()
	if fmt.Sprint(gotEvents) != fmt.Sprint(events) {
		t.Errorf("events %q, want %q", gotEvents, events)
	}
	if fmt.Sprint(ids(gotChanged)) != fmt.Sprint(ids(changed)) {
		t.Errorf("changes of %v, want %v", ids(gotChanged), ids(changed))
	}
}

func ids(peers []*Peer) (ids []string) {
	for _, p := range peers {
		ids = append(ids, fmt.Sprintf("%d@%p", p.ID, p))
	}
	return ids
}

func newTable(p2p bool) (*Table, *recorder) {
	r := new(recorder)
	r.table = NewTable(p2p, r)
	return r.table, r
}

func mustAdd(t testing.TB, table *Table, c Config, now int64) *Peer {
	t.Helper()
	p, err := table.Add(c, now)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func mustSet(t testing.TB, p *Peer, s Slot, k *Key) {
	t.Helper()
	if err := p.SetKey(s, k); err != nil {
		t.Fatal(err)
	}
}

func newKey(t testing.TB, id uint8, c aead.Cipher) *Key {
	t.Helper()
	k, err := NewKey(KeyConfig{ID: id, Cipher: c, Send: make([]byte, c.KeyLen()), Receive: make([]byte, c.KeyLen())})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func prefixes(s ...string) (out []netip.Prefix) {
	for _, p := range s {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

func addrPort(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

func ptr[T any](v T) *T { return &v }

const second = int64(time.Second)
