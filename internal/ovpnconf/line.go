// SPDX-License-Identifier: Apache-2.0

package ovpnconf

import "fmt"

// Line is one option as it was written.
type Line struct {
	// File is the path as it was opened, "command line" for arguments, or what the
	// caller named a text that came from elsewhere.
	File string
	// Number is the line in File from 1 (an inline block's is its first), or the
	// number of the argument on the command line. 0: the finding is about the
	// whole file.
	Number int
	// Option is the name without leading dashes.
	Option string
	Args   []string
	// Inline is the content of an inline block, whose Args are empty; nil: none.
	Inline *string
	// fault is what the lexer found wrong with the line.
	fault *fault
}

// fault is why a line could not be read.
type fault struct{ why, remedy string }

// Position returns "file:line" for messages.
func (l Line) Position() string {
	switch {
	case l.File == "" && l.Number == 0:
		return "configuration"
	case l.Number == 0:
		return l.File
	case l.File == CommandLine:
		return CommandLine
	}
	return fmt.Sprintf("%s:%d", l.File, l.Number)
}

// CommandLine is Line.File of options given as arguments.
const CommandLine = "command line"
