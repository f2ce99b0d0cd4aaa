// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
)

// MakeDir makes the folder of admin sockets, or checks one that is there: it
// has to belong to this process's user and be closed to all others. The
// mode of an existing folder is left alone, since it may be somebody's /tmp.
func MakeDir(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make folder: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("check folder: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("check folder %s: not a folder", dir)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("check folder %s: it belongs to user %d, and this process is user %d", dir, st.Uid, os.Geteuid())
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("check folder %s: mode %04o lets others in; chmod 0700 it, or choose another with --run-dir", dir, mode)
	}
	return nil
}

func listen(path string) (*net.UnixListener, error) {
	if err := MakeDir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if info, err := os.Lstat(path); err == nil {
		if info.Mode().Type() != fs.ModeSocket {
			return nil, fmt.Errorf("make admin socket %s: something else is there", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("remove stale admin socket: %w", err)
		}
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("make admin socket: %w", err)
	}
	// Until here the folder's mode alone keeps others out, whatever the umask.
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("make admin socket: %w", err)
	}
	return l, nil
}
