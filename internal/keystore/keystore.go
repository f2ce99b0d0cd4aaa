// SPDX-License-Identifier: Apache-2.0

// Package keystore sees to it that no packet id is ever used twice with one key
// half: not after a restart, not after a crash, not by two peers, gateways or
// processes of one host. It keeps fingerprints, never key bytes.
//
// Two files do that. `keys` has lines "fingerprint mark": every id below mark may
// have been used, or will be by the claim that wrote the line. A line is synced
// before the ids it covers are used, and the last line of a fingerprint counts.
// `live` has no content: a claim that is in use holds a lock on one byte of it,
// which the kernel releases when the process ends in any way.
//
// The lock refuses a second claim at once, and gives the reason. That ids are
// not shared does not rest on it: ids from where a claim began up to its ceiling
// are that claim's alone, because another one begins at the mark or above, and
// Advance notices when it is no longer its own mark that it would raise.
package keystore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
)

// Fingerprint identifies a sending half: SHA-256 of direction, key half and IV.
type Fingerprint [32]byte

var (
	// ErrUsed says that ids of a key half from the one asked for on may have been used.
	ErrUsed = errors.New("key was used before")
	// ErrLive says that a running gateway of this host sends with the key half.
	ErrLive = errors.New("key is in use")
)

// Ahead is how many packet ids are marked as used in advance: 2^24 last 3.3 s
// at 5 million records a second, and marks are renewed every second.
const Ahead = 1 << 24

// end is the mark of a half whose every id is used.
const end = 1 << 32

// Store is one process's view of the two files. Safe for concurrent use.
type Store struct {
	mu   sync.Mutex
	keys keyFile
	lock liveFile
	live map[int64]*Claim // by byte of the live file
}

// Claim is the right to send with a key half. Its methods may be called from any
// goroutine.
type Claim struct {
	store   *Store
	print   Fingerprint
	first   uint64
	ceiling atomic.Uint64
}

// Released is a claim that is given up, with the first id that was not used.
type Released struct {
	Claim *Claim
	Next  uint64
}

// Open opens or creates the store in a folder, which is made with mode 0700.
func Open(dir string) (*Store, error) {
	_, missing := os.Stat(dir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make state folder: %w", err)
	}
	if missing != nil {
		if err := syncFolder(filepath.Dir(filepath.Clean(dir))); err != nil {
			return nil, err
		}
	}
	s := &Store{
		keys: keyFile{path: filepath.Join(dir, "keys")},
		lock: liveFile{path: filepath.Join(dir, "live")},
		live: map[int64]*Claim{},
	}
	err := s.lock.open()
	if err == nil {
		err = s.keys.locked(s.keys.tidy)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Claim takes a half for sending from id first (1 or more) on. ErrLive when a
// claim of it is in use, by this process or another one, whatever first is;
// ErrUsed when ids from first on may have been used, and the text names the lowest
// free id. When Claim returns, the ids up to Ceiling are marked as used on disk.
func (s *Store) Claim(f Fingerprint, first uint32) (*Claim, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := place(f)
	if s.live[at] != nil {
		return nil, fmt.Errorf("%w by this gateway; delete it there first", ErrLive)
	}
	if err := s.lock.take(at); err != nil {
		return nil, err
	}
	c := &Claim{store: s, print: f, first: uint64(first)}
	err := s.keys.locked(func() error {
		if mark := s.keys.marks[f]; c.first < mark {
			return used(mark)
		}
		return s.raise(c, c.first+Ahead)
	})
	if err != nil {
		return nil, errors.Join(err, s.lock.drop(at))
	}
	s.live[at] = c
	return c, nil
}

func used(mark uint64) error {
	if mark >= end {
		return fmt.Errorf("%w: all its packet ids may be used; make a fresh one", ErrUsed)
	}
	return fmt.Errorf("%w: packet ids below %d may be used; make a fresh key, or give a next packet id of %d or more", ErrUsed, mark, mark)
}

// raise writes a claim's new mark; the key file is locked.
func (s *Store) raise(c *Claim, mark uint64) error {
	mark = min(mark, end)
	if err := s.keys.write(entry{c.print, mark}); err != nil {
		return err
	}
	c.ceiling.Store(mark)
	return s.keys.tidy()
}

// Ceiling is the first packet id that is not marked as used: only ids below it
// may be used. 2^32 when all may be. It does not block.
func (c *Claim) Ceiling() uint64 { return c.ceiling.Load() }

// Advance raises the ceiling when next, the first id not used yet, comes within
// half of Ahead, and returns the ceiling in force, on an error too. It is called
// about once a second for each key. ErrUsed when somebody else has claimed the half
// since, which takes a state folder that was tampered with: what lies below the
// ceiling may still be used, nothing above it. A released claim is left as it is.
func (c *Claim) Advance(next uint64) (ceiling uint64, err error) {
	if at := c.ceiling.Load(); at >= end || next+Ahead/2 < at {
		return at, nil
	}
	s := c.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live[place(c.print)] != c {
		return c.ceiling.Load(), nil
	}
	err = s.keys.locked(func() error {
		if mark := s.keys.marks[c.print]; mark > c.ceiling.Load() {
			return used(mark)
		}
		return s.raise(c, next+Ahead)
	})
	return c.ceiling.Load(), err
}

// Release ends claims in good order, with one sync for all: each mark becomes
// exactly the first id not used, so that the half can be claimed again from there
// on. Nothing may be sent with them any more. The locks go in any case: after
// an error the marks stay where they were, in advance. A claim that was released
// before is passed over.
func (s *Store) Release(list []Released) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	current := make([]Released, 0, len(list))
	for _, r := range list {
		if r.Claim != nil && s.live[place(r.Claim.print)] == r.Claim {
			delete(s.live, place(r.Claim.print)) // once, also when it is listed twice
			current = append(current, r)
		}
	}
	if len(current) == 0 {
		return nil
	}
	err := s.keys.locked(func() error {
		entries := make([]entry, 0, len(current))
		for _, r := range current {
			next := min(max(r.Next, r.Claim.first), end)
			if mark := s.keys.marks[r.Claim.print]; mark > r.Claim.ceiling.Load() {
				next = max(next, mark) // somebody else's
			}
			entries = append(entries, entry{r.Claim.print, next})
		}
		if err := s.keys.write(entries...); err != nil {
			return err
		}
		for i, r := range current {
			r.Claim.ceiling.Store(entries[i].mark)
		}
		return s.keys.tidy()
	})
	for _, r := range current {
		err = errors.Join(err, s.lock.drop(place(r.Claim.print)))
	}
	return err
}

// Close closes the files. Claims that were not released keep their marks in
// advance, and their locks go.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.live)
	return errors.Join(s.keys.close(), s.lock.close())
}
