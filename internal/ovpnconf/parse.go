// SPDX-License-Identifier: Apache-2.0

package ovpnconf

import (
	"fmt"
	"strings"
)

// Parse reads the text of a configuration file; name stands for it in findings.
// `config` lines are returned as they are: only Read follows them.
func Parse(name, text string) []Line {
	var out []Line
	text = strings.TrimPrefix(text, "\uFEFF")
	number := 0
	next := func() (string, bool) {
		if text == "" {
			return "", false
		}
		var line string
		line, text, _ = strings.Cut(text, "\n")
		number++
		return line, true
	}
	for {
		raw, ok := next()
		if !ok {
			return out
		}
		l := Line{File: name, Number: number}
		if len(raw) > maxLine {
			l.Option = printable(firstWord(raw[:maxLine]))
			l.fault = &fault{fmt.Sprintf("the line has %d bytes, and %d are read", len(raw), maxLine), "split it, or put keys and certificates into an inline block"}
			out = append(out, l)
			continue
		}
		words, f := splitWords(raw)
		switch {
		case f != nil:
			l.Option = printable(firstWord(raw))
			l.fault = f
		case len(words) == 0:
			continue
		default:
			l.Option, l.Args = printable(bareName(words[0])), words[1:]
			if tag, ok := openTag(words); ok {
				l.Option, l.Args = printable(tag), nil
				body, ok := readBlock(tag, next)
				l.Inline = &body
				if !ok {
					l.fault = &fault{fmt.Sprintf("its block does not end: there is no </%s>", printable(tag)), fmt.Sprintf("add a line </%s>", printable(tag))}
				}
			}
		}
		out = append(out, l)
	}
}

func firstWord(s string) string {
	if f := strings.Fields(s); len(f) > 0 {
		return bareName(strings.Trim(f[0], `"'`))
	}
	return ""
}

// bareName takes the dashes of the command line off an option's name.
func bareName(s string) string {
	if rest, ok := strings.CutPrefix(s, "--"); ok && rest != "" {
		return rest
	}
	return s
}

func openTag(words []string) (string, bool) {
	if len(words) != 1 || len(words[0]) < 3 || words[0][0] != '<' || words[0][len(words[0])-1] != '>' {
		return "", false
	}
	return words[0][1 : len(words[0])-1], true
}

// readBlock returns the lines up to the closing tag, which may be indented.
func readBlock(tag string, next func() (string, bool)) (string, bool) {
	var body strings.Builder
	for {
		line, ok := next()
		if !ok {
			return body.String(), false
		}
		if strings.HasPrefix(strings.TrimLeft(line, " \t\r\v\f"), "</"+tag+">") {
			return body.String(), true
		}
		body.WriteString(strings.TrimSuffix(line, "\r"))
		body.WriteByte('\n')
	}
}
