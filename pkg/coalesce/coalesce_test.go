// SPDX-License-Identifier: Apache-2.0

package coalesce

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"testing"
)

const word = 0x48000007

// TestAgainstModel groups random bursts: interleaved flows, streaks of one, rare
// and frequent changes of everything the rule looks at.
func TestAgainstModel(t *testing.T) {
	for _, size := range []struct{ batch, burst, flows int }{
		{64, 512, 1}, {64, 512, 3}, {64, 512, 40}, {64, 512, 5000}, {1, 512, 5}, {2, 300, 2}, {63, 512, 2}, {7, 1, 1}, {64, 2, 2}, {5, 3, 3}, {64, 1500, 2},
	} {
		t.Run(fmt.Sprintf("batch=%d,burst=%d,flows=%d", size.batch, size.burst, size.flows), func(t *testing.T) {
			for seed := range uint64(40) {
				r := rand.New(rand.NewPCG(seed, 1))
				g := New(size.batch, size.burst)
				for range 5 {
					compare(t, g, randomBurst(r, r.IntN(size.burst)+1, size.flows))
				}
			}
		})
	}
}

func randomBurst(r *rand.Rand, n, flows int) []Record {
	streak := 1 + r.IntN(100) // mean length of a streak of one flow
	odd := 1 + r.IntN(300)    // one in so many records differs in something
	burst := make([]Record, 0, n)
	f, w := 0, uint32(word)
	for range n {
		if r.IntN(streak) == 0 {
			f = r.IntN(flows)
		}
		record := rec(flow(f), w, 1444)
		if r.IntN(odd) == 0 {
			switch r.IntN(7) {
			case 0:
				record = rec(flow(f), w, 4+r.IntN(1440))
			case 1:
				record = rec(flow(f), w, 1444+r.IntN(3))
			case 2:
				w ^= 1 << 24 // another key, from now on
			case 3:
				record = rec(flow(f), w^uint32(r.IntN(3)), 1444)
			case 4:
				record.Flow.TOS ^= 3
			case 5:
				record.Flow.TTL--
			case 6:
				record.Flow.DF = !record.Flow.DF
			}
		}
		burst = append(burst, record)
	}
	return burst
}

// TestRule states what the model says too, by hand: each line is a burst as
// "flow, word, length, traffic class" and the sizes of its batches.
func TestRule(t *testing.T) {
	type r struct {
		flow   int
		word   uint32
		length int
		tos    uint8
	}
	const other = word ^ 1<<24
	repeat := func(n int, one r) (all []r) {
		for range n {
			all = append(all, one)
		}
		return all
	}
	for name, c := range map[string]struct {
		burst []r
		want  []int
	}{
		"one":                              {[]r{{0, word, 100, 0}}, []int{1}},
		"equal":                            {repeat(5, r{0, word, 100, 0}), []int{5}},
		"shorter joins and ends":           {[]r{{0, word, 100, 0}, {0, word, 99, 0}, {0, word, 99, 0}, {0, word, 100, 0}}, []int{2, 1, 1}},
		"longer starts":                    {[]r{{0, word, 100, 0}, {0, word, 101, 0}, {0, word, 101, 0}}, []int{1, 2}},
		"64 end":                           {repeat(130, r{0, word, 100, 0}), []int{64, 64, 2}},
		"63 and a shorter one":             {append(repeat(63, r{0, word, 100, 0}), r{0, word, 50, 0}, r{0, word, 50, 0}), []int{64, 1}},
		"flows interleave":                 {[]r{{0, word, 100, 0}, {1, word, 80, 0}, {0, word, 100, 0}, {1, word, 80, 0}}, []int{2, 2}},
		"another key does not overtake":    {[]r{{0, word, 100, 0}, {0, other, 100, 0}, {0, word, 100, 0}}, []int{1, 1, 1}},
		"another class does not overtake":  {[]r{{0, word, 100, 0}, {0, word, 100, 1}, {0, word, 100, 0}}, []int{1, 1, 1}},
		"another flow disturbs nothing":    {[]r{{0, word, 100, 0}, {1, other, 10, 1}, {0, word, 100, 0}, {1, other, 11, 1}}, []int{2, 1, 1}},
		"one word from two flows is two":   {[]r{{0, word, 100, 0}, {1, word, 100, 0}}, []int{1, 1}},
		"shorter of an ended batch starts": {[]r{{0, word, 100, 0}, {0, word, 50, 0}, {0, word, 40, 0}, {0, word, 40, 0}}, []int{2, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			var burst []Record
			for _, x := range c.burst {
				one := rec(flow(x.flow), x.word, x.length)
				one.Flow.TOS = x.tos
				burst = append(burst, one)
			}
			g := New(MaxBatch, 256)
			var got []int
			for _, b := range g.Group(burst) {
				got = append(got, len(b.Index))
			}
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("batches of %v, want %v", got, c.want)
			}
			compare(t, g, burst)
		})
	}
}

// TestOuterFlowIsBothEnds tells flows apart that differ in one address or port.
func TestOuterFlowIsBothEnds(t *testing.T) {
	base := flow(0)
	burst := []Record{rec(base, word, 100)}
	for _, f := range []func() (src, dst netip.AddrPort){
		func() (src, dst netip.AddrPort) { return netip.AddrPortFrom(base.Src.Addr(), 5), base.Dst },
		func() (src, dst netip.AddrPort) { return base.Src, netip.AddrPortFrom(base.Dst.Addr(), 5) },
		func() (src, dst netip.AddrPort) {
			return netip.AddrPortFrom(base.Src.Addr().Next(), base.Src.Port()), base.Dst
		},
		func() (src, dst netip.AddrPort) {
			return base.Src, netip.AddrPortFrom(base.Dst.Addr().Next(), base.Dst.Port())
		},
		func() (src, dst netip.AddrPort) { return base.Dst, base.Src },
	} {
		x := base
		x.Src, x.Dst = f()
		burst = append(burst, rec(x, word, 100))
	}
	g := New(MaxBatch, 64)
	if got := len(g.Group(burst)); got != len(burst) {
		t.Errorf("%d batches of %d flows", got, len(burst))
	}
	compare(t, g, append(burst, burst...))
}

// TestFlowsCollide has as many flows as the table is made for, so that most of
// them meet others in it, and they differ in one thing each: twice every flow
// must still make one batch of two per flow.
func TestFlowsCollide(t *testing.T) {
	for name, vary := range map[string]func(src, dst *netip.AddrPort, n uint16){
		"source port":         func(src, _ *netip.AddrPort, n uint16) { *src = netip.AddrPortFrom(src.Addr(), n) },
		"destination port":    func(_, dst *netip.AddrPort, n uint16) { *dst = netip.AddrPortFrom(dst.Addr(), n) },
		"source address":      func(src, _ *netip.AddrPort, n uint16) { *src = netip.AddrPortFrom(host(n), src.Port()) },
		"destination address": func(_, dst *netip.AddrPort, n uint16) { *dst = netip.AddrPortFrom(host(n), dst.Port()) },
	} {
		t.Run(name, func(t *testing.T) {
			var burst []Record
			for i := range 512 {
				f := flow(0)
				vary(&f.Src, &f.Dst, uint16(i))
				burst = append(burst, rec(f, word, 100))
			}
			g := New(MaxBatch, 1024)
			if got := len(g.Group(append(burst, burst...))); got != 512 {
				t.Errorf("%d batches of 512 flows", got)
			}
		})
	}
}

func host(n uint16) netip.Addr { return netip.AddrFrom4([4]byte{203, 0, byte(n >> 8), byte(n)}) }

// TestManyFlows fills the table to what it is made for.
func TestManyFlows(t *testing.T) {
	const n = 512
	g := New(MaxBatch, n)
	for round := range 4 {
		var burst []Record
		for i := range n {
			burst = append(burst, rec(flow(round*1000+i), word, 100))
		}
		if got := len(g.Group(burst)); got != n {
			t.Fatalf("%d batches of %d flows", got, n)
		}
		compare(t, g, burst)
	}
}

// TestEpochWraps lets the burst counter overflow: entries left by bursts that
// had the same number must not come back.
func TestEpochWraps(t *testing.T) {
	g := New(MaxBatch, 64)
	r := rand.New(rand.NewPCG(1, 2))
	g.Group(spread(64, 64)) // epoch 1
	g.epoch = math.MaxUint32 - 1
	compare(t, g, spread(2, 4))
	compare(t, g, spread(64, 64))
	if g.epoch != 1 {
		t.Errorf("epoch %d, want 1", g.epoch)
	}
	for range 20 {
		compare(t, g, randomBurst(r, 1+r.IntN(64), 20))
	}
}

func TestEmptyBurst(t *testing.T) {
	if got := New(MaxBatch, 8).Group(nil); len(got) != 0 {
		t.Errorf("%d batches", len(got))
	}
}

func TestLimitsPanic(t *testing.T) {
	for name, f := range map[string]func(){
		"no batch":      func() { New(0, 8) },
		"batch of 65":   func() { New(65, 8) },
		"no burst":      func() { New(64, 0) },
		"burst of 2^16": func() { New(64, 1<<16) },
		"longer burst":  func() { New(64, 1).Group([]Record{rec(flow(0), word, 4), rec(flow(1), word, 4)}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
	compare(t, New(MaxBatch, 1<<15), randomBurst(rand.New(rand.NewPCG(3, 3)), 600, 600))
}

func TestAllocatesNothing(t *testing.T) {
	for _, flows := range []int{1, 64, 512} {
		g := New(MaxBatch, 512)
		burst := spread(flows, 512)
		batches := 0
		if n := testing.AllocsPerRun(100, func() { batches = len(g.Group(burst)) }); n != 0 {
			t.Errorf("%d flows: %v allocations", flows, n)
		}
		if want := max(flows, 512/MaxBatch); batches != want {
			t.Errorf("%d flows: %d batches, want %d", flows, batches, want)
		}
	}
}

// spread makes a burst in which flows take turns.
func spread(flows, n int) []Record {
	var burst []Record
	for i := range n {
		burst = append(burst, rec(flow(i%flows), word, 1444))
	}
	return burst
}

// FuzzGroup reads three bytes per record.
func FuzzGroup(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 9}, uint8(64))
	f.Add([]byte{3, 0, 5, 3, 0, 4, 3, 64, 5, 7, 0x80, 5, 7, 0x80, 5}, uint8(2))
	f.Fuzz(func(t *testing.T, steps []byte, maxBatch uint8) {
		g := New(1+int(maxBatch)%MaxBatch, 400)
		var burst []Record
		for ; len(steps) >= 3 && len(burst) < 400; steps = steps[3:] {
			one := rec(flow(int(steps[0])<<4&0xfff), word^uint32(steps[1]&7)<<22, 4+int(steps[2]))
			one.Flow.TOS, one.Flow.TTL, one.Flow.DF = steps[1]>>3&3, 60+steps[1]>>5&1, steps[1]&0x80 != 0
			burst = append(burst, one)
		}
		compare(t, g, burst)
		compare(t, g, burst)
	})
}

func BenchmarkGroup(b *testing.B) {
	for _, flows := range []int{1, 64, 512} {
		b.Run(fmt.Sprintf("flows=%d", flows), func(b *testing.B) {
			g := New(MaxBatch, 512)
			burst := spread(flows, 512)
			b.ReportAllocs()
			for b.Loop() {
				g.Group(burst)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/512, "ns/record")
		})
	}
}
