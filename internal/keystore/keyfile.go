// SPDX-License-Identifier: Apache-2.0

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
	"strconv"

	"golang.org/x/sys/unix"
)

// compactAt is the number of lines from which the file is rewritten, when at
// least half of them are outdated: below 320 KiB reading it costs nothing.
const compactAt = 4096

// torn ends a line that a crash or a full disk cut short, so that nobody takes
// the first digits of a mark for all of it.
const torn = " torn\n"

// keyFile is the file of marks, as read so far. Several processes append to it
// under a lock and read each other's lines first. Not safe for concurrent use.
type keyFile struct {
	path    string
	file    *os.File
	read    int64 // bytes of the file seen
	lines   int
	marks   map[Fingerprint]uint64
	synced  bool // the folder entry of this very file is on disk
	patient int  // lines from which compacting is tried again after it failed
}

type entry struct {
	print Fingerprint
	mark  uint64
}

// locked runs fn with the file open, locked against other processes and read
// to its end.
func (k *keyFile) locked(fn func() error) error {
	for {
		if k.file == nil {
			f, err := os.OpenFile(k.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
			if err != nil {
				return fmt.Errorf("open key store: %w", err)
			}
			*k = keyFile{path: k.path, file: f, marks: map[Fingerprint]uint64{}}
		}
		if err := k.flock(k.file, unix.LOCK_EX); err != nil {
			return err
		}
		if k.current() {
			break
		}
		k.file.Close() // another process has rewritten the file
		k.file = nil
	}
	defer func() { _ = k.flock(k.file, unix.LOCK_UN) }()
	if err := k.catchUp(); err != nil {
		return err
	}
	return fn()
}

func (k *keyFile) flock(f *os.File, how int) error {
	if err := retry(func() error { return unix.Flock(int(f.Fd()), how) }); err != nil {
		return fmt.Errorf("lock key store %s: %w", k.path, err)
	}
	return nil
}

// current reports whether the open file is the one under the path.
func (k *keyFile) current() bool {
	open, err := k.file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(k.path)
	return err == nil && os.SameFile(open, named)
}

// catchUp reads the lines that were added since the last reading. A last line
// cut short was not yet relied on by anybody; it is made void here.
func (k *keyFile) catchUp() error {
	if _, err := k.file.Seek(k.read, io.SeekStart); err != nil {
		return fmt.Errorf("read key store: %w", err)
	}
	r := bufio.NewReader(k.file)
	for {
		line, err := r.ReadBytes('\n')
		if err == io.EOF {
			if len(line) > 0 {
				if _, err := k.file.WriteString(torn); err != nil {
					return fmt.Errorf("mend key store: %w", err)
				}
				k.read += int64(len(line) + len(torn))
				k.lines++
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("read key store: %w", err)
		}
		k.read += int64(len(line))
		k.lines++
		if e, ok := parse(line); ok {
			k.marks[e.print] = e.mark
		}
	}
}

func parse(line []byte) (e entry, ok bool) {
	fields := bytes.Fields(line)
	if len(fields) != 2 || hex.DecodedLen(len(fields[0])) != len(e.print) {
		return entry{}, false
	}
	if _, err := hex.Decode(e.print[:], fields[0]); err != nil {
		return entry{}, false
	}
	mark, err := strconv.ParseUint(string(fields[1]), 10, 64)
	e.mark = min(mark, end)
	return e, err == nil
}

func appendEntry(b []byte, e entry) []byte { return fmt.Appendf(b, "%x %d\n", e.print, e.mark) }

// write appends lines and syncs them. The first time it syncs the folder too:
// a file that was just made could be gone after a power cut.
func (k *keyFile) write(entries ...entry) error {
	var lines []byte
	for _, e := range entries {
		lines = appendEntry(lines, e)
	}
	if _, err := k.file.Write(lines); err != nil {
		return fmt.Errorf("write key store: %w", err)
	}
	if err := retry(func() error { return unix.Fdatasync(int(k.file.Fd())) }); err != nil {
		return fmt.Errorf("sync key store: %w", err)
	}
	if !k.synced {
		if err := syncFolder(filepath.Dir(k.path)); err != nil {
			return err
		}
		k.synced = true
	}
	for _, e := range entries {
		k.marks[e.print] = e.mark
	}
	k.read += int64(len(lines))
	k.lines += len(entries)
	return nil
}

// tidy replaces the file by one line for each half when most lines are outdated.
// Not being able to is no error: what is in the file stays good.
func (k *keyFile) tidy() error {
	if k.lines < max(compactAt, k.patient) || k.lines < 2*len(k.marks) {
		return nil
	}
	renamed, err := k.compact()
	if err != nil && !renamed {
		k.patient = 2 * k.lines
		return nil
	}
	return err
}

// compact reports whether the new file has taken the old one's place.
func (k *keyFile) compact() (renamed bool, err error) {
	tmp := k.path + ".new"
	f, err := os.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return false, fmt.Errorf("compact key store: %w", err)
	}
	var out []byte
	for print, mark := range k.marks {
		out = appendEntry(out, entry{print, mark})
	}
	if _, err = f.Write(out); err == nil {
		err = f.Sync()
	}
	if err == nil {
		// Locked before the name changes hands: nobody may append in between.
		err = k.flock(f, unix.LOCK_EX)
	}
	if err == nil {
		err = os.Rename(tmp, k.path)
	}
	if err != nil {
		f.Close()
		return false, errors.Join(fmt.Errorf("compact key store: %w", err), os.Remove(tmp))
	}
	k.file.Close()
	k.file, k.read, k.lines, k.synced, k.patient = f, int64(len(out)), len(k.marks), false, 0
	// Until this is on disk, a power cut would bring the old file back.
	if err := syncFolder(filepath.Dir(k.path)); err != nil {
		return true, err
	}
	k.synced = true
	return true, nil
}

func (k *keyFile) close() error {
	if k.file == nil {
		return nil
	}
	err := k.file.Close()
	k.file = nil
	return err
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync folder %s: %w", dir, err)
	}
	return nil
}
