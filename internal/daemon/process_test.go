// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOneGatewayPerName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "gw.lock")
	first, err := acquire(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = acquire(path)
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("gateway \"gw\" is running already, pid %d", os.Getpid())) {
		t.Errorf("second start: %v", err)
	}
	first.release()
	second, err := acquire(path)
	if err != nil {
		t.Fatalf("after the first has ended: %v", err)
	}
	second.release()
}

func TestLockFolderMustBeClosedToOthers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if l, err := acquire(filepath.Join(dir, "gw.lock")); err == nil {
		l.release()
		t.Error("a folder that lets others in was accepted")
	}
}
