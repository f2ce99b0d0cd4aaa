// SPDX-License-Identifier: Apache-2.0

package management

import (
	"sync"
	"time"
)

const (
	// limitLines is how many lines about connections are logged in limitPeriod:
	// whoever can connect cannot fill a disk.
	limitLines  = 20
	limitPeriod = time.Minute
)

// limiter bounds log lines.
type limiter struct {
	mu    sync.Mutex
	since time.Time
	n     int
}

// allow reports whether one more line may be logged.
func (l *limiter) allow(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d := now.Sub(l.since); d >= limitPeriod || d < 0 {
		l.since, l.n = now, 0
	}
	l.n++
	return l.n <= limitLines
}
