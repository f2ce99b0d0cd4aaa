// SPDX-License-Identifier: Apache-2.0

package wrap

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func TestWindow(t *testing.T) {
	type step struct {
		id, stamp uint32
		after     time.Duration // since the step before
		want      bool
	}
	for name, steps := range map[string][]step{
		"in order":      {{1, 9, 0, true}, {2, 9, 0, true}, {3, 9, 0, true}},
		"id 0":          {{0, 9, 0, false}, {1, 9, 0, true}, {0, 9, 0, false}},
		"twice":         {{1, 9, 0, true}, {1, 9, 0, false}},
		"begins high":   {{0x0f000001, 9, 0, true}, {0x0f000002, 9, 0, true}, {0x0f000001, 9, 0, false}},
		"63 back":       {{100, 9, 0, true}, {37, 9, 0, true}, {37, 9, 0, false}},
		"64 back":       {{100, 9, 0, true}, {36, 9, 0, false}},
		"jump":          {{1, 9, 0, true}, {math.MaxUint32, 9, 0, true}, {1, 9, 0, false}},
		"jump by 63":    {{1, 9, 0, true}, {64, 9, 0, true}, {1, 9, 0, false}, {2, 9, 0, true}},
		"jump by 64":    {{1, 9, 0, true}, {65, 9, 0, true}, {1, 9, 0, false}, {2, 9, 0, true}},
		"15 s late":     {{1, 9, 0, true}, {3, 9, 0, true}, {2, 9, 15 * time.Second, true}},
		"too late":      {{1, 9, 0, true}, {3, 9, 0, true}, {2, 9, 15*time.Second + 1, false}, {4, 9, 0, true}},
		"lower time":    {{5, 9, 0, true}, {6, 8, 0, false}, {6, 9, 0, true}},
		"higher time":   {{5, 9, 0, true}, {1, 10, 0, true}, {6, 9, 0, false}, {1, 10, 0, false}, {2, 10, 0, true}},
		"id 0 and time": {{5, 9, 0, true}, {0, 10, 0, false}, {6, 9, 0, true}},
	} {
		t.Run(name, func(t *testing.T) {
			var w window
			now := moment
			for i, s := range steps {
				now = now.Add(s.after)
				if got := w.accept(s.id, s.stamp, now); got != s.want {
					t.Errorf("step %d, id %d time %d: %v", i, s.id, s.stamp, got)
				}
			}
		})
	}
}

// TestWindowRandom compares with a window that keeps everything.
func TestWindowRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var w window
	type packet struct{ id, stamp uint32 }
	seen := map[packet]bool{}
	stamp, highest := uint32(1), uint32(0)
	for range 200000 {
		p := packet{highest + 5 - min(uint32(r.IntN(90)), highest+4), stamp}
		switch r.IntN(1000) {
		case 0:
			p.stamp++
		case 1:
			p.stamp--
		}
		want := p.stamp > stamp || p.stamp == stamp && !seen[p] && (p.id > highest || highest-p.id < windowSize)
		if got := w.accept(p.id, p.stamp, moment); got != want {
			t.Fatalf("id %d time %d, highest %d of %d: %v", p.id, p.stamp, highest, stamp, got)
		}
		if want {
			if p.stamp > stamp {
				stamp, highest = p.stamp, 0
			}
			seen[p], highest = true, max(highest, p.id)
		}
	}
}
