// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/ovpn-xdp/ovpn-xdp/internal/admin"
	"github.com/ovpn-xdp/ovpn-xdp/internal/config"
)

func (a *app) statusCommand() *cobra.Command {
	var asJSON, watch bool
	var require string
	interval := time.Second
	cmd := a.command(&cobra.Command{
		Use:   "status [flags]",
		Short: "Show rungs, counters, drops by reason and peers",
		Long: `Show what a running gateway uses and why nothing higher, what it carried, what it
dropped and why, and its peers.

With --require, exit with 3 when any NIC is below the rung, or down; from the best:
xdp-zerocopy, xdp, tc, xdp-generic, socket.`,
		Example: `  ovpn-xdp status --watch
  ovpn-xdp status --require xdp >/dev/null || page-somebody`,
	}, func(cmd *cobra.Command, _ []string) error {
		switch {
		case asJSON && watch:
			return usagef("--json and --watch exclude each other")
		case interval < 100*time.Millisecond || interval > time.Hour:
			return usagef("interval %s: 100ms to 1h", interval)
		}
		return a.ask(cmd.Context(), func(c *admin.Client) error {
			if watch {
				return a.watch(cmd.Context(), c, interval)
			}
			return a.status(cmd.Context(), c, asJSON, require)
		})
	})
	f := cmd.Flags()
	f.BoolVar(&asJSON, "json", false, "print JSON as it comes from the gateway")
	f.BoolVar(&watch, "watch", false, "redraw with rates per second until interrupted")
	f.DurationVar(&interval, "interval", interval, "`time` between two redraws of --watch, 100ms to 1h")
	oneOf(cmd, &require, "require", "", "exit with 3 when any NIC is below this `rung` (default: no requirement)", rungs())
	cmd.MarkFlagsMutuallyExclusive("watch", "require")
	return cmd
}

func (a *app) status(ctx context.Context, c *admin.Client, asJSON bool, require string) error {
	var raw json.RawMessage
	if err := c.Call(ctx, admin.MethodStatus, nil, &raw); err != nil {
		return err
	}
	var s admin.Status
	if err := json.Unmarshal(raw, &s); err != nil {
		return fmt.Errorf("read status: %w", err)
	}
	if asJSON {
		if err := a.printJSON(raw); err != nil {
			return err
		}
	} else if _, err := a.stdout.Write(statusText(&s, view{now: time.Now(), peers: maxPeers})); err != nil {
		return err
	}
	return checkRung(&s, require)
}

// maxPeers bounds the table of `status`; `peer list` shows all.
const maxPeers = 50

// belowError is exit code 3.
type belowError struct{ text string }

func (e *belowError) Error() string { return e.text }

// checkRung compares every NIC with the required rung; "" requires nothing.
func checkRung(s *admin.Status, require string) error {
	if require == "" {
		return nil
	}
	order := rungs()
	want := slices.Index(order, require)
	below := func(rung string) bool {
		have := slices.Index(order, rung)
		return have < 0 || have > want
	}
	if len(s.NICs) == 0 && below(config.ModeSocket) {
		return &belowError{fmt.Sprintf("no NIC is attached, and %s is required", require)}
	}
	var bad []string
	for i := range s.NICs {
		n := &s.NICs[i]
		// Nothing arrives by the fast path of a NIC that is down or gone.
		idle := n.State != "" && n.State != admin.NICAttached && require != config.ModeSocket
		if below(n.Rung) || idle {
			bad = append(bad, nicLine(n))
		}
	}
	if len(bad) > 0 {
		return &belowError{fmt.Sprintf("below %s: %s", require, strings.Join(bad, "; "))}
	}
	return nil
}

// watch redraws until interrupted, which is how it is meant to end.
func (a *app) watch(ctx context.Context, c *admin.Client, interval time.Duration) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	var prev *admin.Status
	var prevAt time.Time
	for {
		s, err := c.Status(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		now := time.Now()
		v := view{now: now, peers: maxPeers}
		if prev != nil {
			v.prev, v.elapsed = prev, now.Sub(prevAt)
		}
		if err := a.draw(s, v); err != nil {
			return err
		}
		prev, prevAt = s, now
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// draw writes one screen. On a terminal each line is overwritten in place
// and the rest erased, which does not flicker as clearing first would; lines
// longer or more than the terminal has would scroll it, so they are cut.
// Elsewhere the text is repeated under the time.
func (a *app) draw(s *admin.Status, v view) error {
	rows, columns, isTerminal := terminal(a.stdout)
	if !isTerminal || rows < 2 || columns < 2 {
		text := append([]byte(v.now.Format("2006-01-02 15:04:05")+"\n"), statusText(s, v)...)
		_, err := a.stdout.Write(append(text, '\n'))
		return err
	}
	lines := strings.Split(strings.TrimSuffix(string(statusText(s, v)), "\n"), "\n")
	if len(lines) > rows-1 {
		lines = lines[:rows-1]
	}
	var out strings.Builder
	out.WriteString("\x1b[H")
	for _, line := range lines {
		if r := []rune(line); len(r) > columns {
			line = string(r[:columns])
		}
		out.WriteString(line + "\x1b[K\r\n")
	}
	out.WriteString("\x1b[J")
	_, err := a.stdout.Write([]byte(out.String()))
	return err
}
