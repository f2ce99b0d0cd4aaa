// SPDX-License-Identifier: Apache-2.0

package keystore

import (
	"errors"
	"os"
	"path/filepath"
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

func TestClaimIsRefusedTheSecondTime(t *testing.T) {
	dir := t.TempDir()
	f := Fingerprint{1}
	s := open(t, dir)
	if err := s.Claim(f, 1); err != nil {
		t.Fatal(err)
	}
	if err := s.Claim(f, 1); !errors.Is(err, ErrUsed) {
		t.Errorf("same process: %v", err)
	}
	other := open(t, dir) // as another process, or after a crash
	err := other.Claim(f, Ahead)
	if !errors.Is(err, ErrUsed) || !strings.Contains(err.Error(), "16777217 or more") {
		t.Errorf("other process: %v", err)
	}
	if err := other.Claim(f, Ahead+1); err != nil {
		t.Errorf("above the mark: %v", err)
	}
	if err := other.Claim(Fingerprint{2}, 1); err != nil {
		t.Errorf("another key: %v", err)
	}
}

func TestAdvanceStaysAhead(t *testing.T) {
	dir := t.TempDir()
	f := Fingerprint{3}
	s := open(t, dir)
	if err := s.Claim(f, 1); err != nil {
		t.Fatal(err)
	}
	for next := uint64(1); next < 5*Ahead; next += Ahead / 4 {
		if err := s.Advance(f, next); err != nil {
			t.Fatal(err)
		}
		if mark := open(t, dir).marks[f]; mark < next+Ahead/4 {
			t.Fatalf("next id %d, mark on disk %d", next, mark)
		}
	}
	if err := s.Release(f, 12345); err != nil {
		t.Fatal(err)
	}
	if err := open(t, dir).Claim(f, 12344); !errors.Is(err, ErrUsed) {
		t.Errorf("below the released mark: %v", err)
	}
	if err := open(t, dir).Claim(f, 12345); err != nil {
		t.Errorf("at the released mark: %v", err)
	}
}

func TestExhaustedHalfStaysExhausted(t *testing.T) {
	dir := t.TempDir()
	f := Fingerprint{4}
	s := open(t, dir)
	if err := s.Claim(f, 1<<32-1); err != nil {
		t.Fatal(err)
	}
	if err := open(t, dir).Claim(f, 1<<32-1); !errors.Is(err, ErrUsed) || !strings.Contains(err.Error(), "fresh") {
		t.Errorf("got %v", err)
	}
}

func TestTornAndForeignLines(t *testing.T) {
	dir := t.TempDir()
	f := Fingerprint{5}
	s := open(t, dir)
	if err := s.Claim(f, 1); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "keys")
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	file.WriteString("garbage\nzz 12\n0600000000") // ends in the middle of a line
	file.Close()
	if err := s.Claim(Fingerprint{6}, 1); err != nil {
		t.Fatal(err)
	}
	after := open(t, dir)
	for _, used := range []Fingerprint{f, {6}} {
		if err := after.Claim(used, 1); !errors.Is(err, ErrUsed) {
			t.Errorf("%x forgotten: %v", used[:2], err)
		}
	}
}

func TestConcurrentProcessesClaimOnce(t *testing.T) {
	dir := t.TempDir()
	var won [32]int
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 4 {
		s := open(t, dir)
		wg.Go(func() {
			for i := range won {
				if s.Claim(Fingerprint{byte(i), 7}, 1) == nil {
					mu.Lock()
					won[i]++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	for i, n := range won {
		if n != 1 {
			t.Errorf("key %d was claimed %d times", i, n)
		}
	}
}

func TestCompaction(t *testing.T) {
	dir := t.TempDir()
	var b strings.Builder
	for range compactAt {
		b.WriteString("0800000000000000000000000000000000000000000000000000000000000000 77\n")
	}
	if err := os.WriteFile(filepath.Join(dir, "keys"), []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	before, err := os.Open(filepath.Join(dir, "keys"))
	if err != nil {
		t.Fatal(err)
	}
	defer before.Close()
	s := open(t, dir)
	if info, err := os.Stat(filepath.Join(dir, "keys")); err != nil || info.Size() > 100 {
		t.Errorf("size %d after compaction, %v", info.Size(), err)
	}
	if err := s.Claim(Fingerprint{8}, 76); !errors.Is(err, ErrUsed) {
		t.Errorf("mark lost: %v", err)
	}
	late := &Store{path: s.path, file: before, marks: map[Fingerprint]uint64{}, mine: map[Fingerprint]bool{}}
	if err := late.Claim(Fingerprint{9}, 1); err != nil { // opened before the rename
		t.Fatal(err)
	}
	if err := open(t, dir).Claim(Fingerprint{9}, 1); !errors.Is(err, ErrUsed) {
		t.Errorf("claim went into the replaced file: %v", err)
	}
	late.Close()
}
