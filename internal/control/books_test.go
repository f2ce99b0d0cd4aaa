// SPDX-License-Identifier: Apache-2.0

package control

import (
	"net/netip"
	"testing"

	"github.com/ovpn-xdp/ovpn-xdp/internal/ovpnconf"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/peer"
)

// client reserves for a session with a client id.
func (b *bed) reserve(cid uint64, name, fixed string) (*lease, error) {
	c := &ovpnconf.Client{}
	if fixed != "" {
		c.Address4 = netip.MustParsePrefix(fixed + "/24")
	}
	return b.svc.books.reserve(&instance{svc: b.svc, cid: cid}, name, c, b.svc.set.Load().conf)
}

// taken returns how many of the pool's addresses cannot be had.
func (b *bed) free() (n int) {
	var held []*lease
	for {
		l, err := b.reserve(1, unnamed, "")
		if err != nil {
			break
		}
		held = append(held, l)
		n++
	}
	for _, l := range held {
		b.svc.books.release(l, peer.ReasonUser)
	}
	return n
}

// TestReplacedLeaseTakesNothing: client-connect of a session that was replaced
// meanwhile may still name an address.
func TestReplacedLeaseTakesNothing(t *testing.T) {
	b := newBed(t)
	all := b.free()
	l, err := b.reserve(1, "alice", "")
	if err != nil {
		t.Fatal(err)
	}
	b.svc.books.release(l, peer.ReasonUser)
	conf := b.svc.set.Load().conf
	if err := b.svc.books.amend(l, &ovpnconf.Client{Address4: netip.MustParsePrefix("10.8.0.9/24")}, conf); err != errNewer {
		t.Errorf("amend: %v", err)
	}
	if err := b.svc.books.enter(l, entry{remote: address(1), local: local.Addr()}); err != errNewer {
		t.Errorf("enter: %v", err)
	}
	b.svc.books.release(l, peer.ReasonUser)
	if n := b.free(); n != all {
		t.Errorf("%d addresses are free, want %d", n, all)
	}
}

// TestNewestSessionOfName wins, whichever comes to its lease first.
func TestNewestSessionOfName(t *testing.T) {
	b := newBed(t)
	l, err := b.reserve(5, "alice", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.reserve(4, "alice", ""); err != errNewer {
		t.Errorf("the older session: %v", err)
	}
	if _, err := b.reserve(6, "alice", ""); err != errRivalry {
		t.Errorf("the newer session, while the older one is there: %v", err)
	}
	b.svc.books.release(l, peer.ReasonUser)
	if l, err = b.reserve(6, "alice", ""); err != nil {
		t.Errorf("the newer session: %v", err)
	}
	b.svc.books.release(l, peer.ReasonUser)
}

// TestFixedAddressIsKept for the client whose file names it, also when another
// one still had it from the pool.
func TestFixedAddressIsKept(t *testing.T) {
	b := newBed(t)
	all := b.free()
	pooled, err := b.reserve(1, "pooled", "")
	if err != nil {
		t.Fatal(err)
	}
	fixed, err := b.reserve(2, "fixed", pooled.v4.String())
	if err != nil {
		t.Fatal(err)
	}
	b.svc.books.release(pooled, peer.ReasonUser)
	if n := b.free(); n != all-1 {
		t.Errorf("%d addresses are free, want all %d but the fixed one", n, all)
	}
	// The one before is remembered for its name, and nevertheless gets another.
	again, err := b.reserve(3, "pooled", "")
	if err != nil || again.v4 == fixed.v4 {
		t.Errorf("%v, %v: the fixed address was given to somebody else", again, err)
	}
	b.svc.books.release(again, peer.ReasonUser)
	b.svc.books.release(fixed, peer.ReasonUser)
	if n := b.free(); n != all {
		t.Errorf("%d addresses are free, want %d", n, all)
	}
}

// TestFixedAddressMovesToLast: who comes last has it; the other one's end doesn't
// take it away.
func TestFixedAddressMovesToLast(t *testing.T) {
	b := newBed(t)
	first, _ := b.reserve(1, "first", "10.8.0.50")
	second, _ := b.reserve(2, "second", "10.8.0.50")
	for _, l := range []*lease{first, second} {
		if err := b.svc.books.enter(l, entry{remote: address(int(l.inst.cid)), local: local.Addr()}); err != nil {
			t.Fatal(err)
		}
	}
	b.logged("moves to the client that came last")
	b.svc.books.release(first, peer.ReasonUser)
	if p := b.peer("10.8.0.50"); p == nil || p != second.peer {
		t.Errorf("%v has the address", p)
	}
	b.svc.books.release(second, peer.ReasonUser)
}
