// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/ovpn-xdp/ovpn-xdp/internal/config"
	"github.com/ovpn-xdp/ovpn-xdp/internal/ovpnconf"
)

// ownFlags are the flags of `run` that stand for an xdp- option when they come with
// --config. Other flags are OpenVPN's own there. The value tells whether the flag takes
// one.
var ownFlags = map[string]bool{
	"nic": true, "queues": true, "ring-size": true, "batch": true, "prefetch": true, "workers": true, "name": true, "run-dir": true,
	"state-dir": true, "pin-dir": true, "ready-file": true, "log-format": true, "no-tun-offload": false, "no-udp-gso": false, "no-udp-gro": false,
}

// configArgs returns the arguments of a `run` that has an OpenVPN configuration;
// ok is false for any other command line. `run` may be left out, so that a
// unit file needs nothing but another program in it.
func configArgs(args []string) (rest []string, ok bool) {
	if len(args) > 0 && args[0] == "run" {
		args = args[1:]
	} else if len(args) == 0 || !strings.HasPrefix(args[0], "--") {
		return nil, false
	}
	for _, a := range args {
		if a == "--help" {
			return nil, false
		}
		ok = ok || a == "--config" || strings.HasPrefix(a, "--config=")
	}
	return args, ok
}

// serveArgs turns the command line of `run --config` into OpenVPN's form.
func serveArgs(args []string) []string {
	var out []string
	for n, a := range args {
		name, isFlag := strings.CutPrefix(a, "--")
		name, value, joined := strings.Cut(name, "=")
		if !isFlag {
			out = append(out, a)
			continue
		}
		if _, own := ownFlags[name]; own {
			name = "xdp-" + name
		}
		next := value
		if !joined && n+1 < len(args) {
			next = args[n+1]
		}
		if name == "mode" && slices.Contains(config.Modes(), next) {
			name = "xdp-mode"
		}
		out = append(out, "--"+name)
		if joined {
			out = append(out, value)
		}
	}
	return out
}

// serve runs a gateway with a control channel.
func (a *app) serve(ctx context.Context, args []string) error {
	args = serveArgs(args)
	load := func() (*ovpnconf.Server, []ovpnconf.Finding, error) {
		lines, err := ovpnconf.FromArgs(args)
		if err != nil {
			return nil, nil, err
		}
		conf, findings := ovpnconf.Inspect(lines)
		for _, f := range findings {
			if f.Verdict == ovpnconf.Refused {
				err = fmt.Errorf("%s (ovpn-xdp check tells of every line)", f)
				break
			}
		}
		return conf, findings, err
	}
	conf, findings, err := load()
	if err != nil {
		return err
	}
	cfg, err := conf.Gateway(ctx)
	if err != nil {
		return err
	}
	cfg.Software = a.deps.Version
	notes := cfg.Complete()
	if err := cfg.Validate(); err != nil {
		return err
	}
	to, closeLog, err := logFile(conf.Log, a.stderr)
	if err != nil {
		return err
	}
	defer closeLog()
	level := new(slog.LevelVar)
	level.Set(cfg.LogLevel)
	handler := newHandler(to, cfg.LogFormat, level, conf.Log.SuppressTimestamps)
	log := slog.New(handler)
	for _, note := range notes {
		log.Warn(note)
	}
	for _, f := range findings {
		if f.Verdict == ovpnconf.Ignored || f.Why != "" {
			log.Warn(f.String())
		}
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // as in run
	return a.deps.Serve(ctx, cfg, conf, func() (*ovpnconf.Server, error) {
		conf, findings, err := load()
		if err != nil {
			return nil, err
		}
		level.Set(conf.Log.Level())
		for _, f := range findings {
			if f.Verdict == ovpnconf.Honoured && f.Why != "" {
				log.Warn(f.String())
			}
		}
		return conf, nil
	}, handler)
}

// logFile opens the file that `log` or `log-append` names.
func logFile(l ovpnconf.Log, stderr io.Writer) (io.Writer, func(), error) {
	if l.File == "" {
		return stderr, func() {}, nil
	}
	mode := os.O_CREATE | os.O_WRONLY | os.O_APPEND
	if !l.Append {
		mode |= os.O_TRUNC
	}
	f, err := os.OpenFile(l.File, mode, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("open log: %w", err)
	}
	return f, func() { f.Close() }, nil
}
