// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"bytes"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/aead"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/record"
)

// TestDirections seals at one end and opens at the other: which half sends, with
// which IV, and from which id.
func TestDirections(t *testing.T) {
	for _, c := range aead.Ciphers() {
		here := KeyConfig{ID: 2, Cipher: c, Send: bytes.Repeat([]byte{1}, c.KeyLen()), Receive: bytes.Repeat([]byte{2}, c.KeyLen()),
			SendIV: [8]byte{3}, RecvIV: [8]byte{4}, NextPacketID: 500}
		there := KeyConfig{ID: 2, Cipher: c, Send: here.Receive, Receive: here.Send, SendIV: here.RecvIV, RecvIV: here.SendIV}
		a, errA := NewKey(here)
		b, errB := NewKey(there)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		for _, way := range []struct {
			from, to *Key
			id       uint32
		}{{a, b, 500}, {b, a, 1}} {
			id, use, _ := way.from.Reserve(1, 1)
			if id != way.id || use != Fine {
				t.Fatalf("%s: id %d, want %d", c, id, way.id)
			}
			plain := []byte("inner packet")
			dst := make([]byte, record.Overhead+len(plain), record.Overhead+len(plain)+16)
			way.from.Sealer().Seal(aead.NewScratch(), []aead.SealItem{{Dst: dst, Word: record.Word(record.DataV2, 2, 7), PacketID: id,
				Buf: slices.Clone(plain), Len: len(plain)}}, 0)
			ok := []bool{false}
			if way.to.Opener().Open(aead.NewScratch(), [][]byte{dst}, ok, 0) != 1 || !bytes.Equal(dst[record.Overhead:], plain) {
				t.Errorf("%s: the other end does not open it", c)
			}
		}
	}
}

func TestReserveCountsUp(t *testing.T) {
	k := newKey(t, 0, aead.AES128GCM)
	next := uint32(1)
	for _, n := range []int{1, 64, 3, 1} {
		first, use, why := k.Reserve(n, 0)
		if first != next || use != Fine || why != "" {
			t.Fatalf("first %d, use %d %q, want %d", first, use, why, next)
		}
		next += uint32(n)
		if k.NextPacketID() != uint64(next) {
			t.Fatalf("next %d, want %d", k.NextPacketID(), next)
		}
	}
}

// TestReserveConcurrently takes ids from many goroutines: together they must be
// all ids from 1 on, each once.
func TestReserveConcurrently(t *testing.T) {
	const workers, each = 16, 2000
	k := newKey(t, 0, aead.AES256GCM)
	taken := make([][]uint32, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				n := 1 + (w+i)%5
				first, use, _ := k.Reserve(n, 1)
				if use != Fine {
					t.Errorf("use %d", use)
				}
				for id := range uint32(n) {
					taken[w] = append(taken[w], first+id)
				}
			}
		})
	}
	wg.Wait()
	all := slices.Concat(taken...)
	slices.Sort(all)
	for i, id := range all {
		if id != uint32(i)+1 {
			t.Fatalf("id %d at place %d", id, i)
		}
	}
	if k.NextPacketID() != uint64(len(all))+1 {
		t.Errorf("next id %d after %d", k.NextPacketID(), len(all))
	}
}

// TestPacketIDsEnd goes over the end of the ids: the last one is given out, none
// twice, and what does not fit kills the key.
func TestPacketIDsEnd(t *testing.T) {
	for name, c := range map[string]struct {
		next  uint64
		n     int
		first uint32
		use   Use
	}{
		"up to the last":        {math.MaxUint32 - 9, 10, math.MaxUint32 - 9, Fine},
		"the last":              {math.MaxUint32, 1, math.MaxUint32, Fine},
		"one too many":          {math.MaxUint32 - 9, 11, 0, Spent},
		"none left":             {math.MaxUint32 + 1, 1, 0, Spent},
		"none left for long":    {math.MaxUint32 + 1<<40, 64, 0, Spent},
		"far over":              {math.MaxUint32 - 1, 1 << 16, 0, Spent},
		"a whole burst to last": {math.MaxUint32 - 65535, 65536, math.MaxUint32 - 65535, Fine},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKey(t, 0, aead.ChaCha20Poly1305)
			k.next.Store(c.next)
			k.wanted.Store(true) // asked for long before
			first, use, why := k.Reserve(c.n, 0)
			if first != c.first || use != c.use || (use == Spent) != (why == WhyPacketID) {
				t.Fatalf("first %d, use %d %q", first, use, why)
			}
			if k.NextPacketID() != c.next+uint64(c.n) {
				t.Errorf("next id %d: the rest was not burnt", k.NextPacketID())
			}
		})
	}
}

// TestPacketIDsEndConcurrently lets many goroutines run into the end: every id
// is given out at most once and nobody gets one beyond it.
func TestPacketIDsEndConcurrently(t *testing.T) {
	table, heard := newTable(false)
	p := mustAdd(t, table, Config{ID: 7}, 0)
	k := newKey(t, 0, aead.AES128GCM)
	mustSet(t, p, Primary, k) // the secondary slot stays empty
	heard.take()
	const left = 1000
	k.next.Store(math.MaxUint32 + 1 - left)
	var seen [left]uint8
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				first, use, why := k.Reserve(3, 0)
				p.Used(k, use, why)
				if use == Spent {
					continue
				}
				mu.Lock()
				for i := range uint32(3) {
					seen[first+i-uint32(math.MaxUint32+1-left)]++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	given := 0
	for i, n := range seen {
		if n > 1 {
			t.Fatalf("id %d was given out %d times", uint64(math.MaxUint32+1-left+i), n)
		}
		given += int(n)
	}
	if given != left/3*3 {
		t.Errorf("%d ids given out, want %d", given, left/3*3)
	}
	if p.PrimaryKey() != nil || p.Key(Primary) != nil || p.Key(Secondary) != nil || p.KeyIDs() != 0 {
		t.Error("the exhausted key is still there")
	}
	events, changed := heard.take()
	slices.Sort(events)
	if want := "[key_wanted 7 key 0 packet_id key_wanted 7 key 0 packet_id killed]"; fmt.Sprint(events) != want {
		t.Errorf("events %v, want %s", events, want)
	}
	if len(changed) != 1 {
		t.Errorf("%d changes", len(changed))
	}
}

func TestKeyIsWantedOnce(t *testing.T) {
	table, heard := newTable(false)
	p := mustAdd(t, table, Config{ID: 7}, 0)
	k := newKey(t, 4, aead.ChaCha20Poly1305)
	mustSet(t, p, Primary, k)
	heard.take()
	k.next.Store(wantPacketID - 1)
	for i, want := range []Use{Fine, Wanted, Fine, Fine} {
		_, use, why := k.Reserve(1, 0)
		p.Used(k, use, why)
		if use != want {
			t.Errorf("reservation %d, id %#x: use %d, want %d", i, wantPacketID-1+i, use, want)
		}
	}
	heard.want(t, nil, "key_wanted 7 key 4 packet_id")
	if p.PrimaryKey() != k {
		t.Error("the key does not send any more")
	}
	if use := k.Failed(wantFailures); use != Fine {
		t.Errorf("failures ask for a key again: use %d", use)
	}
}

func TestUsageLimit(t *testing.T) {
	if wantGCMUsage != 60129542137 { // as OpenVPN 2.7 logs it
		t.Errorf("7/8 of the limit is %d", uint64(wantGCMUsage))
	}
	const limit = 1<<36 - 1
	for _, c := range aead.Ciphers() {
		for name, use := range map[string]func(k *Key, n uint64) (Use, string){
			"sending":   func(k *Key, n uint64) (Use, string) { _, u, why := k.Reserve(1, n-1); return u, why },
			"receiving": func(k *Key, n uint64) (Use, string) { return k.Opened(1, n-1), WhyUsage },
		} {
			t.Run(fmt.Sprint(c, " ", name), func(t *testing.T) {
				k := newKey(t, 0, c)
				for _, step := range []struct {
					n    uint64
					want Use
				}{{wantGCMUsage, Fine}, {1, Wanted}, {1, Fine}, {limit - wantGCMUsage - 2, Fine}, {1, Spent}, {1, Spent}} {
					got, why := use(k, step.n)
					want := step.want
					if c == aead.ChaCha20Poly1305 {
						want = Fine
					}
					if got != want || (want != Fine && why != WhyUsage) {
						t.Fatalf("after %d more: use %d %q, want %d", step.n, got, why, want)
					}
				}
			})
		}
	}
}

// TestUsageLimitsAreSeparate uses up most of one direction only.
func TestUsageLimitsAreSeparate(t *testing.T) {
	k := newKey(t, 0, aead.AES128GCM)
	if use := k.Opened(1, wantGCMUsage-1); use != Fine {
		t.Fatalf("use %d", use)
	}
	if _, use, _ := k.Reserve(1, wantGCMUsage-1); use != Fine {
		t.Errorf("use %d: sending counted with receiving", use)
	}
}

func TestFailures(t *testing.T) {
	table, heard := newTable(false)
	p := mustAdd(t, table, Config{ID: 7}, 0)
	k := newKey(t, 1, aead.ChaCha20Poly1305)
	mustSet(t, p, Primary, k)
	heard.take()
	for _, step := range []struct {
		n    int
		want Use
	}{{1<<35 - 1, Fine}, {1, Wanted}, {1, Fine}, {1<<35 - 2, Fine}, {1, Spent}} {
		use := k.Failed(step.n)
		p.Used(k, use, WhyFailures)
		if use != step.want {
			t.Fatalf("%d failures: use %d, want %d", k.Failures(), use, step.want)
		}
	}
	heard.want(t, []*Peer{p}, "key_wanted 7 key 1 failures", "key_wanted 7 key 1 failures killed")
	if k.Failures() != 1<<36 {
		t.Errorf("%d failures", k.Failures())
	}
	wantSlots(t, p, nil, nil)
}

func TestCommit(t *testing.T) {
	k := newKey(t, 0, aead.AES128GCM)
	for i, step := range []struct {
		ids      []uint32
		ok, left []bool
		accepted int
		highest  bool
		now      int64
	}{
		{[]uint32{5, 6, 6, 9}, []bool{true, true, true, false}, []bool{true, true, false, false}, 2, true, 0},
		{[]uint32{9}, []bool{true}, []bool{true}, 1, true, 0},                 // 9 was not authentic before
		{[]uint32{8, 7}, []bool{true, true}, []bool{true, true}, 2, false, 0}, // late ones
		{[]uint32{8, 0, 9}, []bool{true, true, true}, []bool{false, false, false}, 0, false, 0},
		{[]uint32{100}, []bool{false}, []bool{false}, 0, false, 0}, // a forged id moves nothing
		{[]uint32{10}, []bool{true}, []bool{true}, 1, true, 29 * second},
		{[]uint32{4, 11}, []bool{true, true}, []bool{false, true}, 1, true, 59 * second}, // 30 s are over
		{nil, nil, nil, 0, false, 60 * second},
	} {
		accepted, highest := k.Commit(step.ids, step.ok, step.now)
		if accepted != step.accepted || highest != step.highest || !slices.Equal(step.ok, step.left) {
			t.Errorf("step %d: %d accepted, highest %v, left %v", i, accepted, highest, step.ok)
		}
	}
	if k.HighestReceived() != 11 {
		t.Errorf("highest %d", k.HighestReceived())
	}
}

// TestCommitConcurrently gives the same records to several workers, as when two
// rungs deliver them: each is accepted by one.
func TestCommitConcurrently(t *testing.T) {
	const workers, batches, size = 4, 500, 32
	k := newKey(t, 0, aead.AES128GCM)
	var mu sync.Mutex
	times := make(map[uint32]int)
	total := 0
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			ids, ok := make([]uint32, size), make([]bool, size)
			for b := range batches {
				for i := range ids {
					ids[i], ok[i] = uint32(b*size+i+1), true
				}
				accepted, _ := k.Commit(ids, ok, 0)
				mu.Lock()
				total += accepted
				for i := range ids {
					if ok[i] {
						times[ids[i]]++
					}
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for id, n := range times {
		if n != 1 {
			t.Fatalf("id %d was accepted %d times", id, n)
		}
	}
	if total != len(times) || total == 0 {
		t.Errorf("%d accepted, %d told", total, len(times))
	}
	if k.HighestReceived() != batches*size || total != batches*size {
		t.Errorf("highest %d, accepted %d of %d", k.HighestReceived(), total, batches*size)
	}
}

func TestSuspectOncePerSecond(t *testing.T) {
	k := newKey(t, 0, aead.AES128GCM)
	now := 100 * second
	if !k.Suspect(now) || k.Suspect(now) || k.Suspect(now+second-1) || !k.Suspect(now+second) || k.Suspect(now+second) {
		t.Error("not once per second")
	}
	var tried sync.WaitGroup
	var mu sync.Mutex
	granted := 0
	for range 8 {
		tried.Go(func() {
			for range 100 {
				if k.Suspect(now + 5*second) {
					mu.Lock()
					granted++
					mu.Unlock()
				}
			}
		})
	}
	tried.Wait()
	if granted != 1 {
		t.Errorf("%d at the same moment", granted)
	}
}

func TestCeiling(t *testing.T) {
	k := newKey(t, 0, aead.AES128GCM)
	k.SetCeiling(100)
	if first, use, _ := k.Reserve(99, 99); first != 1 || use != Fine {
		t.Fatalf("below the ceiling: %d, %v", first, use)
	}
	k.SetCeiling(200)
	if first, use, _ := k.Reserve(100, 100); first != 100 || use != Fine {
		t.Fatalf("below a raised ceiling: %d, %v", first, use)
	}
	if _, use, why := k.Reserve(1, 1); use != Spent || why != WhyKeyStore {
		t.Fatalf("at the ceiling: %v, %q", use, why)
	}
}

func TestOwnAddressIsNoPeersSource(t *testing.T) {
	table := NewTable(false, nil)
	p := mustAdd(t, table, Config{ID: 1, Prefixes: prefixes("0.0.0.0/0", "::/0")}, 0)
	table.SetLocal([]netip.Addr{netip.MustParseAddr("10.9.0.1"), netip.MustParseAddr("fd00:9::1")})
	for addr, allowed := range map[string]bool{"10.9.0.1": false, "fd00:9::1": false, "10.9.0.2": true, "fd00:9::2": true} {
		if got := p.AllowsSource(netip.MustParseAddr(addr)); got != allowed {
			t.Errorf("source %s allowed: %v", addr, got)
		}
	}
}
