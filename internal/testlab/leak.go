// SPDX-License-Identifier: Apache-2.0

package testlab

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Main is a package's TestMain: it runs the tests and fails the package when
// they leave goroutines or descriptors behind.
func Main(m *testing.M) {
	startPoller()
	before := descriptors()
	code := m.Run()
	if code == 0 {
		code = leaks(before)
	}
	os.Exit(code)
}

func leaks(before map[string]string) (code int) {
	if err := goleak.Find(); err != nil {
		fmt.Fprintf(os.Stderr, "goroutines left behind: %v\n", err)
		code = 1
	}
	var left map[string]string
	// What a goroutine closes last may still be on its way.
	for range 100 {
		left = descriptors()
		maps.DeleteFunc(left, func(fd, target string) bool { return before[fd] == target })
		if len(left) == 0 {
			return code
		}
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Fprintf(os.Stderr, "descriptors left behind: %v\n", left)
	return 1
}

// descriptors maps each open descriptor to what it is of.
func descriptors() map[string]string {
	const dir = "/proc/self/fd"
	open := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return open
	}
	for _, e := range entries {
		// The directory's own descriptor is closed by now and has no target.
		if target, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil {
			open[e.Name()] = target
		}
	}
	return open
}

// startPoller makes the runtime open its network poller's descriptors, which it
// does on first use and never undoes.
func startPoller() {
	r, w, err := os.Pipe()
	if err != nil {
		return
	}
	r.Close()
	w.Close()
}
