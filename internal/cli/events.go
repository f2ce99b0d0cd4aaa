// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/ovpn-xdp/ovpn-xdp/internal/admin"
)

func (a *app) eventsCommand() *cobra.Command {
	var asJSON bool
	cmd := a.command(&cobra.Command{
		Use:   "events [flags]",
		Short: "Print events as they happen: peer gone, float, key wanted",
		Long: `Print events as they happen until interrupted: peers that are gone, that moved or
said goodbye, keys that are wanted or were killed, NICs that came or went. With
--json, one object per line. A reader that is too slow loses the oldest events
and is told how many.`,
	}, func(cmd *cobra.Command, _ []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		return a.ask(ctx, func(c *admin.Client) error {
			return c.Events(ctx, func(line []byte, e *admin.Event) error {
				var err error
				if asJSON {
					_, err = a.stdout.Write(append(line, '\n'))
				} else {
					_, err = fmt.Fprintln(a.stdout, eventLine(e, time.Local))
				}
				return err
			})
		})
	})
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one object per line")
	return cmd
}

// eventLine says in one line what happened.
func eventLine(e *admin.Event, zone *time.Location) string {
	parts := []string{e.Time.In(zone).Format("2006-01-02 15:04:05.000")}
	if e.Lost > 0 {
		parts = append(parts, fmt.Sprintf("(%d events lost)", e.Lost))
	}
	if e.Peer != nil {
		parts = append(parts, fmt.Sprintf("peer %d", *e.Peer))
	}
	if e.NIC != "" {
		parts = append(parts, e.NIC)
	}
	parts = append(parts, strings.ReplaceAll(string(e.Type), "_", " "))
	if e.Key != nil {
		parts = append(parts, strings.TrimSpace(fmt.Sprintf("%s key %d", e.Key.Slot, e.Key.KeyID)))
	}
	if e.Rung != "" {
		parts = append(parts, e.Rung)
	}
	switch {
	case e.Previous.IsValid():
		parts = append(parts, fmt.Sprintf("%s -> %s", e.Previous, e.Remote))
	case e.Remote.IsValid():
		parts = append(parts, e.Remote.String())
	}
	text := strings.Join(parts, " ")
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}
