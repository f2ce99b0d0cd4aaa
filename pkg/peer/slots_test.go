// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"errors"
	"sync"
	"testing"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/aead"
)

// wantSlots asks for the keys in the slots, who sends, and who receives.
func wantSlots(t *testing.T, p *Peer, primary, secondary *Key) {
	t.Helper()
	if p.Key(Primary) != primary || p.Key(Secondary) != secondary {
		t.Errorf("slots hold %v and %v, want %v and %v", p.Key(Primary), p.Key(Secondary), primary, secondary)
	}
	if p.PrimaryKey() != primary {
		t.Errorf("%v sends, want %v", p.PrimaryKey(), primary)
	}
	var mask uint8
	for id := range uint8(8) {
		var want *Key
		for _, k := range []*Key{primary, secondary} {
			if k != nil && k.ID == id {
				want = k
				mask |= 1 << id
			}
		}
		if got := p.KeyByID(id); got != want {
			t.Errorf("key id %d: %v receives, want %v", id, got, want)
		}
	}
	if got := p.KeyIDs(); got != mask {
		t.Errorf("key ids %08b, want %08b", got, mask)
	}
}

func TestSlots(t *testing.T) {
	table, heard := newTable(false)
	p := mustAdd(t, table, Config{ID: 7}, 0)
	heard.want(t, []*Peer{p})
	wantSlots(t, p, nil, nil)

	a, b, c := newKey(t, 0, aead.AES128GCM), newKey(t, 1, aead.AES256GCM), newKey(t, 7, aead.ChaCha20Poly1305)
	p.SwapKeys() // nothing to swap
	wantSlots(t, p, nil, nil)
	mustSet(t, p, Secondary, b)
	wantSlots(t, p, nil, b)
	p.SwapKeys() // with an empty slot
	wantSlots(t, p, b, nil)
	p.SwapKeys()
	wantSlots(t, p, nil, b)
	mustSet(t, p, Primary, a)
	wantSlots(t, p, a, b)
	heard.want(t, []*Peer{p, p})

	p.SwapKeys()
	wantSlots(t, p, b, a)
	heard.want(t, nil) // the key ids are the same

	mustSet(t, p, Secondary, c)
	wantSlots(t, p, b, c)
	if _, use, _ := a.Reserve(1, 1); use != Spent {
		t.Error("the replaced key still gives out ids")
	}
	heard.want(t, []*Peer{p})

	if err := p.DeleteKey(Primary); err != nil {
		t.Error(err)
	}
	wantSlots(t, p, nil, c)
	if _, use, _ := b.Reserve(1, 1); use != Spent {
		t.Error("the deleted key still gives out ids")
	}
	heard.want(t, []*Peer{p})
	if err := p.DeleteKey(Primary); !errors.Is(err, ErrEmptySlot) {
		t.Errorf("emptying an empty slot: %v", err)
	}
	heard.want(t, nil)
	if Primary.String() != "primary" || Secondary.String() != "secondary" {
		t.Error("slot names")
	}
}

func TestSlotsNeverShareAKeyID(t *testing.T) {
	table, heard := newTable(false)
	p := mustAdd(t, table, Config{ID: 7}, 0)
	a, twin := newKey(t, 3, aead.AES128GCM), newKey(t, 3, aead.AES128GCM)
	mustSet(t, p, Primary, a)
	heard.take()
	if err := p.SetKey(Secondary, twin); !errors.Is(err, ErrKeyID) {
		t.Errorf("a second key with id 3: %v", err)
	}
	wantSlots(t, p, a, nil)
	p.SwapKeys()
	if err := p.SetKey(Primary, twin); !errors.Is(err, ErrKeyID) {
		t.Errorf("a second key with id 3 after the swap: %v", err)
	}
	wantSlots(t, p, nil, a)
	heard.want(t, nil)
	// In the same slot the id may stay, and the same key be put again.
	mustSet(t, p, Secondary, twin)
	mustSet(t, p, Secondary, twin)
	wantSlots(t, p, nil, twin)
	if _, use, _ := twin.Reserve(1, 1); use != Fine {
		t.Error("putting a key again killed it")
	}
}

// TestDyingKeyFreesItsID has a key that was found spent but is still on its way out
// of its slot.
func TestDyingKeyFreesItsID(t *testing.T) {
	table, _ := newTable(false)
	p := mustAdd(t, table, Config{ID: 7}, 0)
	dying, next := newKey(t, 5, aead.AES128GCM), newKey(t, 5, aead.AES128GCM)
	mustSet(t, p, Secondary, dying)
	dying.dead.Store(true)
	mustSet(t, p, Primary, next)
	if p.KeyByID(5) != next || p.PrimaryKey() != next || p.KeyIDs() != 1<<5 {
		t.Errorf("%p receives key id 5, want %p", p.KeyByID(5), next)
	}
}

func TestKillKey(t *testing.T) {
	for name, slot := range map[string]Slot{"primary": Primary, "secondary": Secondary} {
		t.Run(name, func(t *testing.T) {
			table, heard := newTable(false)
			p := mustAdd(t, table, Config{ID: 7}, 0)
			dying, other := newKey(t, 1, aead.AES128GCM), newKey(t, 2, aead.AES128GCM)
			mustSet(t, p, slot, dying)
			mustSet(t, p, 1-slot, other)
			heard.take()
			p.KillKey(dying, WhySameRole)
			heard.want(t, []*Peer{p}, "key_wanted 7 key 1 same_role killed")
			if slot == Primary {
				wantSlots(t, p, nil, other) // nothing falls back by itself
			} else {
				wantSlots(t, p, other, nil)
			}
			p.KillKey(dying, WhySameRole)
			heard.want(t, nil)
			mustSet(t, p, slot, newKey(t, 1, aead.AES128GCM))
			if p.KeyByID(1) == nil {
				t.Error("no new key with the id of the killed one")
			}
		})
	}
}

// TestKillReplacedKey kills a key that is in no slot any more: the one that took
// its place must stay, and nobody has to be asked for a key.
func TestKillReplacedKey(t *testing.T) {
	table, heard := newTable(false)
	p := mustAdd(t, table, Config{ID: 7}, 0)
	old, next := newKey(t, 1, aead.AES128GCM), newKey(t, 1, aead.AES128GCM)
	mustSet(t, p, Primary, old)
	mustSet(t, p, Primary, next)
	heard.take()
	p.KillKey(old, WhyPacketID)
	heard.want(t, nil)
	wantSlots(t, p, next, nil)
}

// TestReceiveDuringSwap reads key ids while the slots are swapped back and forth:
// no record may find its key missing.
func TestReceiveDuringSwap(t *testing.T) {
	table, _ := newTable(false)
	p := mustAdd(t, table, Config{ID: 7}, 0)
	a, b := newKey(t, 0, aead.AES128GCM), newKey(t, 1, aead.AES128GCM)
	mustSet(t, p, Primary, a)
	mustSet(t, p, Secondary, b)
	stop := make(chan struct{})
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				p.SwapKeys()
			}
		}
	})
	for range 200_000 {
		if p.KeyByID(0) != a || p.KeyByID(1) != b {
			t.Error("a key is missing")
			break
		}
		if k := p.PrimaryKey(); k != a && k != b {
			t.Error("nobody sends")
			break
		}
		if p.KeyIDs() != 3 {
			t.Error("a key id is missing")
			break
		}
	}
	close(stop)
	swapping.Wait()
}

func TestGonePeerTakesNoKey(t *testing.T) {
	table, heard := newTable(false)
	p := mustAdd(t, table, Config{ID: 7}, 0)
	a := newKey(t, 0, aead.AES128GCM)
	mustSet(t, p, Primary, a)
	if err := table.Remove(7, ReasonUser); err != nil {
		t.Fatal(err)
	}
	heard.take()
	if p.PrimaryKey() != nil || p.KeyByID(0) != nil || p.KeyIDs() != 0 {
		t.Error("a key of a peer that is gone works")
	}
	if p.Key(Primary) != a {
		t.Error("the key cannot be found by who writes down its use")
	}
	if _, use, _ := a.Reserve(1, 1); use != Spent {
		t.Error("the key still gives out ids")
	}
	p.Used(a, Spent, WhyPacketID)
	if err := p.SetKey(Secondary, newKey(t, 1, aead.AES128GCM)); !errors.Is(err, ErrNotFound) {
		t.Errorf("a key for a peer that is gone: %v", err)
	}
	heard.want(t, nil)
}

func TestNewKeyRefuses(t *testing.T) {
	good := func() KeyConfig {
		return KeyConfig{ID: 7, Cipher: aead.AES128GCM, Send: make([]byte, 16), Receive: make([]byte, 16)}
	}
	if _, err := NewKey(good()); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*KeyConfig){
		"key id 8":          func(c *KeyConfig) { c.ID = 8 },
		"no cipher":         func(c *KeyConfig) { c.Cipher = 0 },
		"long sending key":  func(c *KeyConfig) { c.Send = make([]byte, 32) },
		"short receive key": func(c *KeyConfig) { c.Receive = c.Receive[:15] },
	} {
		c := good()
		spoil(&c)
		if _, err := NewKey(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
