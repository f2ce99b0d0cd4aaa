// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"log/slog"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/internal/config"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/management"
	"github.com/ovpn-xdp/ovpn-xdp/internal/ovpnconf"
)

// RunFixed runs a gateway whose peers and keys come by the admin socket.
func RunFixed(ctx context.Context, cfg config.Run, log *slog.Logger) error {
	return Run(ctx, cfg, nil, log)
}

// Serve runs a gateway for an OpenVPN server's configuration until ctx ends. load
// reads the configuration again, for SIGHUP; SIGUSR2 writes the status file.
func Serve(ctx context.Context, cfg config.Run, conf *ovpnconf.Server, load func() (*ovpnconf.Server, error), h slog.Handler) error {
	lines := management.NewLog(conf.Management.LogCache)
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2)
	defer signal.Stop(signals)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	return Run(ctx, cfg, &Server{Conf: conf, Load: load, Lines: lines, Signals: signals, Stop: stop}, slog.New(lines.Handler(h)))
}
