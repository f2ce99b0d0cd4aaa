// SPDX-License-Identifier: Apache-2.0

// Package pool gives clients their tunnel addresses: the ones they had before
// if it can, and remembers them in a file that an operator may read and edit. A
// client's IPv4 and IPv6 address have the same place in their ranges. There is no
// I/O and no clock of its own here.
package pool

import (
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// MaxSize is the most addresses a pool has, stock OpenVPN's limit.
const MaxSize = 65536

// ErrExhausted says that there is no address left for a client.
var ErrExhausted = errors.New("address pool exhausted")

// Config describes a pool. A range that isn't valid is not there. With both, the
// pool has as many places as the smaller one, as with stock OpenVPN.
type Config struct {
	// First and Last are the IPv4 range's ends.
	First, Last netip.Addr
	// Base is the first IPv6 address.
	Base netip.Addr
	// Prefix6 is the network with whose end the IPv6 range ends; not valid: MaxSize
	// addresses from Base.
	Prefix6 netip.Prefix
	// Fixed keeps the addresses that Load reads for the names they are read with, in
	// use or not: ifconfig-pool-persist with 0 seconds. Otherwise they are given to
	// others when nothing else is left.
	Fixed bool
}

// Pool holds the places. It is not safe for concurrent use. Its memory grows with
// the places used so far, not with the ranges.
type Pool struct {
	cfg    Config
	size   int
	narrow bool // IPv6 has the fewer addresses
	fixed  int  // places that belong to a name for good
	places map[int]*place
	byName map[string]int // the place whose name that is; there is only one
	fresh  int            // places before this one are in places
	free   queue          // places that may be given to anybody
	holds  uint64         // how often a place was taken
}

// place is an address, or pair of them, that was used or is remembered for a name.
type place struct {
	at    int
	name  string // whom it is remembered for; "": nobody
	fixed bool
	held  uint64 // which taking holds it; 0: it is free

	since      time.Time // when it was given back
	prev, next *place    // in the queue
}

// Addresses are what a client was given; an invalid one is not there. The zero
// value holds nothing.
type Addresses struct {
	V4, V6 netip.Addr

	at   int
	held uint64
}

// New makes a pool.
func New(cfg Config) (*Pool, error) {
	p := &Pool{cfg: cfg, places: map[int]*place{}, byName: map[string]int{}}
	if cfg.First.IsValid() {
		if !cfg.First.Is4() || !cfg.Last.Is4() {
			return nil, fmt.Errorf("make address pool: %s to %s is no IPv4 range", cfg.First, cfg.Last)
		}
		if cfg.Last.Less(cfg.First) {
			return nil, fmt.Errorf("make address pool: it ends at %s, before its beginning %s", cfg.Last, cfg.First)
		}
		p.size = distance(cfg.First, cfg.Last) + 1
	}
	if cfg.Base.IsValid() {
		size, err := size6(cfg)
		if err != nil {
			return nil, err
		}
		if p.narrow = !cfg.First.IsValid() || size < p.size; p.narrow {
			p.size = size
		}
	}
	p.size = min(p.size, MaxSize)
	return p, nil
}

// Size is the number of places.
func (p *Pool) Size() int { return p.size }

// Acquire gives a client its addresses: those it had, else such that nobody
// had, else those that were given back longest ago. A name of "" has
// no history; a name that has addresses already gets others and is remembered with them.
// The error is ErrExhausted, with what to do.
func (p *Pool) Acquire(name string) (Addresses, error) {
	if at, ok := p.byName[name]; ok && p.places[at].held == 0 {
		return p.take(p.places[at], name), nil
	}
	for ; p.fresh < p.size; p.fresh++ {
		if p.places[p.fresh] == nil {
			return p.take(p.add(p.fresh), name), nil
		}
	}
	if oldest := p.free.first; oldest != nil {
		return p.take(oldest, name), nil
	}
	return Addresses{}, p.exhausted()
}

func (p *Pool) exhausted() error {
	use, widen := "in use", "the network of `server` or the range of ifconfig-pool"
	if p.fixed > 0 {
		use = fmt.Sprintf("in use, or among the %d kept for names in the file of ifconfig-pool-persist", p.fixed)
	}
	if p.narrow {
		widen = "the network of `server-ipv6` or ifconfig-ipv6-pool"
	}
	return fmt.Errorf("%w: all %d are %s; widen %s", ErrExhausted, p.size, use, widen)
}

// Reserve keeps an address that a client's own configuration names from being given to
// others, if it is of the pool and free. Release ends it.
func (p *Pool) Reserve(addr netip.Addr, name string) (Addresses, bool) {
	at, ok := p.index(addr)
	if !ok {
		return Addresses{}, false
	}
	x := p.places[at]
	if x == nil {
		x = p.add(at)
	}
	if x.held != 0 {
		return Addresses{}, false
	}
	return p.take(x, name), true
}

// Release gives addresses back; now is when. It does nothing for such as were given
// back already, also when another client has them now.
func (p *Pool) Release(a Addresses, now time.Time) {
	x := p.places[a.at]
	if x == nil || a.held == 0 || x.held != a.held {
		return
	}
	x.held, x.since = 0, now
	if !x.fixed {
		p.free.insert(x)
	}
}

// add makes a place that is used for the first time.
func (p *Pool) add(at int) *place {
	x := &place{at: at}
	p.places[at] = x
	return x
}

func (p *Pool) take(x *place, name string) Addresses {
	p.free.remove(x)
	p.holds++
	x.held = p.holds
	if !x.fixed {
		p.remember(x, name)
	}
	a := p.addresses(x.at)
	a.at, a.held = x.at, x.held
	return a
}

// remember makes a place the one that a name comes back to, in place of the one before. A
// name with a fixed place keeps that.
func (p *Pool) remember(x *place, name string) {
	if x.name != "" {
		delete(p.byName, x.name)
	}
	x.name = ""
	if name == "" {
		return
	}
	if at, ok := p.byName[name]; ok {
		old := p.places[at]
		if old.fixed {
			return
		}
		old.name = ""
	}
	x.name, p.byName[name] = name, x.at
}
