// SPDX-License-Identifier: Apache-2.0

package keystore

import (
	"errors"
	"strings"
	"sync"
	"testing"
)

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func claim(t *testing.T, s *Store, f Fingerprint, first uint32) *Claim {
	t.Helper()
	c, err := s.Claim(f, first)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func release(t *testing.T, s *Store, list ...Released) {
	t.Helper()
	if err := s.Release(list); err != nil {
		t.Fatal(err)
	}
}

// refused fails unless a claim is refused for that cause, with that in the text.
func refused(t *testing.T, s *Store, f Fingerprint, first uint32, cause error, text string) {
	t.Helper()
	if _, err := s.Claim(f, first); !errors.Is(err, cause) || !strings.Contains(err.Error(), text) {
		t.Errorf("claim of %x from %d: %v, want %v with %q", f[:2], first, err, cause, text)
	}
}

func TestLiveKeyIsRefused(t *testing.T) {
	dir := t.TempDir()
	f := Fingerprint{1}
	s, other := open(t, dir), open(t, dir) // two descriptions of the file, as of two processes
	c := claim(t, s, f, 1)
	for _, first := range []uint32{1, Ahead + 1, 1<<32 - 1} {
		refused(t, s, f, first, ErrLive, "by this gateway; delete it there first")
		refused(t, other, f, first, ErrLive, "by another gateway")
	}
	claim(t, other, Fingerprint{2}, 1)
	// A refused claim leaves nothing: neither a mark nor a lock.
	if c.Ceiling() != Ahead+1 {
		t.Errorf("ceiling %d, want %d", c.Ceiling(), Ahead+1)
	}
	release(t, s, Released{c, 500})
	refused(t, other, f, 499, ErrUsed, "a next packet id of 500 or more")
	d := claim(t, other, f, 500)
	refused(t, s, f, 1<<31, ErrLive, "")
	if d.Ceiling() != Ahead+500 {
		t.Errorf("ceiling %d, want %d", d.Ceiling(), Ahead+500)
	}
	// Closing without a release frees the key, and leaves its mark in advance.
	other.Close()
	refused(t, s, f, 500, ErrUsed, "16777716 or more")
	claim(t, s, f, Ahead+500)
}

func TestRefusedClaimIsNotLive(t *testing.T) {
	dir := t.TempDir()
	f := Fingerprint{1}
	s, other := open(t, dir), open(t, dir)
	release(t, s, Released{claim(t, s, f, 1), 77})
	refused(t, other, f, 76, ErrUsed, "77")
	claim(t, s, f, 77)
}

func TestAdvanceStaysAhead(t *testing.T) {
	dir := t.TempDir()
	f := Fingerprint{3}
	s := open(t, dir)
	c := claim(t, s, f, 1)
	for next := uint64(1); next < 5*Ahead; next += Ahead / 4 {
		ceiling, err := c.Advance(next)
		if err != nil {
			t.Fatal(err)
		}
		if mark := open(t, dir).keys.marks[f]; mark < next+Ahead/4 || mark != ceiling || c.Ceiling() != ceiling {
			t.Fatalf("next id %d, mark on disk %d, ceiling %d and %d", next, mark, ceiling, c.Ceiling())
		}
	}
	release(t, s, Released{c, 12345})
	if at, err := c.Advance(12345); at != 12345 || err != nil {
		t.Errorf("released claim: ceiling %d, %v", at, err)
	}
	refused(t, open(t, dir), f, 12344, ErrUsed, "12345")
	claim(t, open(t, dir), f, 12345)
}

func TestLastIds(t *testing.T) {
	dir := t.TempDir()
	f := Fingerprint{4}
	s := open(t, dir)
	c := claim(t, s, f, 1<<32-Ahead)
	if c.Ceiling() != 1<<32 {
		t.Errorf("ceiling %d", c.Ceiling())
	}
	if at, err := c.Advance(1 << 32); at != 1<<32 || err != nil {
		t.Errorf("ceiling %d, %v", at, err)
	}
	release(t, s, Released{c, 1<<32 + 5000})
	refused(t, open(t, dir), f, 1<<32-1, ErrUsed, "fresh")
}

func TestReleaseMany(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	const n = 3000
	list := make([]Released, 0, n)
	for i := range n {
		f := Fingerprint{byte(i), byte(i >> 8), 9}
		list = append(list, Released{claim(t, s, f, 1), uint64(i) + 2})
	}
	list = append(list, list[0], Released{}) // twice, and nothing
	release(t, s, list...)
	release(t, s, list...)
	after := open(t, dir)
	for i := range n {
		f := Fingerprint{byte(i), byte(i >> 8), 9}
		if mark := after.keys.marks[f]; mark != uint64(i)+2 {
			t.Fatalf("mark %d is %d", i, mark)
		}
	}
	claim(t, after, Fingerprint{0, 0, 9}, 2)
}

// A late release must not lower the mark of the next claim of the same half.
func TestReleaseOfAnOldClaim(t *testing.T) {
	dir := t.TempDir()
	f := Fingerprint{5}
	s, other := open(t, dir), open(t, dir)
	old := claim(t, s, f, 1)
	release(t, s, Released{old, 10})
	fresh := claim(t, s, f, 10)
	release(t, s, Released{old, 3})
	if mark := open(t, dir).keys.marks[f]; mark != fresh.Ceiling() {
		t.Errorf("mark %d, want %d", mark, fresh.Ceiling())
	}
	refused(t, other, f, 1<<31, ErrLive, "")
	// Below its first id a claim has used nothing, and others may have.
	release(t, s, Released{fresh, 2})
	refused(t, other, f, 9, ErrUsed, "10 or more")
	claim(t, other, f, 10)
}

// Without the lock file the two claims get along all the same: neither uses an
// id of the other's.
func TestLockFileDeleted(t *testing.T) {
	dir := t.TempDir()
	f := Fingerprint{6}
	s := open(t, dir)
	first := claim(t, s, f, 1)
	remove(t, s.lock.path)
	other := open(t, dir)
	refused(t, other, f, Ahead, ErrUsed, "")
	second := claim(t, other, f, Ahead+1)
	if at, err := first.Advance(Ahead); at != Ahead+1 || !errors.Is(err, ErrUsed) {
		t.Errorf("advance into ids of another claim: ceiling %d, %v", at, err)
	}
	if at, err := second.Advance(2 * Ahead); at != 3*Ahead || err != nil {
		t.Errorf("advance: ceiling %d, %v", at, err)
	}
	release(t, s, Released{first, Ahead})
	if mark := open(t, dir).keys.marks[f]; mark != 3*Ahead {
		t.Errorf("mark %d after the release of the other claim, want %d", mark, 3*Ahead)
	}
}

func TestConcurrentClaims(t *testing.T) {
	dir := t.TempDir()
	var won [32]int
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 2 {
		s := open(t, dir)
		for range 2 {
			wg.Go(func() {
				for i := range won {
					if c, err := s.Claim(Fingerprint{byte(i), 7}, 1); err == nil {
						mu.Lock()
						won[i]++
						mu.Unlock()
						if _, err := c.Advance(Ahead); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
	}
	wg.Wait()
	for i, n := range won {
		if n != 1 {
			t.Errorf("key %d was claimed %d times", i, n)
		}
	}
}
