// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"errors"
	"fmt"
	"net/netip"
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

func TestPersistence(t *testing.T) {
	p := newPool(t, "10.8.0.2", "10.8.0.9", "fd00::10")
	for _, name := range []string{"alice", "bad,name", "line\nbreak", "#no", "bob smith"} {
		acquire(t, p, name)
	}
	text := string(p.Dump())
	if want := "alice,10.8.0.2,fd00::10\nbob smith,10.8.0.6,fd00::14\n"; text != want {
		t.Errorf("file\n%s, want\n%s", text, want)
	}
	q := newPool(t, "10.8.0.2", "10.8.0.9", "fd00::10")
	if why := q.Load(strings.NewReader(text)); why != nil {
		t.Errorf("complaints %q", why)
	}
	if a := acquire(t, q, "somebody"); a.V4 != addr("10.8.0.3") {
		t.Errorf("a stranger got %v, which is remembered for another", a.V4)
	}
	if a := acquire(t, q, "bob smith"); a.V4 != addr("10.8.0.6") || a.V6 != addr("fd00::14") {
		t.Errorf("bob smith got %v %v", a.V4, a.V6)
	}
}

func TestPersistenceOfOthers(t *testing.T) {
	p := newPool(t, "10.8.0.2", "10.8.0.9", "")
	complaints := p.Load(strings.NewReader("\n# comment\nalice,10.8.0.3\nbob,10.8.0.4,\ncarol,10.9.0.1\nalice,10.8.0.5\ndora,10.8.0.3\nno address\n,10.8.0.6\ne,x\nf,10.8.0.7,10.8.0.8\n"))
	if len(complaints) != 7 {
		t.Errorf("%d complaints: %q", len(complaints), complaints)
	}
	for name, want := range map[string]string{"alice": "10.8.0.3", "bob": "10.8.0.4"} {
		if a := acquire(t, p, name); a.V4 != addr(want) {
			t.Errorf("%s got %v", name, a.V4)
		}
	}
	if why := p.Load(strings.NewReader(strings.Repeat("x", 10_000))); len(why) != 1 {
		t.Errorf("a line of 10,000 bytes: %q", why)
	}
}

func TestWrongRange(t *testing.T) {
	if _, err := New(Config{First: addr("10.8.0.9"), Last: addr("10.8.0.2")}); err == nil {
		t.Error("a range that ends before it begins was taken")
	}
}

func FuzzLoad(f *testing.F) {
	f.Add("alice,10.8.0.2,fd00::10\nbob,10.8.0.3\n")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := New(Config{First: addr("10.8.0.2"), Last: addr("10.8.0.9"), Base: addr("fd00::10")})
		if err != nil {
			t.Fatal(err)
		}
		p.Load(strings.NewReader(text))
		dumped := p.Dump()
		q, _ := New(p.cfg)
		if why := q.Load(strings.NewReader(string(dumped))); why != nil {
			t.Fatalf("our own file: %q\n%q", why, dumped)
		}
		seen := map[netip.Addr]bool{}
		for range p.Size() {
			a, err := p.Acquire("")
			if err != nil || seen[a.V4] {
				t.Fatalf("%v %v", a.V4, err)
			}
			seen[a.V4] = true
		}
	})
}
