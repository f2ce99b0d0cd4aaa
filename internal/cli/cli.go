// SPDX-License-Identifier: Apache-2.0

// Package cli is the command line: it turns arguments into a gateway's
// options or into requests to a running one, and answers into text. What needs
// the kernel is handed in through Deps.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/ovpn-xdp/ovpn-xdp/internal/admin"
	"github.com/ovpn-xdp/ovpn-xdp/internal/config"
	"github.com/ovpn-xdp/ovpn-xdp/internal/ovpnconf"
)

// Exit codes.
const (
	ExitDone   = 0
	ExitFailed = 1
	ExitUsage  = 2
	// ExitBelow: running, but below the rung that was required.
	ExitBelow = 3
)

// Deps is what the commands need from the rest of the program.
type Deps struct {
	// Version is the program's.
	Version string
	// Run is a gateway, from start to the end of ctx; nil means it stopped in
	// order.
	Run func(ctx context.Context, cfg config.Run, log *slog.Logger) error
	// Serve is Run with a control channel for an OpenVPN server's configuration. load
	// reads the configuration again; h is where the log goes.
	Serve func(ctx context.Context, cfg config.Run, conf *ovpnconf.Server, load func() (*ovpnconf.Server, error), h slog.Handler) error
	// Probe says what a NIC and this kernel offer, without disturbing either.
	Probe func(ctx context.Context, nic string) (ProbeReport, error)
}

// ProbeReport is the result of a probe: text for people, and JSON by
// json.Marshal, an object without a "version" of its own.
type ProbeReport interface {
	WriteText(w io.Writer) error
}

// app is one invocation.
type app struct {
	deps           Deps
	stdin          io.Reader
	stdout, stderr io.Writer
	// started: arguments were understood, so an error from here on is not
	// about usage.
	started bool

	name   string
	runDir string
}

// Run carries out one command line, without the program's name, and returns
// its exit code. Data goes to stdout, everything else to stderr.
func Run(ctx context.Context, deps Deps, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{deps: deps, stdin: stdin, stdout: stdout, stderr: stderr}
	if rest, ok := configArgs(args); ok {
		if err := a.serve(ctx, rest); err != nil {
			fmt.Fprintf(stderr, "ovpn-xdp: %v\n", err)
			return ExitFailed
		}
		return ExitDone
	}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return ExitDone
	}
	if below, ok := errors.AsType[*belowError](err); ok {
		fmt.Fprintf(stderr, "ovpn-xdp: %v\n", below)
		return ExitBelow
	}
	fmt.Fprintf(stderr, "ovpn-xdp: %v\n", err)
	if _, ok := errors.AsType[usageError](err); ok || !a.started {
		fmt.Fprintf(stderr, "Run '%s --help' for usage.\n", cmd.CommandPath())
		return ExitUsage
	}
	return ExitFailed
}

// usageError is an error about the arguments.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func (e usageError) Unwrap() error { return e.error }

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "ovpn-xdp",
		Short: "OpenVPN gateway with its data path on XDP and AF_XDP",
		Long: `ovpn-xdp is an OpenVPN gateway whose data path needs no kernel module: XDP and
tc programs steer DATA_V2 records into AF_XDP sockets, and everything else stays
with the kernel's stack.

Exit codes: 0 done, 1 failed, 2 usage, 3 running but below what was required.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return errors.New("no command given")
		},
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       a.deps.Version,
	}
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	flags := root.PersistentFlags()
	flags.SortFlags = false
	flags.StringVar(&a.name, "name", "", "the gateway's `name`: 1 to 15 letters, digits, '-' or '_'\n(default: the TUN device's for run, else the only one running)")
	flags.StringVar(&a.runDir, "run-dir", config.DefaultRunDir, "`folder` of admin sockets and locks, mode 0700")
	root.AddGroup(
		&cobra.Group{ID: "gateway", Title: "Gateway:"},
		&cobra.Group{ID: "peers", Title: "Peers and keys:"},
		&cobra.Group{ID: "look", Title: "Looking at it:"},
	)
	root.AddCommand(
		grouped("gateway", a.runCommand()),
		grouped("gateway", a.checkCommand()),
		grouped("gateway", a.attachCommand()),
		grouped("gateway", a.detachCommand()),
		grouped("peers", a.peerCommand()),
		grouped("peers", a.keyCommand()),
		grouped("look", a.statusCommand()),
		grouped("look", a.eventsCommand()),
		grouped("look", a.probeCommand()),
		grouped("look", a.replayCommand()),
		a.versionCommand(),
		a.manCommand(),
	)
	return root
}

func grouped(id string, cmd *cobra.Command) *cobra.Command {
	cmd.GroupID = id
	return cmd
}

// command fills in what all commands share. fn runs once the arguments are
// understood.
func (a *app) command(cmd *cobra.Command, fn func(cmd *cobra.Command, args []string) error) *cobra.Command {
	if cmd.Args == nil {
		cmd.Args = cobra.NoArgs
	}
	cmd.Flags().SortFlags = false
	cmd.DisableFlagsInUseLine = true
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a.started = true
		if a.name != "" {
			if err := config.ValidateName(a.name); err != nil {
				return usageError{err}
			}
		}
		return fn(cmd, args)
	}
	return cmd
}

// parent is a command that only holds others.
func parent(cmd *cobra.Command, children ...*cobra.Command) *cobra.Command {
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return fmt.Errorf("%s: no subcommand given", cmd.CommandPath())
	}
	cmd.AddCommand(children...)
	return cmd
}

// ask connects to the gateway that --name and --run-dir mean and calls fn.
func (a *app) ask(ctx context.Context, fn func(c *admin.Client) error) error {
	path, err := admin.Find(a.runDir, a.name)
	if err != nil {
		return err
	}
	c, err := admin.Dial(ctx, path)
	if err != nil {
		return err
	}
	defer c.Close()
	return fn(c)
}

// call makes one request without a result.
func (a *app) call(ctx context.Context, method string, params any) error {
	return a.ask(ctx, func(c *admin.Client) error { return c.Call(ctx, method, params, nil) })
}
