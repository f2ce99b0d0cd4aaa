// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
)

// model is the window as a list of what was seen: the rules, and no bitmap.
type model struct {
	accepted map[uint32]bool
	highest  uint32
	extent   uint32
	floor    uint32
	expire   int64
}

func (m *model) accept(id uint32, now int64) bool {
	if id == 0 {
		return false
	}
	if now >= m.expire {
		m.floor = m.highest
	}
	switch {
	case id > m.highest:
		jump := uint64(id) - uint64(m.highest)
		m.extent = uint32(min(uint64(m.extent)+jump, 2048))
		m.highest = id
	case m.highest-id >= m.extent, id <= m.floor, m.accepted[id]:
		return false
	}
	m.accepted[id] = true
	m.expire = now + 30_000_000_000
	return true
}

// compare feeds both the same ids and times and stops at the first difference.
func compare(t *testing.T, next func() (id uint32, now int64, ok bool)) (accepted, refused int) {
	t.Helper()
	var w Window
	m := model{accepted: map[uint32]bool{}}
	for i := 0; ; i++ {
		id, now, ok := next()
		if !ok {
			return accepted, refused
		}
		could := w.Check(id)
		got, want := w.Accept(id, now), m.accept(id, now)
		if got != want || w.Highest() != m.highest {
			t.Fatalf("step %d, id %d, time %d: accepted %v, want %v; highest %d, want %d", i, id, now, got, want, w.Highest(), m.highest)
		}
		if got && !could {
			t.Fatalf("step %d, id %d: accepted although the check had said never", i, id)
		}
		if got {
			accepted++
		} else {
			refused++
		}
	}
}

func TestAgainstModel(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 7))
		top, now, left := int64(0), int64(0), 20000
		if seed%5 == 4 {
			top = math.MaxUint32 - 30000 // comes to the end of the ids
		}
		accepted, refused := compare(t, func() (uint32, int64, bool) {
			left--
			switch r.IntN(1000) {
			case 0:
				now += int64(r.IntN(40)) * 1e9
			case 1, 2:
				top += int64(r.IntN(5000))
			case 3:
				top += Size - 2 + int64(r.IntN(4))
			}
			now += int64(r.IntN(2_000_000))
			var id int64
			switch r.IntN(4) {
			case 0:
				id = top - int64(r.IntN(2200))
			case 1:
				id = top - int64(r.IntN(70))
			default:
				top++
				id = top
			}
			return uint32(min(max(id, 0), math.MaxUint32)), now, left > 0
		})
		if accepted == 0 || refused == 0 {
			t.Fatalf("seed %d: %d accepted, %d refused", seed, accepted, refused)
		}
	}
}

type step struct {
	id   uint32
	at   float64 // seconds
	want bool
}

func TestRules(t *testing.T) {
	for name, steps := range map[string][]step{
		"zero":                          {{0, 1, false}, {1, 1, true}, {0, 1, false}},
		"in order":                      {{1, 0, true}, {2, 0, true}, {3, 0, true}, {3, 0, false}, {1, 0, false}},
		"first id may be any":           {{4000000000, 0, true}, {4000000000, 0, false}, {3999999999, 0, true}},
		"before the first":              {{100, 0, true}, {1, 0, true}, {99, 0, true}, {1, 0, false}},
		"edge":                          {{5000, 0, true}, {5000 - 2047, 0, true}, {5000 - 2048, 0, false}},
		"first jump of less than 2048":  {{2047, 0, true}, {1, 0, true}, {2048, 0, true}, {1, 0, false}, {2, 0, true}},
		"jump clears what it skips":     {{1, 0, true}, {2, 0, true}, {2000, 0, true}, {3, 0, true}, {2, 0, false}, {1999, 0, true}},
		"ring slot taken over":          {{1, 0, true}, {2049, 0, true}, {2, 0, true}, {1, 0, false}, {2050, 0, true}, {2, 0, false}},
		"just before patience ends":     {{10, 0, true}, {12, 0, true}, {11, 29.999999999, true}},
		"patience ends":                 {{10, 0, true}, {12, 0, true}, {11, 30, false}, {13, 30, true}, {11, 30, false}, {12, 30, false}},
		"floor stays":                   {{10, 0, true}, {12, 0, true}, {20, 30, true}, {12, 31, false}, {11, 31, false}, {13, 31, true}},
		"old id extends patience":       {{10, 0, true}, {12, 0, true}, {11, 29, true}, {9, 58, true}, {8, 88, false}},
		"refused does not extend":       {{10, 0, true}, {10, 20, false}, {9, 31, false}},
		"last ids":                      {{math.MaxUint32 - 1, 0, true}, {math.MaxUint32, 0, true}, {math.MaxUint32, 0, false}, {1, 0, false}, {0, 0, false}},
		"first time far from zero":      {{1, 1e9, true}, {2, 1e9, true}, {2, 1e9, false}, {4, 1e9, true}, {3, 1e9, true}},
		"jump of exactly the size":      {{1, 0, true}, {2049, 0, true}, {2, 0, true}, {1, 0, false}},
		"jump of the size minus one":    {{1, 0, true}, {2048, 0, true}, {1, 0, false}, {2, 0, true}},
		"jump of more than the size":    {{7, 0, true}, {7 + 2048*3, 0, true}, {8 + 2048*2, 0, true}, {7 + 2048*2, 0, false}},
		"refused jump leaves no traces": {{5, 0, true}, {0, 0, false}, {6, 0, true}, {4, 0, true}},
	} {
		t.Run(name, func(t *testing.T) {
			var w Window
			for i, s := range steps {
				if got := w.Accept(s.id, int64(s.at*1e9)); got != s.want {
					t.Fatalf("step %d, id %d at %v s: accepted %v", i, s.id, s.at, got)
				}
			}
		})
	}
}

// TestCheckCommitsNothing asks about many ids and then accepts them all the same.
func TestCheckCommitsNothing(t *testing.T) {
	var w Window
	w.Accept(1000, 0)
	before := w
	for id := range uint32(5000) {
		w.Check(id)
	}
	if w != before {
		t.Fatal("the window changed")
	}
	if w.Check(0) || w.Check(1000) || !w.Check(999) || !w.Check(1001) {
		t.Error("wrong answers")
	}
}

func FuzzWindow(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 1, 0}, uint32(0))
	f.Add([]byte{1, 8, 0, 0, 30, 0x80, 1, 0, 1, 0}, uint32(math.MaxUint32-5000))
	f.Fuzz(func(t *testing.T, steps []byte, start uint32) {
		id, now := start, int64(0)
		compare(t, func() (uint32, int64, bool) {
			if len(steps) < 4 {
				return 0, 0, false
			}
			id += uint32(int16(binary.BigEndian.Uint16(steps)))
			if steps[2] > 250 {
				id += uint32(steps[2]) << 22
			}
			now += int64(steps[3]) * 200_000_000
			steps = steps[4:]
			return id, now, true
		})
	})
}

func TestAllocatesNothing(t *testing.T) {
	w := new(Window)
	id := uint32(0)
	if n := testing.AllocsPerRun(1000, func() {
		id += 3
		w.Accept(id, int64(id))
		w.Accept(id-1, int64(id))
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if w.Highest() != id {
		t.Errorf("highest %d, want %d", w.Highest(), id)
	}
}

func BenchmarkAccept(b *testing.B) {
	var w Window
	id := uint32(0)
	for b.Loop() {
		id++
		w.Accept(id, int64(id))
	}
}
