// SPDX-License-Identifier: Apache-2.0

package testlab

import (
	"bytes"
	"fmt"
	"os/exec"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Command prepares a program to run in the namespace, found by the PATH. The
// network namespace is all that is different: the file system, /sys/fs/bpf too,
// is the caller's. The caller starts it and waits for it; what runs beside the
// test goes through Start, so that it doesn't outlive the lab.
func (ns *Namespace) Command(name string, args ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"--net=" + ns.Path(), "--", name}, args...)...)
}

// Output runs a program in the namespace to its end and returns what it wrote
// to stdout, or fails the test with what it wrote to stderr.
func (ns *Namespace) Output(name string, args ...string) string {
	if ns.lab.t != nil {
		ns.lab.t.Helper()
	}
	cmd := ns.Command(name, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		ns.lab.check(fmt.Errorf("run %s %q in %s: %w\n%s%s", name, args, ns.name, err, stdout.Bytes(), stderr.Bytes()))
	}
	return stdout.String()
}

// Process is a program that a lab started and will stop.
type Process struct {
	cmd    *exec.Cmd
	output lockedBuffer
	done   chan struct{}
	err    error
}

// Start starts a program in the namespace or fails the test. The lab stops it
// when it ends. nsenter executes the program in its own place, so PID is the program's.
func (ns *Namespace) Start(name string, args ...string) *Process {
	if ns.lab.t != nil {
		ns.lab.t.Helper()
	}
	p, err := ns.StartCommand(ns.Command(name, args...))
	ns.lab.check(err)
	return p
}

// StartCommand starts a command made by Command, whose Env or Stdin the caller
// may have set. Stdout and Stderr go to Process.Output unless they are set.
func (ns *Namespace) StartCommand(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, done: make(chan struct{})}
	if cmd.Stdout == nil {
		cmd.Stdout = &p.output
	}
	if cmd.Stderr == nil {
		cmd.Stderr = &p.output
	}
	// Children that outlive the program and hold its pipe must not hold up Stop.
	cmd.WaitDelay = 2 * time.Second
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %q in %s: %w", cmd.Args, ns.name, err)
	}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	ns.lab.mu.Lock()
	closed := ns.lab.closed
	if !closed {
		ns.lab.processes = append(ns.lab.processes, p)
	}
	ns.lab.mu.Unlock()
	if closed {
		p.Stop()
		return nil, fmt.Errorf("start %q in %s: lab is closed", cmd.Args, ns.name)
	}
	return p, nil
}

// PID is the process id, for signals and /proc.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Output is what the program wrote so far.
func (p *Process) Output() string { return p.output.String() }

// Done is closed when the program has ended and was reaped.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for the program's end and returns exec.Cmd's error for it.
func (p *Process) Wait() error {
	<-p.done
	return p.err
}

// Signal sends a signal; a program that has ended already is no error.
func (p *Process) Signal(sig unix.Signal) {
	select {
	case <-p.done:
	default:
		_ = p.cmd.Process.Signal(sig)
	}
}

// Stop asks the program to end by SIGTERM, kills it after 5 s, and reaps it.
func (p *Process) Stop() {
	p.Signal(unix.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(5 * time.Second):
		p.Signal(unix.SIGKILL)
		<-p.done
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
