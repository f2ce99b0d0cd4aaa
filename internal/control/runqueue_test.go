// SPDX-License-Identifier: Apache-2.0

package control

import "testing"

// TestBusyClientKeepsNobodyOut: one that is authenticated and always has
// something to do leaves turns to those that are not.
func TestBusyClientKeepsNobodyOut(t *testing.T) {
	var q runQueue
	q.init()
	busy, fresh := &instance{}, &instance{}
	busy.trusted.Store(true)
	q.add(busy)
	q.add(fresh)
	turns := 0
	for {
		i := q.next()
		turns++
		if i == fresh {
			break
		}
		q.add(i)
		q.done(i)
		if turns > laterEvery {
			t.Fatalf("not its turn after %d", turns)
		}
	}
	if turns == 1 {
		t.Error("who is authenticated has to come first")
	}
}

// TestInstanceHasOneWorker: what comes while it runs waits for its next turn.
func TestInstanceHasOneWorker(t *testing.T) {
	var q runQueue
	q.init()
	a, b := &instance{}, &instance{}
	q.add(a)
	q.add(a)
	if q.next() != a {
		t.Fatal("a is not first")
	}
	q.add(a)
	q.add(a)
	q.add(b)
	if q.next() != b {
		t.Fatal("a second worker would wait for the first one's instance")
	}
	q.done(a)
	if q.next() != a {
		t.Fatal("what came while it ran was forgotten")
	}
	q.done(a)
	q.done(b)
	if len(q.first)+len(q.later) != 0 {
		t.Error("run once too often")
	}
	q.close()
	if q.next() != nil {
		t.Error("a closed queue goes on")
	}
}
