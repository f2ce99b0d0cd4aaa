// SPDX-License-Identifier: Apache-2.0

package script

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	// exitDeferred is the exit code of a command whose answer comes later.
	exitDeferred = 2
	// pollEvery is how often the file of a deferred answer is looked at.
	pollEvery = 100 * time.Millisecond
)

// UserPass is a question about a user and a password.
type UserPass struct {
	Command  Command
	ViaFile  bool // else in the environment
	Username string
	Password string
	Env      *Env
	// Pending, if set, is told when the answer takes longer.
	Pending func(Pending)
	// Respond is run for each of the client's answers to a challenge (CR_RESPONSE,
	// base64 decoded) while the verdict is awaited, with the answer in a file; it says
	// its verdict in the same files. nil: answers are not heard.
	Respond   Command
	Responses <-chan string
}

// Pending is what a command says about an answer that takes longer.
type Pending struct {
	Timeout int    // seconds
	Method  string // webauth, openurl, crtext, ...
	Text    string // for the client, behind INFO_PRE; may be empty
}

// Verdict is the answer.
type Verdict struct {
	OK     bool
	Reason string // what the client is told; may be empty
}

// VerifyUserPass asks a command. An error says that it gave no answer; nobody
// is let in then.
func (r *Runner) VerifyUserPass(ctx context.Context, q UserPass) (Verdict, error) {
	dir, remove, err := r.folder()
	if err != nil {
		return Verdict{}, err
	}
	defer remove()
	file := func(name string) (string, error) {
		p := filepath.Join(dir, name)
		return p, os.WriteFile(p, nil, 0o600)
	}
	control, err1 := file("auth_control_file")
	pending, err2 := file("auth_pending_file")
	failed, err3 := file("auth_failed_reason_file")
	if err := errors.Join(err1, err2, err3); err != nil {
		return Verdict{}, fmt.Errorf("make files for the command: %w", err)
	}
	env := q.Env.Clone()
	env.Set("auth_control_file", control)
	env.Set("auth_pending_file", pending)
	env.Set("auth_failed_reason_file", failed)
	var args []string
	if q.ViaFile {
		path := filepath.Join(dir, "up")
		// A line break in one of them would move the other: as stock does, they are replaced.
		text := oneLine(q.Username) + "\n" + oneLine(q.Password) + "\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return Verdict{}, fmt.Errorf("write user and password: %w", err)
		}
		args = append(args, path)
		env.Set("username", q.Username)
	} else {
		env.Set("username", q.Username)
		env.SetExact("password", oneLine(q.Password))
	}
	code, err := r.Run(ctx, q.Command, env, args...)
	if err != nil {
		return Verdict{}, err
	}
	reason := func() string {
		text, _ := readFile(failed)
		text, _, _ = strings.Cut(text, "\n")
		return strings.Map(visible, strings.TrimSpace(text))
	}
	switch code {
	case 0:
		return Verdict{OK: true}, nil
	case exitDeferred:
		return r.deferred(ctx, q, env, control, pending, reason)
	}
	return Verdict{Reason: reason()}, nil
}

// respond runs the command for a client's answer to a challenge.
func (r *Runner) respond(ctx context.Context, q UserPass, env *Env, answer string) {
	dir, remove, err := r.folder()
	if err == nil {
		defer remove()
		path := filepath.Join(dir, "cr_response")
		if err = os.WriteFile(path, []byte(answer), 0o600); err == nil {
			env = env.Clone()
			env.Set("script_type", "client-crresponse")
			_, err = r.Run(ctx, q.Respond, env, path)
		}
	}
	if err != nil {
		r.cfg.Log.Warn("client-crresponse failed", "error", err)
	}
}

// oneLine replaces what would end a line.
func oneLine(s string) string {
	s, _, _ = strings.Cut(s, "\x00")
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\r' {
			return '_'
		}
		return r
	}, s)
}

// deferred waits for the verdict in a file: `1` or `0`.
func (r *Runner) deferred(ctx context.Context, q UserPass, env *Env, control, pending string, reason func() string) (Verdict, error) {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	told := false
	for {
		text, err := readFile(control)
		if err != nil {
			return Verdict{}, fmt.Errorf("read deferred answer: %w", err)
		}
		switch strings.TrimSpace(text) {
		case "1":
			return Verdict{OK: true}, nil
		case "0":
			return Verdict{Reason: reason()}, nil
		}
		if !told && q.Pending != nil {
			if text, err := readFile(pending); err == nil && text != "" {
				if p, ok := parsePending(text); ok {
					q.Pending(p)
					told = true
				}
			}
		}
		select {
		case <-ctx.Done():
			return Verdict{}, fmt.Errorf("deferred answer did not come: %w", ctx.Err())
		case answer := <-q.Responses:
			if q.Respond != nil {
				r.respond(ctx, q, env, answer)
			}
		case <-ticker.C:
		}
	}
}

// parsePending reads what a command says about a pending answer: timeout,
// method and, if the client is to be told more, that.
func parsePending(text string) (Pending, bool) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(lines) < 2 {
		return Pending{}, false
	}
	n, err := strconv.Atoi(strings.TrimSpace(lines[0]))
	if err != nil || n < 1 {
		return Pending{}, false
	}
	p := Pending{Timeout: n, Method: strings.Map(visible, strings.TrimSpace(lines[1]))}
	if len(lines) > 2 {
		p.Text = strings.Map(visible, strings.TrimSpace(lines[2]))
	}
	return p, true
}
