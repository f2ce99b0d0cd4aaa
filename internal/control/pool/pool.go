// SPDX-License-Identifier: Apache-2.0

// Package pool gives clients their tunnel addresses: the ones they had before
// if it can, and remembers them in a file that an operator may read and edit. A
// client's IPv4 and IPv6 address have the same place in their ranges.
package pool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// MaxSize is the most addresses a pool has, stock OpenVPN's limit.
const MaxSize = 65536

// ErrExhausted says that every address is in use.
var ErrExhausted = errors.New("address pool exhausted")

// Config describes a pool. A range that isn't valid is not there.
type Config struct {
	// First and Last are the IPv4 range's ends.
	First, Last netip.Addr
	// Base is the first IPv6 address. Without an IPv4 range there are MaxSize.
	Base netip.Addr
}

// Pool holds the places. It is not safe for concurrent use.
type Pool struct {
	cfg    Config
	size   int
	places map[int]*place // those used at least once
	byName map[string]int
	fresh  int // places from here on were never used
}

type place struct {
	name  string
	taken bool
	since time.Time // when it was given back
}

// Addresses are what a client was given; an invalid one is not there.
type Addresses struct {
	V4, V6 netip.Addr
	at     int
}

// New makes a pool.
func New(cfg Config) (*Pool, error) {
	p := &Pool{cfg: cfg, size: MaxSize, places: map[int]*place{}, byName: map[string]int{}}
	if cfg.First.IsValid() {
		first, last := number(cfg.First), number(cfg.Last)
		if last < first {
			return nil, fmt.Errorf("pool ends at %s, before its beginning %s", cfg.Last, cfg.First)
		}
		p.size = min(int(last-first)+1, MaxSize)
	} else if !cfg.Base.IsValid() {
		p.size = 0
	}
	return p, nil
}

func number(a netip.Addr) uint32 { b := a.As4(); return binary.BigEndian.Uint32(b[:]) }

// Size is the number of places.
func (p *Pool) Size() int { return p.size }

// Acquire gives a client its addresses: those it had, else such that nobody
// had, else those that were given back longest ago. A name of "" has
// no history.
func (p *Pool) Acquire(name string) (Addresses, error) {
	if at, ok := p.byName[name]; ok && name != "" && !p.places[at].taken {
		return p.take(at, name), nil
	}
	for ; p.fresh < p.size; p.fresh++ {
		if p.places[p.fresh] == nil {
			return p.take(p.fresh, name), nil
		}
	}
	oldest := -1
	for at, x := range p.places {
		if !x.taken && (oldest < 0 || x.since.Before(p.places[oldest].since) || x.since.Equal(p.places[oldest].since) && at < oldest) {
			oldest = at
		}
	}
	if oldest < 0 {
		return Addresses{}, fmt.Errorf("%w: all %d are in use; widen the network of `server` or the range of ifconfig-pool", ErrExhausted, p.size)
	}
	return p.take(oldest, name), nil
}

func (p *Pool) take(at int, name string) Addresses {
	if x := p.places[at]; x != nil && p.byName[x.name] == at {
		delete(p.byName, x.name)
	}
	p.places[at] = &place{name: name, taken: true}
	if name != "" {
		if old, ok := p.byName[name]; ok && old != at && !p.places[old].taken {
			p.places[old].name = ""
		}
		p.byName[name] = at
	}
	return p.at(at)
}

// at returns the addresses of a place.
func (p *Pool) at(n int) (a Addresses) {
	a.at = n
	if p.cfg.First.IsValid() {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], number(p.cfg.First)+uint32(n))
		a.V4 = netip.AddrFrom4(b)
	}
	if p.cfg.Base.IsValid() {
		b := p.cfg.Base.As16()
		low := binary.BigEndian.Uint64(b[8:]) + uint64(n)
		if low < uint64(n) {
			binary.BigEndian.PutUint64(b[:], binary.BigEndian.Uint64(b[:])+1)
		}
		binary.BigEndian.PutUint64(b[8:], low)
		a.V6 = netip.AddrFrom16(b)
	}
	return a
}

// Release gives addresses back; now is when.
func (p *Pool) Release(a Addresses, now time.Time) {
	if x := p.places[a.at]; x != nil {
		x.taken, x.since = false, now
	}
}

// Reserve keeps an address that a client's own configuration names from being given to
// others, if it is of the pool and free. Release ends it.
func (p *Pool) Reserve(addr netip.Addr, name string) (Addresses, bool) {
	n, ok := p.place(addr)
	if !ok || p.places[n] != nil && p.places[n].taken {
		return Addresses{}, false
	}
	return p.take(n, name), true
}

// place returns the place of an address.
func (p *Pool) place(addr netip.Addr) (int, bool) {
	switch {
	case addr.Is4() && p.cfg.First.IsValid():
		if addr.Less(p.cfg.First) {
			return 0, false
		}
		n := number(addr) - number(p.cfg.First)
		return int(n), int64(n) < int64(p.size)
	case addr.Is6() && p.cfg.Base.IsValid():
		a, b := addr.As16(), p.cfg.Base.As16()
		if [8]byte(a[:8]) != [8]byte(b[:8]) {
			return 0, false
		}
		low, base := binary.BigEndian.Uint64(a[8:]), binary.BigEndian.Uint64(b[8:])
		return int(low - base), low >= base && low-base < uint64(p.size)
	}
	return 0, false
}
