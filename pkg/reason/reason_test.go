// SPDX-License-Identifier: Apache-2.0

package reason

import "testing"

func TestLabels(t *testing.T) {
	seen := map[string]Reason{}
	for r := Reason(0); r < Count; r++ {
		label := r.String()
		if label == "" || label == "unknown" {
			t.Errorf("reason %d has no label", r)
		}
		if other, twice := seen[label]; twice {
			t.Errorf("reasons %d and %d share label %s", other, r, label)
		}
		seen[label] = r
		if back, ok := Lookup(label); !ok || back != r {
			t.Errorf("Lookup(%q) = %d, %v, want %d", label, back, ok, r)
		}
	}
	if got := Reason(Count).String(); got != "unknown" {
		t.Errorf("reason past the end is %q", got)
	}
	if _, ok := Lookup("unknown"); ok {
		t.Error("Lookup found a label that no reason has")
	}
	if BadFrame != UnknownPassed+1 {
		t.Errorf("user space's reasons begin at %d, want %d", BadFrame, UnknownPassed+1)
	}
}
