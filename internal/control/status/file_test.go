// SPDX-License-Identifier: Apache-2.0

package status_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/status"
)

func TestWriteFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "status")
	if err := status.WriteFile(path, 2, report()); err != nil {
		t.Fatal(err)
	}
	first, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if first.Mode() != 0o600 {
		t.Errorf("mode is %v", first.Mode())
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}

	// A shorter report leaves nothing of the longer one, and the file its own self.
	short := report()
	short.Clients, short.Routes = nil, nil
	if err := status.WriteFile(path, 2, short); err != nil {
		t.Fatal(err)
	}
	want, _ := status.Append(nil, 2, short)
	got, err := os.ReadFile(path)
	if err != nil || string(got) != string(want) {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
	second, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if !os.SameFile(first, second) || second.Mode() != 0o644 {
		t.Errorf("same file: %v, mode %v", os.SameFile(first, second), second.Mode())
	}
}

func TestWriteFileFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "status")
	if err := status.WriteFile(path, 9, report()); !errors.Is(err, status.ErrVersion) {
		t.Errorf("version 9: %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file was made for a version that does not exist: %v", err)
	}
	if err := status.WriteFile(filepath.Join(dir, "none", "status"), 1, report()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no such folder: %v", err)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := status.WriteFile(pipe, 1, report()); !errors.Is(err, syscall.ENXIO) {
		t.Errorf("pipe that nobody reads: %v", err)
	}
	if err := status.WriteFile("/dev/full", 1, report()); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("full device: %v", err)
	}
	if err := status.WriteFile(os.DevNull, 1, report()); err != nil {
		t.Errorf("%s: %v", os.DevNull, err)
	}
}
