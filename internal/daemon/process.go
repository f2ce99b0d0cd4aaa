// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/internal/admin"
)

// secretProcess keeps keys out of core dumps and away from ptrace by others.
func secretProcess() error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("switch core dumps off: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("make process undumpable: %w", err)
	}
	return nil
}

// lockFile is held while a gateway of its name runs; the kernel frees it with
// the process, however that ends.
type lockFile struct{ f *os.File }

// acquire takes the lock and writes our pid into the file.
func acquire(path string) (*lockFile, error) {
	if err := admin.MakeDir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			pid, _ := io.ReadAll(io.LimitReader(f, 32))
			name := strings.TrimSuffix(filepath.Base(path), ".lock")
			return nil, fmt.Errorf("gateway %q is running already, pid %s; stop it, or give another --name", name, strings.TrimSpace(string(pid)))
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if err := f.Truncate(0); err == nil {
		_, err = f.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("write lock: %w", err)
		}
	}
	return &lockFile{f}, nil
}

// release frees the lock. The file stays: removing it would let two processes
// hold locks on two files of one name.
func (l *lockFile) release() { l.f.Close() }
