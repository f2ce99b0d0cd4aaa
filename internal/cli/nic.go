// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ovpn-xdp/ovpn-xdp/internal/admin"
	"github.com/ovpn-xdp/ovpn-xdp/internal/config"
)

func (a *app) attachCommand() *cobra.Command {
	var mode string
	var asJSON bool
	cmd := a.command(&cobra.Command{
		Use:   "attach NIC [flags]",
		Short: "Move a running gateway onto a NIC's fast path",
		Long: `Move a running gateway onto a NIC's fast path, without losing a record, and
return once records take it.`,
		Args: cobra.ExactArgs(1),
	}, func(cmd *cobra.Command, args []string) error {
		if err := config.ValidateDevice(args[0]); err != nil {
			return usageError{err}
		}
		var nic admin.NIC
		err := a.ask(cmd.Context(), func(c *admin.Client) error {
			return c.Call(cmd.Context(), admin.MethodAttach, admin.NICRef{NIC: args[0], Mode: mode}, &nic)
		})
		if err != nil {
			return err
		}
		if asJSON {
			return a.printJSON(struct {
				Version int       `json:"version"`
				NIC     admin.NIC `json:"nic"`
			}{admin.Version, nic})
		}
		_, err = fmt.Fprintln(a.stdout, nicLine(&nic))
		return err
	})
	oneOf(cmd, &mode, "mode", "", "`rung` to take or fail: auto, xdp-zerocopy, xdp, tc or xdp-generic\n(default: what the gateway was started with)",
		[]string{config.ModeAuto, config.ModeZeroCopy, config.ModeXDP, config.ModeTC, config.ModeXDPGeneric})
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) detachCommand() *cobra.Command {
	return a.command(&cobra.Command{
		Use:   "detach NIC",
		Short: "Take a running gateway off a NIC's fast path",
		Long: `Take a running gateway off a NIC's fast path, without losing a record: what
arrives from now on takes the UDP socket, where nftables, conntrack and tcpdump
see it. Returns once the NIC carries no program of the gateway.`,
		Args: cobra.ExactArgs(1),
	}, func(cmd *cobra.Command, args []string) error {
		if err := config.ValidateDevice(args[0]); err != nil {
			return usageError{err}
		}
		return a.call(cmd.Context(), admin.MethodDetach, admin.NICRef{NIC: args[0]})
	})
}

func (a *app) probeCommand() *cobra.Command {
	var asJSON bool
	cmd := a.command(&cobra.Command{
		Use:   "probe NIC [flags]",
		Short: "Say what a NIC and this kernel offer, without touching either",
		Long: `Say what a NIC and this kernel offer, who holds the XDP slot and what
'run --mode auto' would choose. Neither the NIC nor its traffic is disturbed,
and no gateway has to run.`,
		Args: cobra.ExactArgs(1),
	}, func(cmd *cobra.Command, args []string) error {
		if err := config.ValidateDevice(args[0]); err != nil {
			return usageError{err}
		}
		report, err := a.deps.Probe(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if !asJSON {
			return report.WriteText(a.stdout)
		}
		raw, err := json.Marshal(report)
		if err != nil {
			return fmt.Errorf("print report: %w", err)
		}
		return a.printJSON(versioned(raw))
	})
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// versioned puts "version" in front of an object's members.
func versioned(object json.RawMessage) json.RawMessage {
	head := fmt.Appendf(nil, `{"version":%d`, admin.Version)
	if len(object) > 2 {
		head = append(head, ',')
	}
	return append(head, object[1:]...)
}
