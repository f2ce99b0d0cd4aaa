// SPDX-License-Identifier: Apache-2.0

package keystore

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

func TestTornAndForeignLines(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "keys")
	f := Fingerprint{5}
	s := open(t, dir)
	claim(t, s, f, 1)
	for i, tail := range []string{
		"garbage\nzz 12\n0600000000",
		// The first digit of a higher mark is a lower mark.
		fmt.Sprintf("%x 3", f),
		fmt.Sprintf("%x 3 ", f),
		fmt.Sprintf("%x 3x\n", f),
		fmt.Sprintf("%x -3\n%x +3\n", f, f),
		"\x00\x00\x00\x00",
	} {
		appendTo(t, path, tail)
		after := open(t, dir)
		other := Fingerprint{6, byte(i)}
		claim(t, after, other, 1)
		again := open(t, dir)
		for _, used := range []Fingerprint{f, other} {
			if mark := again.keys.marks[used]; mark != Ahead+1 {
				t.Errorf("mark of %x after %q: %d", used[:2], tail, mark)
			}
		}
	}
	// The store that was open all the while sees the same.
	claim(t, s, Fingerprint{7}, 1)
	if mark := s.keys.marks[f]; mark != Ahead+1 {
		t.Errorf("mark %d", mark)
	}
}

func TestCompactionAtStart(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "keys")
	line := fmt.Sprintf("%x 77\n", Fingerprint{8})
	if err := os.WriteFile(path, []byte(strings.Repeat(line, compactAt)), 0o600); err != nil {
		t.Fatal(err)
	}
	before, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, dir)
	if info, err := os.Stat(path); err != nil || info.Size() != int64(len(line)) {
		t.Errorf("size %d after compaction, %v", info.Size(), err)
	}
	refused(t, s, Fingerprint{8}, 76, ErrUsed, "77")
	// A process that opened the file before it was replaced.
	late := open(t, dir)
	late.keys.close()
	late.keys = keyFile{path: path, file: before, marks: map[Fingerprint]uint64{}}
	c := claim(t, late, Fingerprint{9}, 1)
	if mark := open(t, dir).keys.marks[Fingerprint{9}]; mark != c.Ceiling() {
		t.Errorf("claim went into the replaced file: mark %d", mark)
	}
}

// A file that grows while a gateway runs is compacted by it, under the others' feet.
func TestCompactionWhileRunning(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "keys")
	s, other := open(t, dir), open(t, dir)
	kept := claim(t, s, Fingerprint{1}, 7)
	appendTo(t, path, strings.Repeat(fmt.Sprintf("%x 77\n", Fingerprint{8}), compactAt-10))
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	lowest := before.Size()
	for i := range uint64(20) {
		store := []*Store{s, other}[i%2]
		release(t, store, Released{claim(t, store, Fingerprint{2}, uint32(i+1)), i + 2})
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		lowest = min(lowest, info.Size())
	}
	if lowest > before.Size()/100 {
		t.Errorf("never below %d bytes", lowest)
	}
	if _, err := os.Stat(path + ".new"); !os.IsNotExist(err) {
		t.Errorf("the new file's first name is left: %v", err)
	}
	after := open(t, dir)
	for f, want := range map[Fingerprint]uint64{{1}: kept.Ceiling(), {8}: 77, {2}: 21} {
		if got := after.keys.marks[f]; got != want {
			t.Errorf("mark of %x is %d, want %d", f[:1], got, want)
		}
	}
	refused(t, after, Fingerprint{1}, 1<<31, ErrLive, "")
}

// Compaction that fails costs nobody a claim.
func TestCompactionFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "keys")
	if err := os.MkdirAll(path+".new/in-the-way", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Repeat(fmt.Sprintf("%x 77\n", Fingerprint{8}), compactAt)), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir)
	c := claim(t, s, Fingerprint{8}, 77)
	if mark := open(t, dir).keys.marks[Fingerprint{8}]; mark != c.Ceiling() {
		t.Errorf("mark %d, ceiling %d", mark, c.Ceiling())
	}
}

// A store whose file was deleted starts another; its own claims go on.
func TestKeyFileDeleted(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	c := claim(t, s, Fingerprint{1}, 1)
	remove(t, filepath.Join(dir, "keys"))
	if at, err := c.Advance(Ahead); at != 2*Ahead || err != nil {
		t.Errorf("ceiling %d, %v", at, err)
	}
	if mark := open(t, dir).keys.marks[Fingerprint{1}]; mark != 2*Ahead {
		t.Errorf("mark %d", mark)
	}
}

func TestNoFolder(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(filepath.Join(file, "state")); err == nil {
		t.Error("a store below a plain file")
	}
	s := open(t, filepath.Join(dir, "a", "b"))
	claim(t, s, Fingerprint{1}, 1)
	if info, err := os.Stat(filepath.Join(dir, "a", "b")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	s.Close()
	if _, err := s.Claim(Fingerprint{2}, 1); err == nil {
		t.Error("a claim after close")
	}
}
