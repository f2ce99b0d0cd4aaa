// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"testing"
)

// What goes in comes out in order, and memory stays with what is there at once.
func TestQueue(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	var q queue
	var in, out []byte
	for range 5000 {
		if r.IntN(2) == 0 && q.len() < 4000 {
			b := filled(r.IntN(1000), byte(r.Uint32()))
			q.add(b)
			in = append(in, b...)
		} else if q.len() > 0 {
			n := 1 + r.IntN(q.len())
			out = append(out, q.bytes()[:n]...)
			q.gone(n)
		}
		if q.len() != len(in)-len(out) {
			t.Fatalf("%d bytes wait, want %d", q.len(), len(in)-len(out))
		}
		if r.IntN(50) == 0 {
			q.shrink()
		}
	}
	out = append(out, q.bytes()...)
	if !bytes.Equal(in, out) {
		t.Error("bytes differ")
	}
	if cap(q.buf) > 16<<10 {
		t.Errorf("%d bytes of memory for at most 5,000", cap(q.buf))
	}
	q.gone(q.len())
	q.shrink()
	if q.buf != nil {
		t.Error("an empty queue kept its memory")
	}
}

func TestLimits(t *testing.T) {
	l := limits{conns: 5, perPrefix: 2, unproven: map[netip.Prefix]int{}}
	a, b, c := source(netip.MustParseAddr("192.0.2.1")), source(netip.MustParseAddr("2001:db8::1%eth0")), source(netip.MustParseAddr("192.0.2.2"))
	if b != source(netip.MustParseAddr("2001:db8::ffff:0:0:1")) || b == source(netip.MustParseAddr("2001:db8:0:1::1")) || a == c {
		t.Error("a source is an IPv4 address or an IPv6 /64")
	}
	nothing := func() {}
	for i, s := range []struct {
		before   func()
		from     netip.Prefix
		ok, over bool
	}{
		{nothing, a, true, false},
		{nothing, a, true, false},
		{nothing, a, false, false}, // it has its share
		{nothing, b, true, false},
		{func() { l.proven(a) }, a, true, false},
		{nothing, a, false, false},
		{nothing, c, true, false},
		{nothing, b, true, true}, // one more than there may be
		{func() { l.leave(a, true) }, a, false, false},
		{func() { l.leave(a, false) }, a, true, false},
	} {
		s.before()
		if ok, over := l.enter(s.from); ok != s.ok || over != s.over {
			t.Errorf("step %d: %v, %v", i, ok, over)
		}
	}
	for _, left := range []netip.Prefix{a, a, b, b, c} {
		l.leave(left, false)
	}
	if l.count() != 0 || len(l.unproven) != 0 {
		t.Errorf("%d connections, sources %v", l.count(), l.unproven)
	}
}
