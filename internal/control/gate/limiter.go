// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"net/netip"
	"time"
)

// Limiter limits events by prefix as a gate limits resets. It is not safe for
// concurrent use.
type Limiter struct{ rates rates }

// NewLimiter makes a limiter; a zero Count is no limit.
func NewLimiter(r Rate) *Limiter { return &Limiter{newRates(r)} }

// Allow takes one from the budget of an address's prefix.
func (l *Limiter) Allow(a netip.Addr, now time.Time) bool { return l.rates.allow(a, now) }
