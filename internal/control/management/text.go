// SPDX-License-Identifier: Apache-2.0

package management

import (
	"log/slog"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxText is the most bytes of a log line.
const maxText = 1024

// flag is OpenVPN's letter for a level: debug, informational, warning, non-fatal error.
func flag(level slog.Level) string {
	switch {
	case level < slog.LevelInfo:
		return "D"
	case level < slog.LevelWarn:
		return "I"
	case level < slog.LevelError:
		return "W"
	}
	return "N"
}

// appendAttr appends " key=value", quoted where that is needed to find the value's end.
func appendAttr(dst []byte, group string, a slog.Attr) []byte {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		if a.Key != "" {
			group += a.Key + "."
		}
		for _, m := range v.Group() {
			dst = appendAttr(dst, group, m)
		}
		return dst
	}
	if a.Equal(slog.Attr{}) {
		return dst
	}
	dst = append(dst, ' ')
	dst = append(dst, visible(group+a.Key)...)
	dst = append(dst, '=')
	text := v.String()
	if text == "" || strings.ContainsAny(text, " =\"") || visible(text) != text {
		return strconv.AppendQuote(dst, text)
	}
	return append(dst, text...)
}

// visible replaces what would end a line or hide in it by '_'.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, s)
}

// cut shortens a line to maxText bytes, at a character.
func cut(s string) string {
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText-3], "") + "..."
}
