// SPDX-License-Identifier: Apache-2.0

package engine

import "golang.org/x/sys/unix"

// Waking a sleeping thread costs tens of microseconds on a virtual machine,
// as much as opening a hundred records. So a worker that found nothing gives its
// core away and looks again a few times before it sleeps, and learns from
// whether that helped: up to maxTries times while it does, once where it does
// not. On two busy cores five tries took 60,000 context switches per GB instead
// of 120,000; twenty were no better.
const (
	minTries = 1
	maxTries = 6
)

// idle is one worker's memory of how often looking again paid.
type idle struct {
	limit int // tries before sleeping
	tries int // since something was found
}

// again reports whether to look once more, after giving the core away, before
// sleeping.
func (i *idle) again() bool {
	if i.limit < minTries {
		i.limit = maxTries
	}
	if i.tries >= i.limit {
		i.limit = max(i.limit-1, minTries)
		i.tries = 0
		return false
	}
	i.tries++
	_, _, _ = unix.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	return true
}

// found notes that there was something.
func (i *idle) found() {
	if i.tries > 0 {
		i.limit = min(i.limit+1, maxTries)
		i.tries = 0
	}
}
