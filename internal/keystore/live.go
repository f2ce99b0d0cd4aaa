// SPDX-License-Identifier: Apache-2.0

package keystore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// liveFile holds one byte lock per claim in use. The locks belong to the open
// file description (F_OFD_SETLK): two stores of one process exclude each other
// like two processes, and closing another descriptor of the file drops none.
type liveFile struct {
	path string
	file *os.File
}

// place is the byte that stands for a half: 62 bits of its fingerprint, since a
// file offset has 63 and the byte behind it must have one too. Two halves of one
// place would exclude each other, at 2^-62.
func place(f Fingerprint) int64 { return int64(binary.BigEndian.Uint64(f[:]) >> 2) }

func (l *liveFile) open() error {
	f, err := os.OpenFile(l.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("open locks of keys in use: %w", err)
	}
	l.file = f
	return nil
}

// take locks a byte without waiting; ErrLive if another store has it.
func (l *liveFile) take(at int64) error {
	err := l.set(unix.F_WRLCK, at)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return fmt.Errorf("%w by another gateway of this host; delete it there first", ErrLive)
	}
	if err != nil {
		return fmt.Errorf("lock key in %s: %w", l.path, err)
	}
	return nil
}

func (l *liveFile) drop(at int64) error {
	if err := l.set(unix.F_UNLCK, at); err != nil {
		return fmt.Errorf("unlock key in %s: %w", l.path, err)
	}
	return nil
}

func (l *liveFile) set(kind int16, at int64) error {
	if l.file == nil {
		return os.ErrClosed
	}
	return retry(func() error {
		return unix.FcntlFlock(l.file.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: kind, Whence: io.SeekStart, Start: at, Len: 1})
	})
}

func (l *liveFile) close() error {
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}

// retry calls fn again as long as a signal interrupts it.
func retry(fn func() error) error {
	for {
		if err := fn(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
