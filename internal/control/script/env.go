// SPDX-License-Identifier: Apache-2.0

package script

import (
	"maps"
	"net"
	"os"
	"slices"
)

// maxValue bounds a value in bytes; longer ones are cut. One string of an
// environment can have 128 KiB (MAX_ARG_STRLEN).
const maxValue = 8192

// defaultPath is what commands find others with if we have no PATH ourselves.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Env is a command's environment. The zero value is empty. It is not safe for
// concurrent use.
type Env struct{ vars map[string]string }

// Set sets a variable. In its name everything but ASCII letters, digits and `_`
// becomes `_`; in its value control characters do, as with stock OpenVPN, and
// everything else stays, also what is no UTF-8 or means something to a shell.
func (e *Env) Set(name, value string) {
	if e.vars == nil {
		e.vars = map[string]string{}
	}
	value = visible(value)
	e.vars[nameOf(name)] = value[:min(len(value), maxValue)]
}

func nameOf(s string) string {
	b := []byte(s)
	for i, c := range b {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9') {
			b[i] = '_'
		}
	}
	return string(b)
}

// visible replaces control characters of ASCII. Bytes from 0x80 on stay: they may be
// part of a name or a password in whatever character set a client has.
func visible(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c < ' ' || c == 0x7f {
			b[i] = '_'
		}
	}
	return string(b)
}

// Get returns a variable's value; "" if it is not set.
func (e *Env) Get(name string) string { return e.vars[name] }

// Clone returns an independent copy.
func (e *Env) Clone() *Env { return &Env{maps.Clone(e.vars)} }

// about is what says in the log which command is meant, and about whom.
func (e *Env) about(command string) []any {
	out := []any{"command", command}
	if e == nil {
		return out
	}
	for _, v := range []struct{ key, name string }{{"type", "script_type"}, {"client", "common_name"}, {"username", "username"}} {
		if value := e.vars[v.name]; value != "" {
			out = append(out, v.key, value)
		}
	}
	for _, family := range []string{"ip", "ip6"} {
		if ip := e.vars["untrusted_"+family]; ip != "" {
			out = append(out, "remote", net.JoinHostPort(ip, e.vars["untrusted_port"]))
		}
	}
	return out
}

// list returns the environment as a process gets it. Beside what was set it holds
// our own PATH, which stock does not hand on: commands are mostly scripts that call
// others.
func (e *Env) list() []string {
	out := []string{}
	if _, ok := e.vars["PATH"]; !ok {
		path := os.Getenv("PATH")
		if path == "" {
			path = defaultPath
		}
		out = append(out, "PATH="+path)
	}
	for _, name := range slices.Sorted(maps.Keys(e.vars)) {
		out = append(out, name+"="+e.vars[name])
	}
	return out
}
