// SPDX-License-Identifier: Apache-2.0

package script

import (
	"context"
	"os"
	"strconv"
	"strings"
)

const (
	// exitDeferred is the exit code of a command whose answer comes later.
	exitDeferred = 2
	// maxReason bounds what a client is told of a command's words, in bytes; a
	// control message has less than 1,024.
	maxReason = 512
)

// UserPass is a question about a user and a password.
type UserPass struct {
	Command  Command
	ViaFile  bool // else in the environment
	Username string
	Password string
	Env      *Env // not changed
	// Pending, if set, is told when the answer takes longer, at most once.
	Pending func(Pending)
	// Respond is run for each of the client's answers to a challenge (CR_RESPONSE,
	// base64 decoded) while the verdict is awaited, with the answer in a file; it says
	// its verdict in the same files. nil: answers are not heard.
	Respond   Command
	Responses <-chan string
}

// Pending is what a command says about an answer that takes longer.
type Pending struct {
	Timeout int    // seconds, from 1 on
	Method  string // webauth, openurl, crtext, ...
	Text    string // for the client, behind INFO_PRE; may be empty
}

// Verdict is the answer.
type Verdict struct {
	OK     bool
	Reason string // what the client is told, at most 512 bytes; may be empty
}

// asking is a question on its way.
type asking struct {
	r                        *Runner
	q                        *UserPass
	env                      *Env
	control, pending, failed string // paths
}

// VerifyUserPass asks a command and waits for its answer, also if that is
// deferred. An error says that it gave none before ctx ended; nobody is let in
// then. As with stock OpenVPN, control characters of user and password, line
// breaks above all, become `_`.
func (r *Runner) VerifyUserPass(ctx context.Context, q UserPass) (Verdict, error) {
	dir, err := r.folder()
	if err != nil {
		return Verdict{}, err
	}
	defer dir.remove()
	a := &asking{r: r, q: &q, env: q.Env.Clone()}
	for _, f := range []struct {
		name string
		path *string
	}{{"auth_control_file", &a.control}, {"auth_pending_file", &a.pending}, {"auth_failed_reason_file", &a.failed}} {
		if *f.path, err = dir.offer(a.env, f.name); err != nil {
			return Verdict{}, err
		}
	}
	user, password := Credential(q.Username), Credential(q.Password)
	a.env.Set("username", user)
	var args []string
	if q.ViaFile {
		path, err := dir.add("up", []byte(user+"\n"+password+"\n"))
		if err != nil {
			return Verdict{}, err
		}
		defer os.Remove(path)
		args = []string{path}
	}
	env := a.env
	if !q.ViaFile {
		env = env.Clone()
		env.Set("password", password)
	}
	code, err := r.Run(ctx, q.Command, env, args...)
	if err != nil {
		return Verdict{}, err
	}
	switch code {
	case 0:
		return Verdict{OK: true}, nil
	case exitDeferred:
		// The password is not left lying about while somebody looks for a telephone.
		if q.ViaFile {
			os.Remove(args[0])
		}
		return a.deferred(ctx)
	}
	return Verdict{Reason: a.reason()}, nil
}

// Credential is a user's name or password as commands get it.
func Credential(s string) string {
	s, _, _ = strings.Cut(s, "\x00")
	return visible(s)
}

// deferred waits for the verdict in a file: `1` or `0`. What the client is told
// until then has to be there already.
func (a *asking) deferred(ctx context.Context) (Verdict, error) {
	if a.q.Pending != nil {
		if text, err := readFile(a.pending); err == nil {
			if p, ok := parsePending(text); ok {
				a.q.Pending(p)
			}
		}
	}
	responses := a.q.Responses
	if a.q.Respond == nil {
		responses = nil
	}
	yes, err := await(ctx, a.control, responses, func(text string) { a.respond(ctx, text) })
	if err != nil || yes {
		return Verdict{OK: yes}, err
	}
	return Verdict{Reason: a.reason()}, nil
}

// respond runs the command for a client's answer to a challenge.
func (a *asking) respond(ctx context.Context, text string) {
	dir, err := a.r.folder()
	if err == nil {
		defer dir.remove()
		var path string
		if path, err = dir.add("cr_response", []byte(text)); err == nil {
			env := a.env.Clone()
			env.Set("script_type", "client-crresponse")
			_, err = a.r.Run(ctx, a.q.Respond, env, path)
		}
	}
	if err != nil {
		a.r.cfg.Log.Warn("client-crresponse failed", "error", err)
	}
}

// reason is the first line of what the command says to a client that it refuses.
func (a *asking) reason() string {
	text, _ := readFile(a.failed)
	text, _, _ = strings.Cut(text, "\n")
	text = visible(strings.TrimSpace(text))
	return text[:min(len(text), maxReason)]
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
	p := Pending{Timeout: n, Method: visible(strings.TrimSpace(lines[1]))}
	if len(lines) > 2 {
		p.Text = visible(strings.TrimSpace(lines[2]))
	}
	return p, true
}
