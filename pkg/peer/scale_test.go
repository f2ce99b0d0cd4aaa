// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/aead"
)

// spread returns n distinct peer ids: 0 to n-1, or random ones of 24 bits.
func spread(n int, random bool) []uint32 {
	ids := make([]uint32, 0, n)
	r := rand.New(rand.NewPCG(1, 1))
	seen := make(map[uint32]bool, n)
	for i := 0; len(ids) < n; i++ {
		id := uint32(i)
		if random {
			id = uint32(r.IntN(1<<24 - 1))
		}
		if !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids
}

// fill adds one peer per id, each with an endpoint, an IPv4 and an IPv6 prefix
// and, if asked, two keys.
func fill(tb testing.TB, ids []uint32, keys bool) *Table {
	table := NewTable(false, nil)
	for i, id := range ids {
		four, six := inner(i)
		p := mustAdd(tb, table, Config{
			ID:       id,
			Remote:   netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)}), 1194),
			Prefixes: []netip.Prefix{netip.PrefixFrom(four, 32), netip.PrefixFrom(six, 64).Masked()},
			Interval: 10 * time.Second,
			Timeout:  60 * time.Second,
		}, 0)
		if keys {
			mustSet(tb, p, Primary, newKey(tb, 1, aead.AES256GCM))
			mustSet(tb, p, Secondary, newKey(tb, 2, aead.AES256GCM))
		}
	}
	return table
}

// inner returns the inside addresses of peer i.
func inner(i int) (four, six netip.Addr) {
	return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}),
		netip.AddrFrom16([16]byte{0xfd, 5: byte(i >> 16), 6: byte(i >> 8), 7: byte(i), 15: 1})
}

// TestMemoryPerIdlePeer measures what 10,000 peers with two keys each take.
func TestMemoryPerIdlePeer(t *testing.T) {
	const n, limit = 10_000, 16 << 10
	for name, random := range map[string]bool{"consecutive ids": false, "random ids": true} {
		t.Run(name, func(t *testing.T) {
			ids := spread(n, random)
			before := heap()
			table := fill(t, ids, true)
			each := (heap() - before) / n
			t.Logf("%d bytes per peer", each)
			if each <= 0 || each >= limit {
				t.Errorf("%d bytes per peer, want less than %d", each, limit)
			}
			for i, id := range ids {
				four, six := inner(i)
				if p := table.Lookup(id); p == nil || table.Route(four) != p || table.Route(six) != p || p.KeyIDs() != 6 {
					t.Fatalf("peer %d is not found", id)
				}
			}
			for _, id := range ids {
				if err := table.Remove(id, ReasonUser); err != nil {
					t.Fatal(err)
				}
			}
			// The map of peers keeps its buckets, the tree its middle nodes.
			if left := heap() - before; left > 2<<20 {
				t.Errorf("%d bytes are left when all peers are gone", left)
			}
			runtime.KeepAlive(table)
		})
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

var sizes = []int{1, 100, 10_000}

// benchmarkLookup runs one look-up over all peers of a table in random order.
func benchmarkLookup(b *testing.B, look func(t *Table, id uint32, four, six netip.Addr) *Peer) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("peers=%d", n), func(b *testing.B) {
			ids := spread(n, true)
			table := fill(b, ids, false)
			order := rand.New(rand.NewPCG(2, 2)).Perm(n)
			type question struct {
				id        uint32
				four, six netip.Addr
			}
			questions := make([]question, n)
			for i, at := range order {
				q := &questions[i]
				q.id = ids[at]
				q.four, q.six = inner(at)
			}
			i := 0
			for b.Loop() {
				q := &questions[i]
				if look(table, q.id, q.four, q.six) == nil {
					b.Fatal("not found")
				}
				if i++; i == n {
					i = 0
				}
			}
		})
	}
}

func BenchmarkLookup(b *testing.B) {
	benchmarkLookup(b, func(t *Table, id uint32, _, _ netip.Addr) *Peer { return t.Lookup(id) })
}

func BenchmarkRoute4(b *testing.B) {
	benchmarkLookup(b, func(t *Table, _ uint32, four, _ netip.Addr) *Peer { return t.Route(four) })
}

func BenchmarkRoute6(b *testing.B) {
	benchmarkLookup(b, func(t *Table, _ uint32, _, six netip.Addr) *Peer { return t.Route(six) })
}

func BenchmarkAdd(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("peers=%d", n), func(b *testing.B) {
			ids := spread(n, true)
			for b.Loop() {
				fill(b, ids, false)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/peer")
		})
	}
}

func BenchmarkTick(b *testing.B) {
	table := fill(b, spread(10_000, true), false)
	for b.Loop() {
		table.Tick(10*second, func(*Peer) {})
	}
}

func BenchmarkReserve(b *testing.B) {
	k := newKey(b, 0, aead.ChaCha20Poly1305)
	for b.Loop() {
		k.Reserve(1, 90)
		k.next.Store(1)
	}
}

func BenchmarkCommit(b *testing.B) {
	k := newKey(b, 0, aead.AES128GCM)
	ids, ok := make([]uint32, 64), make([]bool, 64)
	next := uint32(0)
	for b.Loop() {
		for i := range ids {
			next++
			ids[i], ok[i] = next, true
		}
		k.Commit(ids, ok, 0)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/64, "ns/record")
}
