// SPDX-License-Identifier: Apache-2.0

package ovpnconf

import (
	"fmt"
	"strings"
	"time"
)

// handler reads one option of a server's configuration.
type handler = func(*reader, Line) answer

// The makers of handlers for the common kinds of options.

func toggle(at func(*Server) *bool) handler {
	return func(r *reader, _ Line) answer {
		*at(r.s) = true
		return fine
	}
}

func number(lo, hi int, at func(*Server) *int) handler {
	return func(r *reader, l Line) answer {
		n, err := parseInt(l.Args[0], int64(lo), int64(hi))
		if err != nil {
			return refuse(fmt.Sprintf("give a number from %d to %d", lo, hi), "%v", err)
		}
		*at(r.s) = int(n)
		return fine
	}
}

func seconds(lo int64, at func(*Server) *time.Duration) handler {
	return func(r *reader, l Line) answer {
		d, err := parseSeconds(l.Args[0], lo)
		if err != nil {
			return refuse("give whole seconds", "%v", err)
		}
		*at(r.s) = d
		return fine
	}
}

func value(at func(*Server) *string) handler {
	return func(r *reader, l Line) answer {
		if l.Args[0] == "" {
			return refuse("give a value", "its argument is empty")
		}
		*at(r.s) = l.Args[0]
		return fine
	}
}

// pathAt is value for a file or folder.
func pathAt(at func(*Server) *string) handler {
	return func(r *reader, l Line) answer { return readPath(l, at(r.s)) }
}

func readPath(l Line, p *string) answer {
	if l.Args[0] == "" || l.Args[0] == "stdin" {
		return refuse("give the path of a file", "%q is no file, and there is no console to ask", l.Args[0])
	}
	*p = l.Args[0]
	return fine
}

func source(at func(*Server) *Source) handler {
	return func(r *reader, l Line) answer { return readSource(l, at(r.s)) }
}

// readSource takes the first argument as a path, or the inline block.
func readSource(l Line, s *Source) answer {
	if l.Inline != nil {
		if strings.TrimSpace(*l.Inline) == "" {
			return refuse("put the file's content between the tags", "its block is empty")
		}
		*s = Source{Inline: []byte(*l.Inline), Line: l}
		s.Line.Inline = nil // a key is kept in one place
		return fine
	}
	*s = Source{Line: l}
	return readPath(l, &s.Path)
}

func command(at func(*Server) *Command) handler {
	return func(r *reader, l Line) answer { return readCommand(l.Args[0], at(r.s)) }
}

func readCommand(line string, at *Command) answer {
	c, err := SplitCommand(line)
	if err != nil {
		return refuse("give a program and its arguments in one pair of quotes", "%v", err)
	}
	replaced := *at != nil
	*at = c
	if replaced {
		return note("it replaces the command given above")
	}
	return fine
}

func oneOf(allowed string, at func(*Server) *string) handler {
	return func(r *reader, l Line) answer {
		for w := range strings.FieldsSeq(allowed) {
			if w == l.Args[0] {
				*at(r.s) = w
				return fine
			}
		}
		return refuse("one of: "+strings.Join(strings.Fields(allowed), ", "), "%q is not possible", printable(l.Args[0]))
	}
}
