// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"testing"
)

func TestSpreadIsMeasured(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   spread
	}{
		{[]float64{7}, spread{7, 7, 7}},
		{[]float64{3, 1, 2}, spread{2, 1, 3}},
		{[]float64{4, 1, 3, 2}, spread{2, 1, 4}},
	} {
		if got := spreadOf(slices.Clone(c.values)); got != c.want {
			t.Errorf("spread of %v: got %v, want %v", c.values, got, c.want)
		}
	}
}

func names(setups []setup) (names []string) {
	for _, s := range setups {
		names = append(names, s.name)
	}
	return names
}

func TestChoose(t *testing.T) {
	all := allSetups()
	everything, err := choose(slices.Clone(all), nil)
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(names(everything), "ovpn-xdp/xdp-generic") {
		t.Error("xdp-generic is measured without being asked for")
	}
	chosen, err := choose(all, []string{"ovpn-xdp/xdp", "ovpn-xdp/xdp-generic", "none", "ablation/socket", "none"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"ovpn-xdp/xdp", "ovpn-xdp/xdp-generic", "none", "ablation/socket/1-single", "ablation/socket/2-coalesced", "ablation/socket/3-prefetch"}
	if got := names(chosen); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if one, err := choose(all, []string{"ovpn-xdp/xdp"}); err != nil || len(one) != 1 {
		t.Errorf("a whole name chooses %q, %v", names(one), err)
	}
	if _, err := choose(all, []string{"ipsec"}); err == nil {
		t.Error("a name that matches nothing is not refused")
	}
}

func TestCells(t *testing.T) {
	o, err := parse([]string{"--topology", forwarded, "--flows", "1,4", "--direction", down})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := cellsOf(setup{}, o), []cell{{forwarded, 1, down}, {forwarded, 4, down}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := cellsOf(setup{ablation: true}, o), []cell{{local, 1, up}}; !slices.Equal(got, want) {
		t.Errorf("ablation: got %v, want %v", got, want)
	}
	for _, args := range [][]string{{"--topology", "moon"}, {"--direction", "left"}, {"--reps", "0"}, {"--seconds", "0"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%q is not refused", args)
		}
	}
}
