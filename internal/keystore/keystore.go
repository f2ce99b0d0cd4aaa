// SPDX-License-Identifier: Apache-2.0

// Package keystore remembers which key halves were used for sending, and up to
// which packet id, so that a nonce is never used twice: not after a restart, not
// after a crash, not by two gateways of one host. It keeps fingerprints, never
// key bytes.
//
// The store is one file of lines "fingerprint mark": every id below mark may
// have been used. A line is written and synced before the ids it covers are
// used; the last line of a fingerprint counts. Several processes append under a
// lock and read each other's lines first.
package keystore

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// Fingerprint identifies a sending half: SHA-256 of direction, key half and IV.
type Fingerprint [32]byte

// ErrUsed says that a key half was used for sending before.
var ErrUsed = errors.New("key was used before")

// Ahead is how many packet ids are marked as used in advance: 2^24 last 3.3 s
// at 5 million records a second, and marks are renewed every second.
const Ahead = 1 << 24

// end is the mark of a half whose every id is used.
const end = 1 << 32

// compactAt is the number of lines from which a start rewrites the file, when
// at least half of them are outdated.
const compactAt = 4096

// Store is one process's view of the file. Safe for concurrent use.
type Store struct {
	mu    sync.Mutex
	path  string
	file  *os.File
	read  int64 // bytes of the file seen
	lines int
	marks map[Fingerprint]uint64
	mine  map[Fingerprint]bool // claimed by this process since it started
}

// Open opens or creates the store in a folder, which is made with mode 0700.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make state folder: %w", err)
	}
	s := &Store{path: filepath.Join(dir, "keys"), marks: map[Fingerprint]uint64{}, mine: map[Fingerprint]bool{}}
	err := s.locked(func() error {
		if s.lines >= compactAt && s.lines >= 2*len(s.marks) {
			return s.compact()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Claim takes a half for sending from id first (1 or more) on. ErrUsed when
// ids from first on may have been used; the error names the lowest free id.
// When Claim returns, the first ids are marked as used on disk.
func (s *Store) Claim(f Fingerprint, first uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.locked(func() error {
		if mark, used := s.marks[f]; used && uint64(first) < mark {
			if mark >= end {
				return fmt.Errorf("%w: all its packet ids may be used; make a fresh one", ErrUsed)
			}
			return fmt.Errorf("%w: packet ids below %d may be used; make a fresh key, or give a next packet id of %d or more", ErrUsed, mark, mark)
		}
		s.mine[f] = true
		return s.write(f, uint64(first)+Ahead)
	})
}

// Advance marks ids as used in advance when the next id comes near the mark.
// It is called about once a second for each key.
func (s *Store) Advance(f Fingerprint, next uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if mark := s.marks[f]; mark >= end || next+Ahead/2 < mark {
		return nil
	}
	return s.locked(func() error { return s.write(f, next+Ahead) })
}

// Release sets the mark to exactly what was used, when a key is put out of use
// in good order: next is the first id not used.
func (s *Store) Release(f Fingerprint, next uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.mine[f] {
		return nil
	}
	delete(s.mine, f)
	return s.locked(func() error { return s.write(f, next) })
}

// Close closes the file.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	return err
}

// locked runs fn with the file open, locked against other processes and read
// to its end.
func (s *Store) locked(fn func() error) error {
	for {
		if s.file == nil {
			f, err := os.OpenFile(s.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
			if err != nil {
				return fmt.Errorf("open key store: %w", err)
			}
			s.file, s.read, s.lines = f, 0, 0
			clear(s.marks)
		}
		fd := int(s.file.Fd())
		if err := unix.Flock(fd, unix.LOCK_EX); err != nil {
			return fmt.Errorf("lock key store %s: %w", s.path, err)
		}
		if s.current() {
			break
		}
		s.file.Close() // another process has rewritten the file
		s.file = nil
	}
	defer func() { _ = unix.Flock(int(s.file.Fd()), unix.LOCK_UN) }()
	if err := s.catchUp(); err != nil {
		return err
	}
	return fn()
}

// current reports whether the open file is the one under the path.
func (s *Store) current() bool {
	open, err := s.file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(s.path)
	return err == nil && os.SameFile(open, named)
}

// catchUp reads the lines that were added since the last reading. A last line
// cut short by a crash was not yet relied on by anybody; it is ended here.
func (s *Store) catchUp() error {
	if _, err := s.file.Seek(s.read, io.SeekStart); err != nil {
		return fmt.Errorf("read key store: %w", err)
	}
	r := bufio.NewReader(s.file)
	for {
		line, err := r.ReadBytes('\n')
		if err == io.EOF {
			if len(line) > 0 {
				if _, err := s.file.Write([]byte{'\n'}); err != nil {
					return fmt.Errorf("mend key store: %w", err)
				}
				s.read += int64(len(line)) + 1
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("read key store: %w", err)
		}
		s.read += int64(len(line))
		s.lines++
		if f, mark, ok := parse(line); ok {
			s.marks[f] = mark
		}
	}
}

func parse(line []byte) (f Fingerprint, mark uint64, ok bool) {
	fields := bytes.Fields(line)
	if len(fields) != 2 || hex.DecodedLen(len(fields[0])) != len(f) {
		return f, 0, false
	}
	if _, err := hex.Decode(f[:], fields[0]); err != nil {
		return f, 0, false
	}
	_, err := fmt.Sscanf(string(fields[1]), "%d", &mark)
	return f, mark, err == nil
}

// write appends one line and syncs it.
func (s *Store) write(f Fingerprint, mark uint64) error {
	line := fmt.Appendf(nil, "%x %d\n", f, min(mark, end))
	if _, err := s.file.Write(line); err != nil {
		return fmt.Errorf("write key store: %w", err)
	}
	if err := unix.Fdatasync(int(s.file.Fd())); err != nil {
		return fmt.Errorf("sync key store: %w", err)
	}
	s.marks[f] = min(mark, end)
	s.read += int64(len(line))
	s.lines++
	return nil
}

// compact replaces the file by one line for each half.
func (s *Store) compact() error {
	tmp := s.path + ".new"
	f, err := os.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("compact key store: %w", err)
	}
	var out []byte
	for print, mark := range s.marks {
		out = fmt.Appendf(out, "%x %d\n", print, mark)
	}
	if _, err = f.Write(out); err == nil {
		err = f.Sync()
	}
	if err == nil {
		// Lock before the name changes hands: nobody may append in between.
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
	}
	if err == nil {
		err = os.Rename(tmp, s.path)
	}
	if err != nil {
		f.Close()
		return fmt.Errorf("compact key store: %w", err)
	}
	s.file.Close()
	s.file, s.read, s.lines = f, int64(len(out)), len(s.marks)
	if d, err := os.Open(filepath.Dir(s.path)); err == nil {
		_ = d.Sync()
		d.Close()
	}
	return nil
}
