// SPDX-License-Identifier: Apache-2.0

package ovpnconf

import (
	"fmt"
	"strings"
)

const (
	// maxArgs is the most words of a line, the option included, as OpenVPN's
	// MAX_PARMS. OpenVPN drops what is beyond; here the line is refused.
	maxArgs = 16
	// maxLine is the most bytes of a line. OpenVPN stops at 255, so every file it
	// reads is read here too; the rest is room for long cipher lists.
	maxLine = 4096
)

// splitWords cuts a line into words as OpenVPN does: white space separates,
// '#' and ';' begin a comment where a word could begin, double quotes and
// backslashes work as in a shell, single quotes keep everything. A closing quote
// ends the word even when no white space follows; a quote inside an unquoted word
// is a character like others.
func splitWords(line string) ([]string, *fault) {
	const (
		between = iota
		plain
		double
		single
	)
	var (
		words   []string
		word    strings.Builder
		state   = between
		escaped bool
	)
	done := func() {
		words = append(words, word.String())
		word.Reset()
		state = between
	}
	for i := 0; i <= len(line); i++ {
		end := i == len(line)
		var c byte
		if !end {
			c = line[i]
		}
		if c == 0 && !end {
			return nil, &fault{"it contains a NUL byte", "remove it: a text file has none"}
		}
		if !end && c == '\\' && !escaped && state != single {
			escaped = true
			continue
		}
		take := false
		switch state {
		case between:
			switch {
			case end || isSpace(c):
			case c == '#' || c == ';':
				return checked(words)
			case c == '"' && !escaped:
				state = double
			case c == '\'' && !escaped:
				state = single
			default:
				take, state = true, plain
			}
		case plain:
			if end || isSpace(c) && !escaped {
				done()
			} else {
				take = true
			}
		case double:
			if end {
				return nil, &fault{`a double quote is not closed`, `add the closing "`}
			}
			if c == '"' && !escaped {
				done()
			} else {
				take = true
			}
		case single:
			if end {
				return nil, &fault{"a single quote is not closed", "add the closing '"}
			}
			if c == '\'' {
				done()
			} else {
				take = true
			}
		}
		if escaped && take && c != '\\' && c != '"' && !isSpace(c) {
			return nil, &fault{fmt.Sprintf(`\%s is no escape sequence`, printable(string(c))), `write \\ for a backslash, or put the word into single quotes`}
		}
		escaped = false
		if take {
			word.WriteByte(c)
		}
	}
	return checked(words)
}

func checked(words []string) ([]string, *fault) {
	if len(words) > maxArgs {
		return nil, &fault{fmt.Sprintf("it has %d words, and OpenVPN reads %d", len(words), maxArgs), "split it, or put arguments that belong together into double quotes"}
	}
	return words, nil
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

// printable makes text from a file fit for a message: control characters and
// invalid UTF-8 become '?', and it is cut at 100 bytes.
func printable(s string) string {
	const limit = 100
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u2029' || r == '\uFFFD' {
			return '?'
		}
		return r
	}, s)
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + "..."
	}
	return s
}

// SplitCommand cuts the text of a command option into program and arguments,
// by the rules of configuration lines. There is no shell and no expansion.
func SplitCommand(text string) (Command, error) {
	words, f := splitWords(text)
	if f != nil {
		return nil, fmt.Errorf("split command %q: %s", printable(text), f.why)
	}
	if len(words) == 0 || words[0] == "" {
		return nil, fmt.Errorf("split command %q: no program in it", printable(text))
	}
	return words, nil
}
