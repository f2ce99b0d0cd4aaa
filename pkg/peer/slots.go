// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// Slot names one of a peer's two key slots.
type Slot uint8

const (
	Primary Slot = iota
	Secondary
)

func (s Slot) String() string {
	if s == Primary {
		return "primary"
	}
	return "secondary"
}

// ErrKeyID says that the other slot already holds a key of that id.
var ErrKeyID = errors.New("the other slot holds a key with the same key id")

// ErrEmptySlot says that a slot holds no key.
var ErrEmptySlot = errors.New("the slot is empty")

// slots are the two key slots, with the kernel driver's semantics: sending uses
// primary only, receiving picks by key id, swapping flips the names. They are
// read without a lock; writers hold the peer's lock.
type slots struct {
	key   [2]atomic.Pointer[Key]
	first atomic.Uint32 // index of primary
}

func (s *slots) slot(name Slot) *atomic.Pointer[Key] {
	return &s.key[(s.first.Load()+uint32(name))&1]
}

// byID returns the key that receives records of a key id, or nil. It goes
// through both places without asking which is primary: no two live keys have
// one id, and a swap between the two loads could otherwise show one place twice.
func (s *slots) byID(id uint8) *Key {
	for i := range s.key {
		if k := s.key[i].Load(); k != nil && k.ID == id && !k.dead.Load() {
			return k
		}
	}
	return nil
}

// ids returns the key ids held, as a bit mask: bit n for key id n.
func (s *slots) ids() (mask uint8) {
	for i := range s.key {
		if k := s.key[i].Load(); k != nil && !k.dead.Load() {
			mask |= 1 << k.ID
		}
	}
	return mask
}

// PrimaryKey returns the key that seals, or nil.
func (p *Peer) PrimaryKey() *Key {
	k := p.slots.slot(Primary).Load()
	if k == nil || k.dead.Load() {
		return nil
	}
	return k
}

// KeyByID returns the key that opens records of a key id (0..7), or nil.
func (p *Peer) KeyByID(id uint8) *Key { return p.slots.byID(id) }

// KeyIDs returns the key ids that can be received, bit n for key id n.
func (p *Peer) KeyIDs() uint8 { return p.slots.ids() }

// Key returns the key in a slot, or nil.
func (p *Peer) Key(s Slot) *Key { return p.slots.slot(s).Load() }

// SetKey puts a key into a slot and replaces what was there, which works no
// more. Two slots never hold the same key id: ErrKeyID. A peer that has gone
// takes no keys: ErrNotFound.
func (p *Peer) SetKey(s Slot, k *Key) error {
	if err := p.setKey(s, k); err != nil {
		return err
	}
	p.table.changed(p)
	return nil
}

func (p *Peer) setKey(s Slot, k *Key) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone.Load() {
		return fmt.Errorf("%w: id %d has gone", ErrNotFound, p.ID)
	}
	if other := p.slots.slot(1 - s).Load(); other != nil && other.ID == k.ID && !other.dead.Load() {
		return ErrKeyID
	}
	if old := p.slots.slot(s).Swap(k); old != nil && old != k {
		old.dead.Store(true)
	}
	return nil
}

// DeleteKey empties a slot: ErrEmptySlot when it was empty.
func (p *Peer) DeleteKey(s Slot) error {
	p.mu.Lock()
	old := p.slots.slot(s).Swap(nil)
	if old != nil {
		old.dead.Store(true)
	}
	p.mu.Unlock()
	if old == nil {
		return ErrEmptySlot
	}
	p.table.changed(p)
	return nil
}

// killKeys ends the keys of a peer that goes, and keeps them in their slots
// for whoever writes down how far they were used; p.mu is held.
func (p *Peer) killKeys() {
	for i := range p.slots.key {
		if k := p.slots.key[i].Load(); k != nil {
			k.dead.Store(true)
		}
	}
}

// SwapKeys makes the secondary key primary and the other way round; either
// may be empty.
func (p *Peer) SwapKeys() {
	p.mu.Lock()
	p.slots.first.Store(1 - p.slots.first.Load())
	p.mu.Unlock()
}

// KillKey takes a spent key out of whichever slot holds it and raises
// KeyWanted, once per key. The other slot stays as it is: nothing falls back
// by itself.
func (p *Peer) KillKey(k *Key, why string) {
	if !k.dead.CompareAndSwap(false, true) {
		return
	}
	p.mu.Lock()
	for i := range p.slots.key {
		p.slots.key[i].CompareAndSwap(k, nil)
	}
	p.mu.Unlock()
	p.table.changed(p)
	p.table.emit(Event{Type: KeyWanted, Peer: p, KeyID: k.ID, Reason: why, Killed: true})
}

// Used acts on what using a key returned: it asks for a new key, or kills the
// spent one.
func (p *Peer) Used(k *Key, use Use, why string) {
	switch use {
	case Wanted:
		p.table.emit(Event{Type: KeyWanted, Peer: p, KeyID: k.ID, Reason: why})
	case Spent:
		p.KillKey(k, why)
	}
}
