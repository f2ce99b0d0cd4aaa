// SPDX-License-Identifier: Apache-2.0

package status

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// fileMode is what OpenVPN makes a status file with.
const fileMode = 0o600

// WriteFile writes a report to a file. It is made with mode 0600 if it is not
// there; one that is there keeps inode, owner and mode, as with OpenVPN:
// administrators give their monitors access to it, containers mount it,
// watchers keep it open, and none of that survives a rename. In place of a rename,
// the whole report is written at once over the old one, and only then is the
// file cut to its length: a reader never finds it empty, and the END line comes
// before any rest of the old report. Not for several goroutines and one path.
func WriteFile(path string, version int, r Report) error {
	b, err := Append(nil, version, r)
	if err != nil {
		return err
	}
	// O_NONBLOCK: a named pipe that nobody reads is an error and not a wait.
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|syscall.O_NONBLOCK, fileMode)
	if err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	_, err = f.Write(b)
	if err == nil {
		// Devices and pipes have no length to cut.
		if err = f.Truncate(int64(len(b))); errors.Is(err, syscall.EINVAL) {
			err = nil
		}
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	return nil
}
