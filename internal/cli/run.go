// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ovpn-xdp/ovpn-xdp/internal/config"
)

func (a *app) runCommand() *cobra.Command {
	cfg := config.Defaults()
	cmd := &cobra.Command{
		Use:   "run [flags] | run --config FILE [--nic DEVICE] [OpenVPN options]",
		Short: "Run a gateway in the foreground",
		Long: `Run a gateway in the foreground until SIGTERM or SIGINT, which detach it and
exit with 0. Without --nic, records arrive by the UDP socket only.

With --config it is an OpenVPN server's configuration that is run: stock clients
connect, and 'ovpn-xdp check FILE' says what becomes of every line. Other arguments
are OpenVPN's then (--status FILE 10), and of the flags below --nic, --mode, --queues,
--ring-size, --batch, --prefetch, --workers, --name, --run-dir, --state-dir,
--pin-dir, --ready-file, --log-format and --no-... go on being what they are.

Without --config, peers and keys come from 'ovpn-xdp peer' and 'ovpn-xdp key'.`,
		Example: `  ovpn-xdp run --config /etc/openvpn/server.conf --nic eth0
  ovpn-xdp run --nic eth0 --listen 192.0.2.2:1194 --dev tun0 --address 10.9.0.1/24
  ovpn-xdp run --nic eth0 --mode xdp --queues 0-3 --p2p --address fd00:9::1/64`,
	}
	a.command(cmd, func(cmd *cobra.Command, _ []string) error {
		cfg.Name, cfg.RunDir, cfg.Software = a.name, a.runDir, a.deps.Version
		return a.run(cmd.Context(), cfg)
	})
	f := cmd.Flags()
	f.StringArrayVar(&cfg.NICs, "nic", nil, "network `device` whose traffic is steered; may repeat (default: none, socket only)")
	addFlag(cmd, "listen", "", "UDP `address:port` to listen on; may repeat. \":1194\" is every address of both\nfamilies, 0.0.0.0 and [::] every address of one; port 1194 if left out\n(default: :1194)",
		config.ParseListen, appendAll(&cfg.Listen))
	f.StringVar(&cfg.Dev, "dev", cfg.Dev, "`name` of the TUN device, which is made and removed")
	addFlag(cmd, "address", "", "`address/length` to set on the TUN device; may repeat (default: none)",
		config.ParsePrefix, appendTo(&cfg.Addresses))
	oneOf(cmd, &cfg.Mode, "mode", config.ModeAuto, "`rung` to take or fail: xdp-zerocopy, xdp, tc, socket or xdp-generic;\nauto takes the first that works and never xdp-generic", config.Modes())
	f.BoolVar(&cfg.P2P, "p2p", false, "one peer, everything is routed to it, inner sources are not checked")
	addFlag(cmd, "mark", "", "fwmark (SO_MARK) of outer packets, a `number` in decimal or 0x.. (default: 0, none)", parseMark, storeIn(&cfg.Mark))
	f.IntVar(&cfg.MTU, "mtu", cfg.MTU, "inner MTU in `bytes`, 68 to 65451")
	addFlag(cmd, "mssfix", "auto", "largest inner TCP packet, in `bytes`, that passing SYNs may agree on (IPv4 MSS + 40,\nIPv6 MSS + 60): 256 to 65535, auto for the inner MTU, off to leave them alone",
		config.ParseMSSFix, storeIn(&cfg.MSSFix))
	addFlag(cmd, "queues", "", "receive queues to bind, a `list` such as 0,2-3; records of the others take the\nsocket (default: all)", config.ParseQueues, storeIn(&cfg.Queues))
	f.IntVar(&cfg.RingSize, "ring-size", cfg.RingSize, "`descriptors` of every AF_XDP ring, 64 to 32768, rounded up to a power of two")
	f.IntVar(&cfg.Batch, "batch", cfg.Batch, "most `records` opened, merged or sent together, 1 to 64; 1 is each by itself from receive to send")
	f.IntVar(&cfg.Prefetch, "prefetch", cfg.Prefetch, "how many `records` ahead are prefetched, 0 to 64; 0 is off")
	f.IntVar(&cfg.Workers, "workers", 0, "outward `workers`, each with a TUN queue, 1 to 64; 0 is one for each CPU, at most 8\n(default: 0)")
	f.BoolVar(&cfg.NoTunOffload, "no-tun-offload", false, "exchange single packets with the TUN device instead of super-packets")
	f.BoolVar(&cfg.NoUDPGSO, "no-udp-gso", false, "send every record by itself (no UDP_SEGMENT)")
	f.BoolVar(&cfg.NoUDPGRO, "no-udp-gro", false, "receive every record by itself on the socket (no UDP_GRO)")
	f.StringVar(&cfg.PinDir, "pin-dir", cfg.PinDir, "`folder` of the BPF file system for pinned maps: <folder>/ovpn-xdp/<name>/<nic>")
	f.StringVar(&cfg.StateDir, "state-dir", cfg.StateDir, "`folder` of what outlives a restart (fingerprints of keys)")
	f.StringVar(&cfg.ReadyFile, "ready-file", "", "`file` to write once traffic can flow (default: none)")
	addFlag(cmd, "log-level", "info", "least `level` to log: debug, info, warn or error", parseLevel, storeIn(&cfg.LogLevel))
	oneOf(cmd, &cfg.LogFormat, "log-format", config.LogText, "`form` of the log on stderr: text or json", []string{config.LogText, config.LogJSON})
	_ = cmd.MarkFlagDirname("pin-dir")
	_ = cmd.MarkFlagDirname("state-dir")
	return cmd
}

func parseLevel(s string) (slog.Level, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(s)); err != nil {
		return level, fmt.Errorf("debug, info, warn or error")
	}
	return level, nil
}

func (a *app) run(ctx context.Context, cfg config.Run) error {
	notes := cfg.Complete()
	if err := cfg.Validate(); err != nil {
		return usageError{err}
	}
	log := newLogger(a.stderr, cfg.LogFormat, cfg.LogLevel)
	for _, note := range notes {
		log.Warn(note)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second signal ends the process at once: detaching may be what hangs.
	context.AfterFunc(ctx, stop)
	return a.deps.Run(ctx, cfg, log)
}
