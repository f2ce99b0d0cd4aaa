// SPDX-License-Identifier: Apache-2.0

package script

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// lines is a log to look into.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func newRunner(t *testing.T) (*Runner, *lines, string) {
	t.Helper()
	log, dir := &lines{}, t.TempDir()
	return New(Config{TempDir: dir, Log: slog.New(slog.NewTextHandler(log, nil))}), log, dir
}

// sh is a command that runs a shell of its own making.
func sh(t *testing.T, text string) Command {
	t.Helper()
	path := filepath.Join(t.TempDir(), "command")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
	return Command{path}
}

func soon(t *testing.T) context.Context {
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(stop)
	return ctx
}

// TestNoShell: arguments and values arrive as they are.
func TestNoShell(t *testing.T) {
	r, _, dir := newRunner(t)
	out := filepath.Join(dir, "out")
	var env Env
	env.Set("common_name", "$(touch "+dir+"/pwned) `id`\n; rm -rf /")
	c := append(sh(t, `printf '%s|%s|%s' "$1" "$2" "$common_name" > `+out+"\n"), "$(touch "+dir+"/pwned)")
	if code, err := r.Run(soon(t), c, &env, "a b; 'c"); code != 0 || err != nil {
		t.Fatal(code, err)
	}
	got, _ := os.ReadFile(out)
	if want := "$(touch " + dir + "/pwned)|a b; 'c|$(touch " + dir + "/pwned) `id`_; rm -rf /"; string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := os.Stat(filepath.Join(dir, "pwned")); err == nil {
		t.Error("something was executed")
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("SECRET_OF_OURS", "x")
	r, _, dir := newRunner(t)
	out := filepath.Join(dir, "out")
	var env Env
	env.Set("odd name=x", "1")
	env.Set("tab", "a\tb\x7f")
	env.Set("long", strings.Repeat("l", 100_000))
	if _, err := r.Run(soon(t), sh(t, "env > "+out+"\n"), &env); err != nil {
		t.Fatal(err)
	}
	b, _ := os.ReadFile(out)
	got := string(b)
	for _, want := range []string{"odd_name_x=1\n", "tab=a_b_\n", "PATH=/"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%.500s", want, got)
		}
	}
	if strings.Contains(got, "SECRET_OF_OURS") {
		t.Error("our own environment was handed on")
	}
}

func TestExitCodes(t *testing.T) {
	r, _, _ := newRunner(t)
	if code, err := r.Run(soon(t), sh(t, "exit 3\n"), &Env{}); code != 3 || err != nil {
		t.Errorf("%d, %v", code, err)
	}
	if err := r.Ask(soon(t), sh(t, "exit 1\n"), &Env{}); !errors.Is(err, ErrRefused) {
		t.Errorf("%v", err)
	}
	if err := r.Ask(soon(t), Command{"/no/such/program"}, &Env{}); err == nil || errors.Is(err, ErrRefused) {
		t.Errorf("%v", err)
	}
	if _, err := r.Run(soon(t), sh(t, "kill -9 $$\n"), &Env{}); err == nil {
		t.Error("a killed command has an exit code")
	}
	if _, err := r.Run(soon(t), nil, &Env{}); err == nil {
		t.Error("no command was run")
	}
}

// TestTimeIsUp ends a command with all its children.
func TestTimeIsUp(t *testing.T) {
	r, _, dir := newRunner(t)
	ready := filepath.Join(dir, "ready")
	ctx, stop := context.WithCancel(soon(t))
	defer stop()
	go func() {
		for {
			if _, err := os.Stat(ready); err == nil {
				stop()
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	_, err := r.Run(ctx, sh(t, "trap '' TERM\n(trap '' TERM; sleep 600) &\necho $! > "+ready+"\nwait\nsleep 600\n"), &Env{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	pid, _ := os.ReadFile(ready)
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		state, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat")
		if err != nil || strings.Contains(string(state), ") Z ") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("a child outlives the command")
		}
	}
}

// TestOutputIsBounded and cannot make lines of its own in the log.
func TestOutputIsBounded(t *testing.T) {
	r, log, _ := newRunner(t)
	if _, err := r.Run(soon(t), sh(t, "printf 'esc\\033[31m\\n'; yes | head -n 10000; head -c 100000 /dev/zero; echo\n"), &Env{}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(log.String(), "\n"); n > maxLines+2 {
		t.Errorf("%d lines logged", n)
	}
	if strings.Contains(log.String(), "\x1b") {
		t.Error("an escape sequence is in the log")
	}
}

// TestOutputOfAChild that outlives the command does not hold it up for long.
func TestOutputOfAChild(t *testing.T) {
	r, _, _ := newRunner(t)
	done := make(chan error, 1)
	go func() { _, err := r.Run(soon(t), sh(t, "sleep 15 &\nexit 0\n"), &Env{}); done <- err }()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(14 * time.Second):
		t.Error("waits for a child that holds the output open")
	}
}

// TestDescriptors: a command has three, and ours are not among them.
func TestDescriptors(t *testing.T) {
	r, _, dir := newRunner(t)
	out := filepath.Join(dir, "out")
	if _, err := r.Run(soon(t), sh(t, "ls -l /proc/$$/fd > "+out+"\n"), &Env{}); err != nil {
		t.Fatal(err)
	}
	b, _ := os.ReadFile(out)
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, "->") && !strings.Contains(line, "pipe:") && !strings.Contains(line, "/dev/null") && !strings.Contains(line, "/command") && !strings.Contains(line, out) {
			t.Errorf("descriptor %s", line)
		}
	}
}

func FuzzEnv(f *testing.F) {
	f.Add("name", "value\n$(x)")
	f.Fuzz(func(t *testing.T, name, value string) {
		var e Env
		e.Set(name, value)
		for _, kv := range e.list() {
			if strings.ContainsRune(kv, 0) || !strings.Contains(kv, "=") {
				t.Fatalf("%q", kv)
			}
		}
		for n, v := range e.vars {
			if nameOf(n) != n || len(v) > maxValue {
				t.Fatalf("%q=%q", n, v)
			}
		}
	})
}
