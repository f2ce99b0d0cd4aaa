// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// capabilities that attaching needs. The kernel takes CAP_SYS_ADMIN for
// CAP_BPF and CAP_PERFMON.
var capabilities = []struct {
	name  string
	bit   uint
	admin bool
}{
	{"CAP_NET_ADMIN", unix.CAP_NET_ADMIN, false},
	{"CAP_NET_RAW", unix.CAP_NET_RAW, false},
	{"CAP_BPF", unix.CAP_BPF, true},
	{"CAP_PERFMON", unix.CAP_PERFMON, true},
}

// explain adds what the process lacks to an error that says no more than that
// something was not permitted or that locked memory ran out.
func explain(err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		if missing := missingCapabilities(); len(missing) > 0 {
			return fmt.Errorf("%w (missing %s)", err, strings.Join(missing, ", "))
		}
		// Before 5.11 BPF maps count as locked memory and exceed it with EPERM.
		var limit unix.Rlimit
		if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit) == nil && limit.Cur != unix.RLIM_INFINITY {
			return fmt.Errorf("%w (RLIMIT_MEMLOCK is %d bytes: raise it, or give CAP_SYS_RESOURCE)", err, limit.Cur)
		}
	}
	return err
}

func missingCapabilities() []string {
	status, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		return nil
	}
	return parseMissing(string(status))
}

func parseMissing(status string) []string {
	var effective uint64
	found := false
	for line := range strings.Lines(status) {
		if value, ok := strings.CutPrefix(line, "CapEff:"); ok {
			n, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
			if err != nil {
				return nil
			}
			effective, found = n, true
		}
	}
	if !found {
		return nil
	}
	has := func(bit uint) bool { return effective>>bit&1 != 0 }
	var missing []string
	for _, c := range capabilities {
		if !has(c.bit) && !(c.admin && has(unix.CAP_SYS_ADMIN)) {
			missing = append(missing, c.name)
		}
	}
	return missing
}
