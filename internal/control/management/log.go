// SPDX-License-Identifier: Apache-2.0

package management

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"time"
)

// defaultLines is OpenVPN's management-log-cache.
const defaultLines = 250

// Log keeps the newest log lines for the log command. Safe for concurrent use.
type Log struct {
	mu     sync.Mutex
	lines  []string // a ring once it is full
	oldest int
	limit  int
	follow func(line string)
}

// NewLog keeps n lines of at most 1,024 bytes; 0 is OpenVPN's default of 250
// (management-log-cache).
func NewLog(n int) *Log {
	if n <= 0 {
		n = defaultLines
	}
	return &Log{limit: n}
}

// Handler returns a handler that keeps each record and then gives it to next, which
// decides what is enabled.
func (l *Log) Handler(next slog.Handler) slog.Handler { return &handler{log: l, next: next} }

func (l *Log) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) < l.limit {
		l.lines = append(l.lines, line)
	} else {
		l.lines[l.oldest] = line
		l.oldest = (l.oldest + 1) % l.limit
	}
	if l.follow != nil {
		l.follow(line)
	}
}

// recent returns the newest n lines, oldest first.
func (l *Log) recent(n int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	n = min(n, len(l.lines))
	out := make([]string, 0, n)
	for i := len(l.lines) - n; i < len(l.lines); i++ {
		out = append(out, l.lines[(l.oldest+i)%len(l.lines)])
	}
	return out
}

// tell has fn called with each new line, until another call; nil is nobody. fn must not
// block, nor log.
func (l *Log) tell(fn func(line string)) {
	l.mu.Lock()
	l.follow = fn
	l.mu.Unlock()
}

// handler is the slog side of a Log.
type handler struct {
	log    *Log
	next   slog.Handler
	attrs  string // of WithAttrs, as text
	groups string // of WithGroup: "a.b."
}

func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	at := r.Time
	if at.IsZero() {
		at = time.Now()
	}
	b := strconv.AppendInt(nil, at.Unix(), 10)
	b = append(b, ',')
	b = append(b, flag(r.Level)...)
	b = append(b, ',')
	b = append(b, visible(r.Message)...)
	b = append(b, h.attrs...)
	r.Attrs(func(a slog.Attr) bool {
		b = appendAttr(b, h.groups, a)
		return len(b) < maxText
	})
	h.log.add(cut(string(b)))
	return h.next.Handle(ctx, r)
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *h
	var b []byte
	for _, a := range attrs {
		b = appendAttr(b, h.groups, a)
	}
	c.attrs += string(b)
	c.next = h.next.WithAttrs(attrs)
	return &c
}

func (h *handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	c := *h
	c.groups += name + "."
	c.next = h.next.WithGroup(name)
	return &c
}
