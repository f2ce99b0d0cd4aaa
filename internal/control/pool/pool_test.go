// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func newPool(t *testing.T, first, last, base string) *Pool {
	t.Helper()
	var c Config
	if first != "" {
		c.First, c.Last = addr(first), addr(last)
	}
	if base != "" {
		c.Base = addr(base)
	}
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func acquire(t *testing.T, p *Pool, name string) Addresses {
	t.Helper()
	a, err := p.Acquire(name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestAddressesGoTogether(t *testing.T) {
	p := newPool(t, "10.8.0.2", "10.8.0.254", "fd00:8::1000")
	for n := range 3 {
		a := acquire(t, p, fmt.Sprint("c", n))
		if a.V4 != addr(fmt.Sprintf("10.8.0.%d", 2+n)) || a.V6 != addr(fmt.Sprintf("fd00:8::%x", 0x1000+n)) {
			t.Errorf("client %d got %v %v", n, a.V4, a.V6)
		}
	}
}

func TestReturningClientKeepsItsAddress(t *testing.T) {
	p := newPool(t, "10.8.0.2", "10.8.0.5", "")
	now := time.Unix(1000, 0)
	alice := acquire(t, p, "alice")
	bob := acquire(t, p, "bob")
	p.Release(alice, now)
	if carol := acquire(t, p, "carol"); carol.V4 == alice.V4 {
		t.Error("an address that somebody may come back for was given away before unused ones")
	}
	if again := acquire(t, p, "alice"); again.V4 != alice.V4 {
		t.Errorf("alice had %v and got %v", alice.V4, again.V4)
	}
	p.Release(bob, now)
	p.Release(acquire(t, p, "dora"), now.Add(time.Hour))
	// Nothing is unused any more: the one given back longest ago goes first.
	if eve := acquire(t, p, "eve"); eve.V4 != bob.V4 {
		t.Errorf("eve got %v, bob's was %v", eve.V4, bob.V4)
	}
	if bob2 := acquire(t, p, "bob"); bob2.V4 == bob.V4 {
		t.Error("one address, two clients")
	}
}

func TestExhaustedPool(t *testing.T) {
	p := newPool(t, "10.8.0.2", "10.8.0.3", "")
	acquire(t, p, "a")
	b := acquire(t, p, "b")
	if _, err := p.Acquire("c"); !errors.Is(err, ErrExhausted) || !strings.Contains(err.Error(), "2") {
		t.Errorf("%v", err)
	}
	p.Release(b, time.Unix(1, 0))
	acquire(t, p, "c")
}

// TestSameNameTwice: a name whose address is in use gets another one.
func TestSameNameTwice(t *testing.T) {
	p := newPool(t, "10.8.0.2", "10.8.0.9", "")
	if a, b := acquire(t, p, "x"), acquire(t, p, "x"); a.V4 == b.V4 {
		t.Error("one address, two clients")
	}
	if a, b := acquire(t, p, ""), acquire(t, p, ""); a.V4 == b.V4 {
		t.Error("one address, two clients without a name")
	}
}

func TestReserve(t *testing.T) {
	p := newPool(t, "10.8.0.2", "10.8.0.4", "fd00::")
	a, ok := p.Reserve(addr("10.8.0.3"), "")
	if !ok {
		t.Fatal("a free address cannot be reserved")
	}
	for range 2 {
		if got := acquire(t, p, ""); got.V4 == addr("10.8.0.3") {
			t.Error("a reserved address was given away")
		}
	}
	if _, ok := p.Reserve(addr("10.8.0.3"), ""); ok {
		t.Error("reserved twice")
	}
	for _, outside := range []string{"10.8.0.1", "10.8.0.5", "10.9.0.2", "fd01::1", "fcff:ffff::"} {
		if _, ok := p.Reserve(addr(outside), ""); ok {
			t.Errorf("%s is not in the pool", outside)
		}
	}
	p.Release(a, time.Unix(1, 0))
	if got := acquire(t, p, ""); got.V4 != addr("10.8.0.3") {
		t.Errorf("got %v", got.V4)
	}
}

// TestLargePool has a /8; it is cut, and takes memory for what is used alone.
func TestLargePool(t *testing.T) {
	p := newPool(t, "10.0.0.2", "10.255.255.254", "")
	if p.Size() != MaxSize {
		t.Errorf("%d places", p.Size())
	}
	acquire(t, p, "a")
	if len(p.places) != 1 {
		t.Errorf("%d places are held for one client", len(p.places))
	}
}

// TestIPv6Carry crosses the lower half of the address.
func TestIPv6Carry(t *testing.T) {
	p := newPool(t, "", "", "fd00::ffff:ffff:ffff:ffff")
	acquire(t, p, "a")
	if b := acquire(t, p, "b"); b.V6 != addr("fd00:0:0:1::") {
		t.Errorf("got %v", b.V6)
	}
}

// TestStaleRelease: an old session's end, once or twice, takes nothing from whoever came after it.
func TestStaleRelease(t *testing.T) {
	p := newPool(t, "10.8.0.2", "10.8.0.3", "")
	now := time.Unix(1, 0)
	a := acquire(t, p, "a")
	b := acquire(t, p, "b")
	p.Release(a, now)
	c := acquire(t, p, "c")
	if c.V4 != a.V4 {
		t.Fatalf("c got %v", c.V4)
	}
	p.Release(a, now)
	p.Release(Addresses{}, now)
	if d, err := p.Acquire("d"); err == nil {
		t.Errorf("d got %v, which c or b has", d.V4)
	}
	p.Release(b, now)
	p.Release(b, now)
	acquire(t, p, "e")
	if f, err := p.Acquire("f"); err == nil {
		t.Errorf("f got %v, which e has", f.V4)
	}
}

// TestSmallIPv6 has fewer IPv6 addresses than IPv4: no client may get one outside the network.
func TestSmallIPv6(t *testing.T) {
	const server, server6 = "`server`", "`server-ipv6`"
	for _, test := range []struct {
		first, last, base, prefix string
		size                      int
		remedy                    string
	}{
		{"10.8.0.2", "10.8.0.254", "fd00:8::2", "fd00:8::/124", 14, server6},
		{"", "", "fd00:8::2", "fd00:8::/124", 14, server6},
		{"10.8.0.2", "10.8.0.9", "fd00:8::2", "fd00:8::/124", 8, server},
		{"10.8.0.2", "10.8.0.254", "fd00:8::1000", "fd00:8::/64", 253, server},
		{"", "", "fd00:8::1000", "fd00:8::/64", MaxSize, server6},
		{"", "", "fd00:8::f", "fd00:8::/124", 1, server6},
	} {
		c := Config{Base: addr(test.base), Prefix6: netip.MustParsePrefix(test.prefix)}
		if test.first != "" {
			c.First, c.Last = addr(test.first), addr(test.last)
		}
		p, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		if p.Size() != test.size {
			t.Errorf("%v: %d places, want %d", test, p.Size(), test.size)
		}
		for range p.Size() {
			if a := acquire(t, p, ""); !c.Prefix6.Contains(a.V6) {
				t.Fatalf("%v: client got %v", test, a.V6)
			}
		}
		if _, err = p.Acquire(""); !errors.Is(err, ErrExhausted) || !strings.Contains(err.Error(), test.remedy) {
			t.Errorf("%v: %v, want one that names %s", test, err, test.remedy)
		}
	}
}

func TestWrongRange(t *testing.T) {
	for what, c := range map[string]Config{
		"ends before it begins":       {First: addr("10.8.0.9"), Last: addr("10.8.0.2")},
		"has no end":                  {First: addr("10.8.0.9")},
		"is IPv6 where it is IPv4":    {First: addr("fd00::1"), Last: addr("fd00::9")},
		"is IPv4 where it is IPv6":    {Base: addr("10.8.0.2")},
		"is not in its IPv6 network":  {Base: addr("fd01::2"), Prefix6: netip.MustParsePrefix("fd00::/64")},
		"is a mapped address as IPv6": {Base: addr("::ffff:10.8.0.2")},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("a range that %s was taken", what)
		}
	}
}

// TestOldestFirst compares with a search through all places, over many clients that come and go.
func TestOldestFirst(t *testing.T) {
	const seed = 7
	random := rand.New(rand.NewPCG(seed, seed))
	p := newPool(t, "10.8.0.1", "10.8.0.20", "")
	type given struct {
		addr  netip.Addr
		since time.Time
		order int
	}
	var held []Addresses
	var free []given
	now := time.Unix(1000, 0)
	for order := range 5000 {
		now = now.Add(time.Duration(random.IntN(3)-1) * time.Second / 2) // clocks may be set back
		if len(held) > 0 && (len(held) == 20 || random.IntN(2) == 0) {
			n := random.IntN(len(held))
			p.Release(held[n], now)
			free = append(free, given{held[n].V4, now, order})
			held = slices.Delete(held, n, n+1)
			continue
		}
		a := acquire(t, p, "")
		held = append(held, a)
		if slices.ContainsFunc(free, func(g given) bool { return g.addr == a.V4 }) {
			oldest := slices.MinFunc(free, func(x, y given) int { return cmp.Or(x.since.Compare(y.since), x.order-y.order) })
			if len(held)+len(free) <= 20 || oldest.addr != a.V4 {
				t.Fatalf("step %d: got %v, the oldest is %v, %d held, %d free", order, a.V4, oldest.addr, len(held)-1, len(free))
			}
			free = slices.DeleteFunc(free, func(g given) bool { return g.addr == a.V4 })
		}
	}
}
