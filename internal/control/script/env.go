// SPDX-License-Identifier: Apache-2.0

package script

import (
	"maps"
	"os"
	"slices"
	"strings"
)

// maxValue bounds a value in bytes; longer ones are cut. An environment holds
// 128 KiB in one string.
const maxValue = 8192

// Env is a command's environment. The zero value is empty.
type Env struct{ vars map[string]string }

// Set sets a variable. In its name everything but letters, digits and `_`
// becomes `_`; in its value control characters do, as with stock OpenVPN.
func (e *Env) Set(name, value string) { e.set(name, strings.Map(visible, value)) }

// SetExact sets a variable whose value is given over as it is, but for NULs, which
// end it: a password.
func (e *Env) SetExact(name, value string) {
	value, _, _ = strings.Cut(value, "\x00")
	e.set(name, value)
}

func (e *Env) set(name, value string) {
	if e.vars == nil {
		e.vars = map[string]string{}
	}
	e.vars[strings.Map(nameRune, name)] = value[:min(len(value), maxValue)]
}

func nameRune(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
		return r
	}
	return '_'
}

func visible(r rune) rune {
	if r < ' ' || r == 0x7f {
		return '_'
	}
	return r
}

// Get returns a variable's value.
func (e *Env) Get(name string) string { return e.vars[name] }

// Clone returns an independent copy.
func (e *Env) Clone() *Env { return &Env{maps.Clone(e.vars)} }

// list returns the environment as a process gets it. Beside what was set it holds
// our own PATH, since commands are mostly scripts that call others.
func (e *Env) list() []string {
	out := []string{}
	if _, ok := e.vars["PATH"]; !ok {
		path := os.Getenv("PATH")
		if path == "" {
			path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
		}
		out = append(out, "PATH="+path)
	}
	for _, name := range slices.Sorted(maps.Keys(e.vars)) {
		out = append(out, name+"="+e.vars[name])
	}
	return out
}
