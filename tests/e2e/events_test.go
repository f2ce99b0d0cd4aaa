// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/internal/admin"
)

// syncPeer is made and removed to see that a stream of events has begun.
const syncPeer = 0xfffffe

// events is a running `events --json`.
type events struct {
	t   *testing.T
	mu  sync.Mutex
	buf strings.Builder
}

func (e *events) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.buf.Write(p)
}

// watch starts the command and returns once it gets events.
func (g *gateway) watch() *events {
	g.t.Helper()
	return g.watchAfter(func() {
		g.do("peer", "add", "16777214")
		g.do("peer", "del", "16777214")
	})
}

// watchAfter starts the command and calls provoke, which causes an event,
// until one is seen.
func (g *gateway) watchAfter(provoke func()) *events {
	g.t.Helper()
	e := &events{t: g.t}
	cmd := exec.Command(mustProgram(g.t), "events", "--json", "--name", g.name, "--run-dir", g.dir)
	cmd.Stdout = e
	if err := cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() {
		_ = cmd.Process.Signal(unix.SIGTERM)
		_ = cmd.Wait()
	})
	eventually(g.t, "first event", func() bool {
		provoke()
		return len(e.all(true)) > 0
	})
	return e
}

// all returns the events so far.
func (e *events) all(withSync bool) (list []admin.Event) {
	e.t.Helper()
	e.mu.Lock()
	text := e.buf.String()
	e.mu.Unlock()
	for line := range strings.Lines(text) {
		if !strings.HasSuffix(line, "\n") {
			break
		}
		var event admin.Event
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			e.t.Fatalf("event %q: %v", line, err)
		}
		if event.Version != 1 || event.Time.IsZero() {
			e.t.Errorf("event %q has no version 1 or no time", line)
		}
		if withSync || event.Peer == nil || *event.Peer != syncPeer {
			list = append(list, event)
		}
	}
	return list
}

// of returns the events of one type.
func (e *events) of(kind admin.EventType) []admin.Event {
	return slices.DeleteFunc(e.all(false), func(event admin.Event) bool { return event.Type != kind })
}

// wait waits for n events of a type.
func (e *events) wait(kind admin.EventType, n int) []admin.Event {
	e.t.Helper()
	eventually(e.t, string(kind), func() bool { return len(e.of(kind)) >= n })
	return e.of(kind)
}

// sync waits until everything that happened before this call is in the
// stream: events keep their order.
func (e *events) sync(g *gateway) {
	e.t.Helper()
	before := len(e.all(true)) - len(e.all(false))
	g.do("peer", "add", "16777214")
	g.do("peer", "del", "16777214")
	eventually(e.t, "event of the sync peer", func() bool { return len(e.all(true))-len(e.all(false)) > before })
}
