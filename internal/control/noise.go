// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"
)

const (
	// noisePeriod is how often one line sums up what unknown senders did.
	noisePeriod = 10 * time.Second
	// noiseKinds bounds how many kinds are told apart.
	noiseKinds = 64
	// handshakeLines is how many lines about failed handshakes there may be
	// in one period: a hostile sender cannot fill a disk.
	handshakeLines = 50
)

// noise keeps what anybody can cause from filling the log: it counts by
// kind and logs a sum, with one sender as an example, once a period. Safe for
// concurrent use.
type noise struct {
	log *slog.Logger

	mu     sync.Mutex
	since  time.Time
	kinds  map[string]*noiseKind
	lines  int // of this period, about failed handshakes
	hidden int // lines left out
}

type noiseKind struct {
	n       uint64
	example netip.AddrPort
}

// count notes that a sender did something of a kind.
func (n *noise) count(kind string, from netip.AddrPort) {
	n.mu.Lock()
	defer n.mu.Unlock()
	k := n.kinds[kind]
	if k == nil {
		if len(n.kinds) >= noiseKinds {
			return
		}
		if n.kinds == nil {
			n.kinds = map[string]*noiseKind{}
		}
		k = &noiseKind{}
		n.kinds[kind] = k
	}
	k.n++
	k.example = from
}

// line reports whether a line about a failed handshake may be logged.
func (n *noise) line() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lines >= handshakeLines {
		n.hidden++
		return false
	}
	n.lines++
	return true
}

// flush logs the sums when a period is over.
func (n *noise) flush(now time.Time) {
	n.mu.Lock()
	if now.Sub(n.since) < noisePeriod {
		n.mu.Unlock()
		return
	}
	kinds, hidden := n.kinds, n.hidden
	n.kinds, n.lines, n.hidden, n.since = nil, 0, 0, now
	n.mu.Unlock()
	for kind, k := range kinds {
		n.log.Warn("packets of unknown senders dropped", "why", kind, "count", k.n, "last_from", k.example)
	}
	if hidden > 0 {
		n.log.Warn(fmt.Sprintf("%d more lines about failed handshakes left out", hidden))
	}
}
