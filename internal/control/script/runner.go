// SPDX-License-Identifier: Apache-2.0

// Package script runs an operator's commands with the environment that stock
// OpenVPN gives them. Commands are programs with arguments: no shell ever sees
// them, or anything that a client has sent. They get no descriptors of ours,
// their output goes to the log, and what is handed over in files is readable
// to nobody else and gone afterwards.
package script

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

const (
	// DefaultParallel is how many commands run at once; more wait.
	DefaultParallel = 64
	// killDelay is how long a command whose time is over has to end after SIGTERM.
	killDelay = 2 * time.Second
	// maxLines and maxLine bound what of a command's output is logged.
	maxLines = 50
	maxLine  = 1024
	// maxFile bounds what is read of a file that a command has written, in bytes.
	maxFile = 256 << 10
)

// Command is a program and its arguments.
type Command []string

// Config is what a runner is made of.
type Config struct {
	// Dir is where commands run; "": our own folder.
	Dir string
	// TempDir is where files handed over are made; "": the system's.
	TempDir  string
	Parallel int // 0: DefaultParallel
	Log      *slog.Logger
}

// Runner runs commands. It is safe for concurrent use.
type Runner struct {
	cfg   Config
	slots chan struct{}
}

// New makes a runner.
func New(cfg Config) *Runner {
	if cfg.Parallel == 0 {
		cfg.Parallel = DefaultParallel
	}
	return &Runner{cfg: cfg, slots: make(chan struct{}, cfg.Parallel)}
}

// Run runs a command with more arguments behind its own, and returns its exit
// code. An error says that it could not be run, or did not end in time.
func (r *Runner) Run(ctx context.Context, c Command, env *Env, args ...string) (code int, err error) {
	if len(c) == 0 {
		return 0, errors.New("no command")
	}
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return 0, fmt.Errorf("run %s: too many commands are running: %w", c[0], ctx.Err())
	}
	cmd := exec.CommandContext(ctx, c[0], append(c[1:len(c):len(c)], args...)...)
	cmd.Dir = r.cfg.Dir
	cmd.Env = env.list()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = killDelay
	read, write, err := os.Pipe()
	if err != nil {
		return 0, fmt.Errorf("run %s: %w", c[0], err)
	}
	cmd.Stdout, cmd.Stderr = write, write
	logged := make(chan struct{})
	go func() { defer close(logged); r.output(c[0], read) }()
	err = cmd.Run()
	write.Close()
	if cmd.Process != nil {
		// What it has left behind in its group shall not outlive its time.
		if ctx.Err() != nil {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
	}
	_ = read.SetReadDeadline(time.Now().Add(time.Second)) // a child of it may hold the other end
	<-logged
	read.Close()
	if ctx.Err() != nil {
		return 0, fmt.Errorf("run %s: %w", c[0], ctx.Err())
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		if exit.ExitCode() < 0 {
			return 0, fmt.Errorf("run %s: %w", c[0], err)
		}
		return exit.ExitCode(), nil
	}
	if err != nil {
		return 0, fmt.Errorf("run %s: %w", c[0], err)
	}
	return 0, nil
}

// output logs what a command prints.
func (r *Runner) output(name string, from io.Reader) {
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, maxLine), maxLine)
	n := 0
	for lines.Scan() {
		if n++; n <= maxLines {
			r.cfg.Log.Info("command says", "command", name, "line", strconv.QuoteToGraphic(lines.Text()))
		}
	}
	_, _ = io.Copy(io.Discard, from) // of a line that is too long
	if n > maxLines {
		r.cfg.Log.Info("command says more", "command", name, "lines_left_out", n-maxLines)
	}
}

// folder makes a private folder for files that are handed over.
func (r *Runner) folder() (dir string, remove func(), err error) {
	dir, err = os.MkdirTemp(r.cfg.TempDir, "ovpn-xdp-") // 0700
	if err != nil {
		return "", nil, fmt.Errorf("make folder for files: %w", err)
	}
	return dir, func() { os.RemoveAll(dir) }, nil
}

// readFile returns what a command has written into a file.
func readFile(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return "", err
	}
	if len(b) > maxFile {
		return "", fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	return string(b), nil
}
