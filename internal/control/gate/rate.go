// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"encoding/binary"
	"hash/maphash"
	"net/netip"
	"time"
)

const (
	// ways is how many prefixes share a set of the table; sets is a power of two.
	// 4 times 16,384 entries of 16 bytes are 1 MiB.
	ways = 4
	sets = 16384
)

// Prefix is what limits are counted by: an IPv4 address, or the /64 of an IPv6
// address, which is what one customer has at least.
func Prefix(a netip.Addr) netip.Prefix {
	bits := 64
	if a = a.Unmap().WithZone(""); a.Is4() {
		bits = 32
	}
	p, _ := a.Prefix(bits)
	return p
}

// rates counts resets by prefix in a table of fixed size. When a set is full, the
// prefix that has used least of its budget is forgotten and begins anew.
// So a flood from more prefixes than the table holds makes the limit
// looser, and never locks anyone out. The sets are chosen with a secret, lest
// a sender push a chosen prefix out.
type rates struct {
	step, per int64 // nanoseconds: between two resets in the long run, and for a whole budget
	seed      maphash.Seed
	table     []entry // nil: no limit
	input     [8]byte
}

// entry is a prefix's budget: it is whole at a time (nanoseconds since 1970),
// and each reset puts that off by a step.
type entry struct {
	prefix uint64
	whole  int64
}

func newRates(r Rate) rates {
	if r.Count <= 0 || r.Per <= 0 {
		return rates{}
	}
	step := max(int64(r.Per)/int64(r.Count), 1)
	return rates{step: step, per: step * int64(r.Count), seed: maphash.MakeSeed(), table: make([]entry, sets*ways)}
}

// key is Prefix as a number: the upper half of an IPv6 address, or an IPv4 address
// behind ffff, which among the former is in a block that nobody is given.
func key(a netip.Addr) uint64 {
	b := a.As16()
	if a.Is4() || a.Is4In6() {
		return binary.BigEndian.Uint64(b[8:])
	}
	return binary.BigEndian.Uint64(b[:])
}

// find returns a prefix's entry, or nil and the one that it may take.
func (r *rates) find(prefix uint64) (found, free *entry) {
	binary.BigEndian.PutUint64(r.input[:], prefix)
	at := int(maphash.Bytes(r.seed, r.input[:])%sets) * ways
	set := r.table[at : at+ways]
	free = &set[0]
	for i := range set {
		if set[i].prefix == prefix {
			return &set[i], nil
		}
		if set[i].whole < free.whole {
			free = &set[i]
		}
	}
	return nil, free
}

// whole returns when an entry's budget is whole, now at the earliest. It is a
// budget away at most: more means that the clock was set back since, and is
// forgotten.
func (r *rates) whole(e *entry, now int64) int64 {
	e.whole = min(e.whole, now+r.per)
	return max(e.whole, now)
}

// spent reports whether a prefix has nothing left of its budget.
func (r *rates) spent(a netip.Addr, at time.Time) bool {
	if r.table == nil {
		return false
	}
	now := at.UnixNano()
	e, _ := r.find(key(a))
	return e != nil && r.whole(e, now)+r.step > now+r.per
}

// allow takes one reset from a prefix's budget, if it is there.
func (r *rates) allow(a netip.Addr, at time.Time) bool {
	if r.table == nil {
		return true
	}
	now, prefix := at.UnixNano(), key(a)
	e, free := r.find(prefix)
	if e == nil {
		*free = entry{prefix: prefix}
		e = free
	}
	whole := r.whole(e, now) + r.step
	if whole > now+r.per {
		return false
	}
	e.whole = whole
	return true
}
