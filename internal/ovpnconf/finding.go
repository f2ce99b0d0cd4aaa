// SPDX-License-Identifier: Apache-2.0

package ovpnconf

import "strings"

// Verdict says what becomes of an option.
type Verdict uint8

// The verdicts.
const (
	// Honoured: the option does what it says. With a Why there is something to
	// know about it.
	Honoured Verdict = iota
	// Ignored: it has no effect here, and that is safe.
	Ignored
	// Refused: the gateway does not start with it.
	Refused
)

func (v Verdict) String() string { return [...]string{"honoured", "ignored", "refused"}[v] }

// Finding is the verdict of one line, or of the file as a whole.
type Finding struct {
	Line    Line
	Verdict Verdict
	// Why is empty when an option is honoured and there is nothing to say.
	Why string
	// Remedy is what to do about it, or empty.
	Remedy string
}

// String returns position, option, reason and remedy in one line.
func (f Finding) String() string {
	var b strings.Builder
	b.WriteString(f.Line.Position())
	if f.Line.Option != "" {
		b.WriteString(": " + f.Line.Option)
	}
	b.WriteString(" is " + f.Verdict.String())
	if f.Why != "" {
		b.WriteString(": " + f.Why)
	}
	if f.Remedy != "" {
		b.WriteString("; " + f.Remedy)
	}
	return b.String()
}

// Usable says whether no finding refuses.
func Usable(findings []Finding) bool {
	for _, f := range findings {
		if f.Verdict == Refused {
			return false
		}
	}
	return true
}
