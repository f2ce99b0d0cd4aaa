// SPDX-License-Identifier: Apache-2.0

// Package script runs an operator's commands with the environment that stock
// OpenVPN gives them. Commands are programs with arguments: no shell ever sees
// them, or anything that a client has sent. They get no descriptors of ours,
// their output goes to the log, and what is handed over in files is readable
// to nobody else and gone afterwards.
package script

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// DefaultParallel is how many commands run at once; more wait.
	DefaultParallel = 64
	// DefaultWaiting is how many may wait; more are not run. With commands of a
	// tenth of a second, 64 at once, the last of 4,096 waits for 6 s.
	DefaultWaiting = 4096
	// killDelay is how long a command whose time is over has to end after SIGTERM.
	killDelay = 2 * time.Second
)

// ErrBusy is wrapped when a command was not run because too many others wait.
var ErrBusy = errors.New("too many commands wait")

// Command is a program and its arguments.
type Command []string

// Config is what a runner is made of.
type Config struct {
	// Dir is where commands run, and what relative paths of programs are relative
	// to; "": our own folder.
	Dir string
	// TempDir is where files handed over are made; "": the system's.
	TempDir  string
	Parallel int // 0: DefaultParallel
	Waiting  int // 0: DefaultWaiting
	Log      *slog.Logger
}

// Runner runs commands. It is safe for concurrent use.
type Runner struct {
	cfg     Config
	slots   chan struct{}
	waiting atomic.Int64
	out     output
}

// New makes a runner.
func New(cfg Config) *Runner {
	if cfg.Parallel == 0 {
		cfg.Parallel = DefaultParallel
	}
	if cfg.Waiting == 0 {
		cfg.Waiting = DefaultWaiting
	}
	return &Runner{cfg: cfg, slots: make(chan struct{}, cfg.Parallel), out: output{log: cfg.Log}}
}

// Run runs a command with more arguments behind its own, and returns its exit
// code, 0 to 255. An error says that it could not be run, was killed or did not
// end in time. When ctx ends, the command and what it has started in its process
// group are ended. What it leaves running when it exits by itself is left alone: a
// deferred answer may come from there. env is not kept.
func (r *Runner) Run(ctx context.Context, c Command, env *Env, args ...string) (code int, err error) {
	if len(c) == 0 {
		return 0, errors.New("no command")
	}
	if err := r.enter(ctx); err != nil {
		return 0, fmt.Errorf("run %s: %w", c[0], err)
	}
	defer func() { <-r.slots }()
	cmd := exec.CommandContext(ctx, c[0], append(c[1:len(c):len(c)], args...)...)
	cmd.Dir = r.cfg.Dir
	cmd.Env = env.list()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return killGroup(cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = killDelay
	read, write, err := os.Pipe()
	if err != nil {
		return 0, fmt.Errorf("run %s: %w", c[0], err)
	}
	cmd.Stdout, cmd.Stderr = write, write // standard input is /dev/null
	err = cmd.Start()
	write.Close()
	if err != nil {
		read.Close()
		return 0, fmt.Errorf("run %s: %w", c[0], err)
	}
	ended := r.out.follow(r.cfg.Log.With(env.about(c[0])...), read)
	err = cmd.Wait()
	if ctx.Err() != nil {
		// What it has left behind in its group shall not outlive its time.
		_ = killGroup(cmd.Process.Pid, syscall.SIGKILL)
	}
	ended()
	if ctx.Err() != nil {
		return 0, fmt.Errorf("run %s: %w", c[0], ctx.Err())
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() {
		return exit.ExitCode(), nil
	}
	if err != nil {
		return 0, fmt.Errorf("run %s: %w", c[0], err)
	}
	return 0, nil
}

// enter waits for a slot.
func (r *Runner) enter(ctx context.Context) error {
	select {
	case r.slots <- struct{}{}:
		return nil
	default:
	}
	if r.waiting.Add(1) > int64(r.cfg.Waiting) {
		r.waiting.Add(-1)
		return ErrBusy
	}
	defer r.waiting.Add(-1)
	select {
	case r.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrBusy, ctx.Err())
	}
}

func killGroup(pid int, sig syscall.Signal) error {
	if err := syscall.Kill(-pid, sig); err == syscall.ESRCH {
		return os.ErrProcessDone
	} else if err != nil {
		return err
	}
	return nil
}
