// SPDX-License-Identifier: Apache-2.0

package script

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	// maxFile bounds what is read of a file that a command has written, in bytes.
	maxFile = 256 << 10
	// pollFirst and pollLast are how often the file of a deferred answer is looked
	// at: often in the beginning, and then the less often the longer it takes.
	pollFirst = 20 * time.Millisecond
	pollLast  = 500 * time.Millisecond
)

// handover is a folder, 0700, with files, 0600, that are handed over to one
// command.
type handover string

// folder makes one below TempDir. It has to be removed.
func (r *Runner) folder() (handover, error) {
	dir, err := os.MkdirTemp(r.cfg.TempDir, "ovpn-xdp-")
	if err != nil {
		return "", fmt.Errorf("make folder for files: %w", err)
	}
	return handover(dir), nil
}

func (h handover) remove() { os.RemoveAll(string(h)) }

// add makes a file and returns its path.
func (h handover) add(name string, content []byte) (path string, err error) {
	path = filepath.Join(string(h), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return "", fmt.Errorf("make file for the command: %w", err)
	}
	return path, nil
}

// offer makes an empty file and names it in a variable of the same name.
func (h handover) offer(env *Env, name string) (path string, err error) {
	if path, err = h.add(name, nil); err == nil {
		env.Set(name, path)
	}
	return path, err
}

// readFile returns what a command has written into a file. The command may have put
// anything in its place: links are not followed, FIFOs not waited for.
func readFile(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", fmt.Errorf("read what the command wrote: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", fmt.Errorf("read what the command wrote: %s is no regular file", path)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return "", fmt.Errorf("read what the command wrote: %w", err)
	}
	if len(b) > maxFile {
		return "", fmt.Errorf("read what the command wrote: %s has more than %d bytes", path, maxFile)
	}
	return string(b), nil
}

// answer is the first byte of a file: `0` no, `1` yes, `2` later; 0 if there is
// nothing in it yet, or no file because it is being replaced.
func answer(path string) (byte, error) {
	text, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && text == "" {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return text[0], nil
}

// await looks at a file until it says yes or no. In between it does what wake
// brings; wake may be nil.
func await(ctx context.Context, path string, wake <-chan string, woken func(string)) (yes bool, err error) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for every := pollFirst; ; {
		switch a, err := answer(path); {
		case err != nil:
			return false, err
		case a == '0' || a == '1':
			return a == '1', nil
		}
		timer.Reset(every)
		select {
		case <-ctx.Done():
			return false, fmt.Errorf("deferred answer did not come: %w", ctx.Err())
		case text := <-wake:
			woken(text)
			every = pollFirst // the answer may be there now
		case <-timer.C:
			every = min(every*5/4, pollLast)
		}
	}
}
