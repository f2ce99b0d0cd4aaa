// SPDX-License-Identifier: Apache-2.0

package vnet

import (
	"encoding/binary"
	"reflect"
	"testing"
)

// TestFlowDigestCollision looks for flows whose digests are equal, of which there
// are some among so many, and checks that they are told apart.
func TestFlowDigestCollision(t *testing.T) {
	d := tcp4(100)
	first := d.build()
	seen := map[uint32]uint32{}
	found := 0
	for ports := uint32(1); ports < 400000 && found < 3; ports++ {
		binary.BigEndian.PutUint32(first[20:], ports*2654435761)
		var s segment
		s.parse(first)
		other, ok := seen[s.hash]
		if !ok {
			seen[s.hash] = ports * 2654435761
			continue
		}
		found++
		with := func(d inner, ports uint32) []byte {
			d.sport, d.dport = uint16(ports>>16), uint16(ports)
			return d.build()
		}
		packets := [][]byte{
			with(d, other), with(d, ports*2654435761),
			with(d.after(100), other), with(d.after(100), ports*2654435761),
		}
		g := NewGRO(everything)
		add(t, g, packets)
		if got := unitsOf(g); !reflect.DeepEqual(got, [][]int{{0, 2}, {1, 3}}) {
			t.Errorf("units %v", got)
		}
		checkGRO(t, g, packets, everything)
	}
	if found == 0 {
		t.Error("no two digests were equal")
	}
}

func TestSameFlow(t *testing.T) {
	t4, t6, u4, u6 := tcp4(10), tcp6(10), udp4(10), udp6(10)
	u4.dport, u6.dport = t4.dport, t6.dport
	for _, a := range []inner{t4, t6, u4, u6} {
		differ := []inner{t4, t6, u4, u6}
		for _, change := range []func(d *inner){
			func(d *inner) { d.sport ^= 0x100 },
			func(d *inner) { d.dport ^= 1 },
			func(d *inner) { d.src = d.src.Next() },
			func(d *inner) { d.dst = d.dst.Next() },
			func(d *inner) { d.src, d.dst = d.dst, d.src },
		} {
			d := a
			change(&d)
			differ = append(differ, d)
		}
		for i, b := range differ {
			want := i < 4 && b.udp == a.udp && b.src == a.src
			var s segment
			p := s.parse(b.build())
			if got := sameFlow(a.build(), p, &s); got != want {
				t.Errorf("%+v and %+v: %v", a, b, got)
			}
		}
	}
}
