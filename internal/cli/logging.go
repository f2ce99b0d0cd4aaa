// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/config"
)

const (
	// logBurst lines with one message are let through in logPeriod: what a
	// hostile sender can provoke stays under 100 lines a minute per message,
	// some 20 MB a day.
	logBurst  = 10
	logPeriod = 10 * time.Second
	// logMessages bounds the memory for messages that are not constant.
	logMessages = 1024
)

// newLogger returns the gateway's logger: structured, one line per record,
// and limited per message.
func newLogger(w io.Writer, format string, level slog.Level) *slog.Logger {
	return slog.New(newHandler(w, format, level, false))
}

// newHandler is newLogger's handler; timeless leaves times out of text.
func newHandler(w io.Writer, format string, level slog.Leveler, timeless bool) slog.Handler {
	options := &slog.HandlerOptions{Level: level}
	if timeless {
		options.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}
	}
	var h slog.Handler
	if format == config.LogJSON {
		h = slog.NewJSONHandler(w, options)
	} else {
		h = slog.NewTextHandler(w, options)
	}
	return &limited{h, &limiter{seen: make(map[string]*budget)}}
}

// limited lets a burst of every message through and counts what it holds
// back.
type limited struct {
	slog.Handler
	*limiter
}

type limiter struct {
	mu   sync.Mutex
	seen map[string]*budget
}

type budget struct {
	start      time.Time
	used       int
	suppressed int
}

// admit reports whether a line with this message may be written now and how
// many were not since the last one that was.
func (l *limiter) admit(message string, now time.Time) (suppressed int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.seen[message]
	if b == nil {
		if len(l.seen) >= logMessages {
			clear(l.seen)
		}
		b = &budget{start: now}
		l.seen[message] = b
	}
	if now.Sub(b.start) >= logPeriod {
		b.start, b.used = now, 0
	}
	if b.used >= logBurst {
		b.suppressed++
		return 0, false
	}
	b.used++
	suppressed, b.suppressed = b.suppressed, 0
	return suppressed, true
}

func (h *limited) Handle(ctx context.Context, r slog.Record) error {
	suppressed, ok := h.admit(r.Message, r.Time)
	if !ok {
		return nil
	}
	if suppressed > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("suppressed", suppressed))
	}
	return h.Handler.Handle(ctx, r)
}

func (h *limited) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &limited{h.Handler.WithAttrs(attrs), h.limiter}
}

func (h *limited) WithGroup(name string) slog.Handler {
	return &limited{h.Handler.WithGroup(name), h.limiter}
}
