// SPDX-License-Identifier: Apache-2.0

package ovpnconf

import (
	"fmt"
	"strings"
	"time"
)

// handler reads one option of a configuration.
type handler = func(*reader, Line) answer

// part is what an option is kept in.
type part interface{ Common | Server | Profile }

// in returns that part of what is being read.
func in[P part](r *reader) *P {
	switch any((*P)(nil)).(type) {
	case *Server:
		return any(r.s).(*P)
	case *Profile:
		return any(r.p).(*P)
	}
	return any(r.c).(*P)
}

// The makers of handlers for the common kinds of options.

func toggle[P part](at func(*P) *bool) handler {
	return func(r *reader, _ Line) answer {
		*at(in[P](r)) = true
		return fine
	}
}

func number[P part](lo, hi int, at func(*P) *int) handler {
	return func(r *reader, l Line) answer {
		n, err := parseInt(l.Args[0], int64(lo), int64(hi))
		if err != nil {
			return refuse(fmt.Sprintf("give a number from %d to %d", lo, hi), "%v", err)
		}
		*at(in[P](r)) = int(n)
		return fine
	}
}

func seconds[P part](lo int64, at func(*P) *time.Duration) handler {
	return func(r *reader, l Line) answer {
		d, err := parseSeconds(l.Args[0], lo)
		if err != nil {
			return refuse("give whole seconds", "%v", err)
		}
		*at(in[P](r)) = d
		return fine
	}
}

func value[P part](at func(*P) *string) handler {
	return func(r *reader, l Line) answer {
		if l.Args[0] == "" {
			return refuse("give a value", "its argument is empty")
		}
		*at(in[P](r)) = l.Args[0]
		return fine
	}
}

// pathAt is value for a file or folder.
func pathAt[P part](at func(*P) *string) handler {
	return func(r *reader, l Line) answer { return readPath(l, at(in[P](r))) }
}

func readPath(l Line, p *string) answer {
	if l.Args[0] == "" || l.Args[0] == "stdin" {
		return refuse("give the path of a file", "%q is no file, and there is no console to ask", l.Args[0])
	}
	*p = l.Args[0]
	return fine
}

func source[P part](at func(*P) *Source) handler {
	return func(r *reader, l Line) answer { return readSource(l, at(in[P](r))) }
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

func command[P part](at func(*P) *Command) handler {
	return func(r *reader, l Line) answer { return readCommand(l.Args[0], at(in[P](r))) }
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

func oneOf[P part](allowed string, at func(*P) *string) handler {
	return func(r *reader, l Line) answer {
		for w := range strings.FieldsSeq(allowed) {
			if w == l.Args[0] {
				*at(in[P](r)) = w
				return fine
			}
		}
		return refuse("one of: "+strings.Join(strings.Fields(allowed), ", "), "%q is not possible", printable(l.Args[0]))
	}
}
