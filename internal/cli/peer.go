// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"github.com/ovpn-xdp/ovpn-xdp/internal/admin"
	"github.com/ovpn-xdp/ovpn-xdp/internal/config"
)

const (
	remoteHelp    = "outer `address:port` records are sent to; port 1194 if left out"
	localHelp     = "outer `address` records leave from, or auto: the one the peer used last"
	routeHelp     = "inner `prefix` that is behind this peer; may repeat"
	keepaliveHelp = "`interval:timeout` in seconds: a ping after so long without sending, the peer is\nremoved after so long without an authentic record; or off"
)

func (a *app) peerCommand() *cobra.Command {
	return parent(&cobra.Command{
		Use:   "peer",
		Short: "Add, change, show and remove peers",
		Long: `Add, change, show and remove peers of a running gateway. A peer's ID is the
24-bit peer id of DATA_V2 records, 0 to 16777214.`,
	}, a.peerAddCommand(), a.peerSetCommand(), a.peerListCommand(), a.peerGetCommand(), a.peerDelCommand())
}

func (a *app) peerAddCommand() *cobra.Command {
	var p admin.PeerAdd
	cmd := a.command(&cobra.Command{
		Use:   "add ID [flags]",
		Short: "Add a peer",
		Long: `Add a peer. Routes fill the gateway's peer table only: routes of the kernel that
lead to the TUN device are yours to set.`,
		Example: `  ovpn-xdp peer add 7 --remote 192.0.2.1:1194 --route 10.9.0.2/32 --keepalive 10:60`,
		Args:    cobra.ExactArgs(1),
	}, func(cmd *cobra.Command, args []string) error {
		var err error
		if p.ID, err = parsePeerID(args[0]); err != nil {
			return err
		}
		if err := p.Validate(); err != nil {
			return usageError{err}
		}
		return a.call(cmd.Context(), admin.MethodPeerAdd, p)
	})
	addFlag(cmd, "remote", "", remoteHelp+"\n(default: learned from the first authentic record)", config.ParseEndpoint, storeIn(&p.Remote))
	addFlag(cmd, "local", "auto", localHelp, parseLocal, storeIn(&p.Local))
	addFlag(cmd, "route", "", routeHelp+" (default: none)", config.ParseRoute, appendTo(&p.Routes))
	addFlag(cmd, "keepalive", "off", keepaliveHelp, parseKeepalive, storeIn(&p.Keepalive))
	addFlag(cmd, "tx-id", "", "peer `id` to write into records sent to this peer (default: ID)", parseTxID, pointTo(&p.TxID))
	return cmd
}

func (a *app) peerSetCommand() *cobra.Command {
	var p admin.PeerSet
	var routes []netip.Prefix
	var noRoutes bool
	cmd := a.command(&cobra.Command{
		Use:     "set ID [flags]",
		Short:   "Change a peer",
		Long:    "Change a peer. What is not given stays as it is.",
		Example: `  ovpn-xdp peer set 7 --keepalive 10:120`,
		Args:    cobra.ExactArgs(1),
	}, func(cmd *cobra.Command, args []string) error {
		var err error
		if p.ID, err = parsePeerID(args[0]); err != nil {
			return err
		}
		if noRoutes && len(routes) > 0 {
			return usagef("peer %d: --route and --no-routes exclude each other", p.ID)
		}
		if noRoutes {
			routes = []netip.Prefix{}
		}
		if routes != nil {
			p.Routes = &routes
		}
		if err := p.Validate(); err != nil {
			return usageError{err}
		}
		return a.call(cmd.Context(), admin.MethodPeerSet, p)
	})
	addFlag(cmd, "remote", "", remoteHelp, config.ParseEndpoint, pointTo(&p.Remote))
	addFlag(cmd, "local", "", localHelp, parseLocal, pointTo(&p.Local))
	addFlag(cmd, "route", "", routeHelp+"; all together replace\nthe peer's routes", config.ParseRoute, appendTo(&routes))
	cmd.Flags().BoolVar(&noRoutes, "no-routes", false, "remove all routes of the peer")
	addFlag(cmd, "keepalive", "", keepaliveHelp+"; restarts both timers", parseKeepalive, pointTo(&p.Keepalive))
	return cmd
}

func (a *app) peerListCommand() *cobra.Command {
	var asJSON bool
	cmd := a.command(&cobra.Command{
		Use:   "list [flags]",
		Short: "List all peers",
	}, func(cmd *cobra.Command, _ []string) error {
		var list admin.PeerList
		err := a.ask(cmd.Context(), func(c *admin.Client) error {
			return c.Call(cmd.Context(), admin.MethodPeerList, nil, &list)
		})
		if err != nil {
			return err
		}
		if asJSON {
			return a.printJSON(struct {
				Version int `json:"version"`
				admin.PeerList
			}{admin.Version, list})
		}
		return writePeerTable(a.stdout, list.Peers, time.Now())
	})
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) peerGetCommand() *cobra.Command {
	var asJSON bool
	cmd := a.command(&cobra.Command{
		Use:   "get ID [flags]",
		Short: "Show one peer",
		Args:  cobra.ExactArgs(1),
	}, func(cmd *cobra.Command, args []string) error {
		id, err := parsePeerID(args[0])
		if err != nil {
			return err
		}
		var p admin.Peer
		err = a.ask(cmd.Context(), func(c *admin.Client) error {
			return c.Call(cmd.Context(), admin.MethodPeerGet, admin.PeerRef{ID: id}, &p)
		})
		if err != nil {
			return err
		}
		if asJSON {
			return a.printJSON(struct {
				Version int        `json:"version"`
				Peer    admin.Peer `json:"peer"`
			}{admin.Version, p})
		}
		return writePeer(a.stdout, &p, time.Now())
	})
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) peerDelCommand() *cobra.Command {
	return a.command(&cobra.Command{
		Use:   "del ID",
		Short: "Remove a peer and its keys",
		Args:  cobra.ExactArgs(1),
	}, func(cmd *cobra.Command, args []string) error {
		id, err := parsePeerID(args[0])
		if err != nil {
			return err
		}
		return a.call(cmd.Context(), admin.MethodPeerDel, admin.PeerRef{ID: id})
	})
}

func formatKeepalive(k admin.Keepalive) string {
	if k == (admin.Keepalive{}) {
		return "off"
	}
	return fmt.Sprintf("%d:%d s", k.Interval, k.Timeout)
}
