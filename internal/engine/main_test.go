// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
	"time"
)

// What tests leave behind fails the package: goroutines and descriptors.
func TestMain(m *testing.M) {
	flag.Parse()
	goroutines := runtime.NumGoroutine()
	code := m.Run()
	if code == 0 && flag.Lookup("test.fuzz").Value.String() == "" && !settles(goroutines) {
		code = 1
	}
	os.Exit(code)
}

// settles waits until no more goroutines run than before, and no descriptor of
// a device, socket or namespace is open.
func settles(goroutines int) bool {
	var left []string
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if left = descriptors(); len(left) == 0 && runtime.NumGoroutine() <= goroutines {
			return true
		}
	}
	fmt.Fprintf(os.Stderr, "left behind: descriptors %q, %d goroutines of %d\n", left, runtime.NumGoroutine(), goroutines)
	_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 1)
	return false
}

// descriptors names open descriptors that only tests open.
func descriptors() (open []string) {
	events := 0
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return []string{err.Error()}
	}
	for _, e := range entries {
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err != nil {
			continue // the one of reading the folder
		}
		if target == "anon_inode:[eventfd]" {
			events++
		}
		for _, kind := range []string{"socket:", "net:", "/dev/net/tun", "/run/netns/", "anon_inode:bpf"} {
			if strings.HasPrefix(target, kind) {
				open = append(open, e.Name()+" "+target)
			}
		}
	}
	if events > 1 { // the runtime's own poller has one
		open = append(open, fmt.Sprintf("%d eventfds", events))
	}
	return open
}
