// SPDX-License-Identifier: Apache-2.0

package testlab

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// Unmet skips the test for want of something that the machine lacks, or fails
// it when REQUIRE_ALL=1 promises that nothing is lacking. Callers must have
// found the lack by trying, with the error in the message.
func Unmet(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("REQUIRE_ALL") == "1" {
		t.Fatalf("required: "+format, args...)
	}
	t.Skipf("needs "+format, args...)
}

// RequireRoot ends the test unless it runs as root.
func RequireRoot(t testing.TB) {
	t.Helper()
	if uid := os.Geteuid(); uid != 0 {
		Unmet(t, "root, runs as uid %d", uid)
	}
}

// RequireTool ends the test unless all the programs are found by the PATH.
func RequireTool(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			Unmet(t, "program %s: %v", name, err)
		}
	}
}

// RequireFile ends the test unless the file exists, such as /dev/net/tun.
func RequireFile(t testing.TB, path string) {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		Unmet(t, "file %s: %v", path, err)
	}
}

// RequireFeature ends the test unless the probe succeeds: a function that tries
// what the test needs of the kernel and returns why it isn't there.
func RequireFeature(t testing.TB, what string, probe func() error) {
	t.Helper()
	if err := probe(); err != nil {
		Unmet(t, "%s", fmt.Sprintf("%s: %v", what, err))
	}
}
