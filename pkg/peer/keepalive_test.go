// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"slices"
	"sync"
	"testing"
	"time"
)

func TestKeepalive(t *testing.T) {
	table, heard := newTable(false)
	const start = 1000 * second
	p := mustAdd(t, table, Config{ID: 7, Interval: 10 * time.Second, Timeout: 60 * time.Second}, start)
	off := mustAdd(t, table, Config{ID: 8}, start)
	heard.take()
	tick := func(now int64, want ...*Peer) {
		t.Helper()
		var got []*Peer
		table.Tick(now, func(p *Peer) {
			heard.callBack(p)
			got = append(got, p)
		})
		if !slices.Equal(got, want) {
			t.Errorf("at %d s: pinged %v, want %v", (now-start)/second, ids(got), ids(want))
		}
	}
	tick(start)
	tick(start + 10*second - 1)
	tick(start+10*second, p)
	tick(start+11*second, p) // nothing left yet
	p.LastSent.Store(start + 11*second)
	tick(start + 20*second)
	tick(start+21*second, p)
	p.LastSent.Store(start + 50*second)
	p.Received(start + 30*second)
	if p.LastReceived.Load() != start+30*second {
		t.Error("the time of the last record is not kept")
	}
	tick(start + 59*second)
	tick(start+90*second-1, p)
	heard.want(t, nil)

	tick(start + 90*second) // expired, and not pinged
	heard.want(t, []*Peer{p}, "peer_gone 7 expired")
	if !p.Gone() || table.Lookup(7) != nil || table.Len() != 1 {
		t.Error("the silent peer is still there")
	}
	tick(start + 200*second)
	heard.want(t, nil)
	if off.Gone() {
		t.Error("a peer without keepalive expired")
	}
}

// TestSetStartsTimersAnew sets the keepalive shortly before either timer ends.
func TestSetStartsTimersAnew(t *testing.T) {
	table, heard := newTable(false)
	p := mustAdd(t, table, Config{ID: 7, Interval: 10 * time.Second, Timeout: 60 * time.Second}, 0)
	p.LastSent.Store(1 * second)
	p.Received(2 * second)
	heard.take()
	pings := 0
	ping := func(*Peer) { pings++ }
	if _, err := table.Set(7, Change{Timeout: ptr(20 * time.Second)}, 10*second); err != nil {
		t.Fatal(err)
	}
	heard.want(t, []*Peer{p})
	if i, to := p.Keepalive(); i != 10*time.Second || to != 20*time.Second {
		t.Errorf("keepalive %v:%v", i, to)
	}
	if p.LastSent.Load() != second || p.LastReceived.Load() != 2*second {
		t.Error("the times of the last records changed")
	}
	if table.Tick(20*second-1, ping); pings != 0 {
		t.Error("pinged before the interval was over again")
	}
	if table.Tick(20*second, ping); pings != 1 {
		t.Error("not pinged")
	}
	table.Tick(30*second-1, ping)
	heard.want(t, nil)
	table.Tick(30*second, ping)
	heard.want(t, []*Peer{p}, "peer_gone 7 expired")

	p = mustAdd(t, table, Config{ID: 7, Interval: 10 * time.Second, Timeout: 20 * time.Second}, 30*second)
	if _, err := table.Set(7, Change{Interval: new(time.Duration), Timeout: new(time.Duration)}, 31*second); err != nil {
		t.Fatal(err)
	}
	pings = 0
	if table.Tick(1000*second, ping); p.Gone() || pings != 0 {
		t.Error("the keepalive is not off")
	}
	// Changing something else leaves the timers alone.
	if _, err := table.Set(7, Change{Interval: ptr(10 * time.Second), Timeout: ptr(20 * time.Second)}, 1000*second); err != nil {
		t.Fatal(err)
	}
	if _, err := table.Set(7, Change{Prefixes: ptr(prefixes("10.0.0.0/8"))}, 1009*second); err != nil {
		t.Fatal(err)
	}
	if table.Tick(1010*second, ping); pings != 1 {
		t.Error("setting routes put the ping off")
	}
}

// TestHeardAtTheLastMoment has a record arrive between finding a peer silent and
// removing it.
func TestHeardAtTheLastMoment(t *testing.T) {
	table, heard := newTable(false)
	p := mustAdd(t, table, Config{ID: 7, Interval: time.Second, Timeout: 2 * time.Second}, 0)
	heard.take()
	if !p.silent(2 * second) {
		t.Fatal("not silent")
	}
	p.Received(2 * second)
	if table.expire(p, 2*second) || p.Gone() || table.Lookup(7) != p {
		t.Error("removed although it was heard")
	}
	if !table.expire(p, 4*second) || table.expire(p, 4*second) || !p.Gone() {
		t.Error("not removed once when it was silent again")
	}
}

// TestTickRemovesOnce runs Tick from several goroutines and beside Remove.
func TestTickRemovesOnce(t *testing.T) {
	table, heard := newTable(false)
	const n = 200
	for id := range uint32(n) {
		mustAdd(t, table, Config{ID: id, Interval: time.Second, Timeout: 2 * time.Second}, 0)
	}
	heard.take()
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() { table.Tick(5*second, func(*Peer) { t.Error("a silent peer was pinged") }) })
	}
	wg.Go(func() {
		for id := range uint32(n) {
			_ = table.Remove(id, ReasonUser) // some are gone already
		}
	})
	wg.Wait()
	events, changed := heard.take()
	if len(events) != n || len(changed) != n || table.Len() != 0 {
		t.Errorf("%d events, %d changes for %d peers; %d left", len(events), len(changed), n, table.Len())
	}
}
