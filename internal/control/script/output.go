// SPDX-License-Identifier: Apache-2.0

package script

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxLines and maxLine bound what of one command's output is logged, in lines
	// and bytes of a line.
	maxLines = 50
	maxLine  = 1024
	// lineRate and lineBurst bound it over all commands, in lines a second and at
	// once: clients decide how often commands run.
	lineRate  = 20
	lineBurst = 400
	// drain is how long a command's end waits for the rest of its output.
	drain = 100 * time.Millisecond
	// linger is how long we listen to what a command has left running. It gets
	// SIGPIPE when it writes later. Longer than a deferred answer takes: the
	// hand-window is a minute by default.
	linger = 2 * time.Minute
	// maxLingering bounds how many are listened to at a time, each of which costs
	// a descriptor.
	maxLingering = 256
)

// output logs what commands print.
type output struct {
	log       *slog.Logger
	lingering atomic.Int64

	mu     sync.Mutex
	spare  float64 // lines that may be logged at once
	at     time.Time
	hidden int // lines left out since the last one that was logged
}

// follow logs what comes out of a pipe, until its end. The function that it returns
// is called when the command has ended, and waits a little for the rest.
func (o *output) follow(log *slog.Logger, from *os.File) (ended func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer from.Close()
		o.copy(log, from)
	}()
	return func() {
		select {
		case <-done:
			return
		case <-time.After(drain):
		}
		if o.lingering.Add(1) > maxLingering {
			o.lingering.Add(-1)
			_ = from.SetReadDeadline(time.Now())
			<-done
			return
		}
		_ = from.SetReadDeadline(time.Now().Add(linger))
		go func() { <-done; o.lingering.Add(-1) }()
	}
}

// copy logs a command's lines: the beginning of long ones, and the first of many.
func (o *output) copy(log *slog.Logger, from io.Reader) {
	lines := bufio.NewReaderSize(from, maxLine)
	for n := 0; ; n++ {
		line, more, err := lines.ReadLine()
		if err != nil {
			return
		}
		text := visible(string(line))
		for more && err == nil {
			_, more, err = lines.ReadLine()
		}
		if left, ok := o.take(n, time.Now()); ok {
			if left > 0 {
				o.log.Warn("lines that commands printed were left out", "count", left)
			}
			log.Info("command says", "line", text)
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return
		}
	}
}

// take reports whether line n of a command may be logged, and how many were left
// out before it.
func (o *output) take(n int, now time.Time) (left int, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.at.IsZero() {
		o.spare = lineBurst
	} else {
		o.spare = min(lineBurst, o.spare+max(0, now.Sub(o.at).Seconds())*lineRate)
	}
	o.at = now
	if n >= maxLines || o.spare < 1 {
		o.hidden++
		return 0, false
	}
	o.spare--
	left, o.hidden = o.hidden, 0
	return left, true
}
