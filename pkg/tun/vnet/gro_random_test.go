// SPDX-License-Identifier: Apache-2.0

package vnet

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

// randomStream makes count packets of a few flows that mostly go on as they
// should, with every kind of disturbance now and then.
func randomStream(r *rand.Rand, flows, count int) [][]byte {
	state := make([]inner, flows)
	size := make([]int, flows)
	for i := range state {
		size[i] = 1 + r.IntN(60)
		state[i] = []inner{tcp4(size[i]), tcp6(size[i]), udp4(size[i]), udp6(size[i])}[r.IntN(4)]
		state[i].sport += uint16(i)
		state[i].df = r.IntN(2) == 0
		state[i].seq = r.Uint32()
	}
	var out [][]byte
	i := 0
	for len(out) < count {
		if r.IntN(4) == 0 {
			i = r.IntN(flows)
		}
		d := &state[i]
		odd := *d
		wrong := -1
		switch r.IntN(60) {
		case 0:
			odd.flags |= 0x08
		case 1:
			odd.flags |= 0x01
		case 2:
			odd.flags ^= 1 << r.IntN(8)
		case 3:
			odd.id += uint16(r.IntN(3)) - 1
		case 4:
			odd.ttl--
		case 5:
			odd.tos ^= 1
		case 6:
			odd.ack += uint32(r.IntN(2))
		case 7:
			odd.window++
		case 8:
			odd.payload = nil
		case 9:
			size[i] = 1 + r.IntN(60)
		case 10:
			odd.payload = odd.payload[:r.IntN(len(odd.payload)+1)]
		case 11:
			odd.seq += uint32(r.IntN(3)) - 1
		case 12:
			odd.label ^= 1
		case 13:
			odd.df = !odd.df
		case 14:
			odd.tcpOptions = bytesFrom(r.IntN(9), r.IntN(4)*4)
		case 15:
			odd.options = []byte{1, 1, 1, 1}
		case 16:
			odd.extension = []byte{6, 0, 1, 4, 0, 0, 0, 0}
		case 17, 18:
			wrong = r.IntN(1000)
		case 19:
			odd.dport = 4789
		}
		if !odd.src.Is4() {
			odd.options = nil
		} else {
			odd.extension = nil
		}
		if odd.udp {
			odd.tcpOptions = nil
		}
		p := odd.build()
		if wrong >= 0 {
			p[wrong%len(p)] ^= 1 << r.IntN(8)
		}
		if r.IntN(100) == 0 {
			p = p[:r.IntN(len(p)+1)]
		}
		if r.IntN(50) == 0 {
			p = append(p, bytesFrom(1, r.IntN(20))...)
		}
		out = append(out, p)
		fixed := d.id
		*d = d.after(size[i])
		if i%3 == 0 && d.df {
			d.id = fixed
		}
	}
	return out
}

func TestGROAgainstSlow(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	g := NewGRO(everything)
	merged := 0
	for round := range 400 {
		o := everything
		switch r.IntN(8) {
		case 0:
			o.TSO = false
		case 1:
			o.USO = false
		case 2:
			o.MaxPackets = 1 + r.IntN(8)
		}
		g.SetOptions(o)
		// Four flows at most, so that none is ever pushed out of the table.
		packets := randomStream(r, 1+r.IntN(4), 1+r.IntN(250))
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			add(t, g, packets)
			checkGRO(t, g, packets, o)
		})
		merged += len(packets) - g.Units()
	}
	if merged < 10000 {
		t.Errorf("only %d packets were merged", merged)
	}
}

// TestGROManyFlows has far more flows than the table holds. What is merged then
// is left open, but no packet may be lost, changed, or overtaken in its flow.
func TestGROManyFlows(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 24))
	g := NewGRO(everything)
	for range 40 {
		packets := randomStream(r, 30+r.IntN(200), Capacity)
		add(t, g, packets)
		place := make([]int, len(packets)) // the unit of each packet
		seen := 0
		for i, list := range unitsOf(g) {
			last := -1
			for _, at := range list {
				if at <= last {
					t.Fatal("order changed inside a unit")
				}
				place[at], last = i, at
				seen++
			}
			h, pkt, _ := written(g, i)
			if len(list) > 1 {
				checkHeader(t, h, pkt)
				for k, p := range slowSegments(h, pkt, int(h.HdrLen)) {
					// Everything behind the IP header; ids that stay grow here.
					l3 := int(h.CsumStart)
					if original := packets[list[k]]; !bytes.HasPrefix(original[l3:], p[l3:]) {
						t.Fatalf("unit %d, packet %d changed", i, k)
					}
				}
			}
			checkSingles(t, g, i, list, packets)
		}
		if seen != len(packets) {
			t.Fatalf("%d packets in units, %d added", seen, len(packets))
		}
		lastOf := map[string]int{}
		barrier, highest := -1, -1
		for at, p := range packets {
			f := study(p)
			if place[at] <= barrier {
				t.Fatalf("packet %d overtook one without a flow", at)
			}
			if !f.flow {
				if place[at] <= highest {
					t.Fatalf("packet %d without a flow overtook another", at)
				}
				barrier = place[at]
			} else {
				if last, ok := lastOf[f.key]; ok && place[at] < last {
					t.Fatalf("packet %d overtook one of its flow", at)
				}
				lastOf[f.key] = place[at]
			}
			highest = max(highest, place[at])
		}
	}
}

func FuzzGRO(f *testing.F) {
	f.Add(uint64(1), uint16(50), []byte{})
	f.Add(uint64(2), uint16(200), []byte{3, 0, 33, 8, 7, 0, 10, 1})
	f.Fuzz(func(t *testing.T, seed uint64, count uint16, changes []byte) {
		r := rand.New(rand.NewPCG(seed, 5))
		packets := randomStream(r, 1+int(seed%4), 1+int(count%300))
		for ; len(changes) >= 4; changes = changes[4:] {
			p := packets[int(changes[0])%len(packets)]
			if at := int(changes[1])<<8 | int(changes[2]); len(p) > 0 {
				p[at%len(p)] ^= changes[3]
			}
		}
		g := NewGRO(everything)
		add(t, g, packets)
		checkGRO(t, g, packets, everything)
	})
}

// FuzzGROBytes gives bytes as they are: one length byte in front of each packet.
func FuzzGROBytes(f *testing.F) {
	var seed []byte
	for _, p := range append(stream(tcp4(20), 4, 20), stream(udp6(20), 4, 20)...) {
		seed = append(append(seed, byte(len(p))), p...)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, b []byte) {
		var packets [][]byte
		for len(b) > 0 && len(packets) < 200 {
			n := min(int(b[0]), len(b)-1)
			packets = append(packets, b[1:1+n])
			b = b[1+n:]
		}
		g := NewGRO(everything)
		add(t, g, packets)
		seen := 0
		for i, list := range unitsOf(g) {
			_, _, n := written(g, i)
			seen += n
			checkSingles(t, g, i, list, packets)
		}
		if seen != len(packets) {
			t.Fatalf("%d of %d packets", seen, len(packets))
		}
	})
}

func TestGROAllocatesNothing(t *testing.T) {
	g := NewGRO(everything)
	packets := append(stream(tcp4(1000), 200, 1000), stream(udp6(1000), 200, 1000)...)
	pristine := make([][]byte, len(packets))
	for i, p := range packets {
		pristine[i] = bytes.Clone(p)
	}
	pieces := make([][]byte, 0, 2+MaxPackets)
	total := 0
	if n := testing.AllocsPerRun(20, func() {
		g.Reset()
		for i, p := range packets {
			copy(p, pristine[i])
			g.Add(p)
		}
		for i := range g.Units() {
			out, n := g.Unit(i, pieces)
			total += n + len(out)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if total == 0 {
		t.Error("nothing came out")
	}
}

func BenchmarkGRO(b *testing.B) {
	for _, size := range []int{64, 576, 1420} {
		for name, d := range map[string]inner{"TCPv4": tcp4(size - 52), "TCPv6": tcp6(max(1, size-72)), "UDPv4": udp4(size - 28)} {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				packets := stream(d, 64, len(d.payload))
				g := NewGRO(everything)
				pieces := make([][]byte, 0, 2+MaxPackets)
				i := 0
				for b.Loop() {
					g.Add(packets[i])
					if i++; i == len(packets) {
						for u := range g.Units() {
							g.Unit(u, pieces)
							// As the packets are added again.
							g.units[u].restore(g.packets[g.units[u].first])
						}
						g.Reset()
						i = 0
					}
				}
			})
		}
	}
}
