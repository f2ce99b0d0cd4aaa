// SPDX-License-Identifier: Apache-2.0

package script

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// eventually waits for what a process does beside us.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

// What a command has left running goes on, is heard, and holds nobody up.
func TestLingering(t *testing.T) {
	r, log, dir := newRunner(t)
	release, done := filepath.Join(dir, "release"), filepath.Join(dir, "done")
	text := "(while [ -d " + dir + " ] && [ ! -e " + release + " ]; do sleep 0.01; done; echo from behind && touch " + done + ") &\necho from before\nexit 2\n"
	if code, err := r.Run(soon(t), sh(t, text), &Env{}); code != 2 || err != nil {
		t.Fatal(code, err)
	}
	if got := log.String(); !strings.Contains(got, "from before") || strings.Contains(got, "from behind") {
		t.Errorf("logged: %s", got)
	}
	if err := os.WriteFile(release, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the child was ended", func() bool { _, err := os.Stat(done); return err == nil })
	eventually(t, "the child was not heard", func() bool { return strings.Contains(log.String(), "from behind") })
	eventually(t, "the child is still listened to", func() bool { return r.out.lingering.Load() == 0 })
}

func TestLongLine(t *testing.T) {
	r, log, _ := newRunner(t)
	r.out.copy(r.cfg.Log, strings.NewReader(strings.Repeat("a", 5000)+"\nbehind \xff it\n\x1b[2J\r\nlast"))
	got := log.String()
	if !strings.Contains(got, strings.Repeat("a", maxLine)) || strings.Contains(got, strings.Repeat("a", maxLine+1)) {
		t.Error("a long line is not cut")
	}
	for _, want := range []string{"behind", "line=_[2J", "line=last"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got[min(len(got), 1200):])
		}
	}
	if strings.Contains(got, "\x1b") || strings.Contains(got, "\r") {
		t.Error("control characters are in the log")
	}
}

func TestLineRate(t *testing.T) {
	o := &output{log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	now := time.Unix(1_800_000_000, 0)
	count := func(n int) (got int) {
		for range n {
			if _, ok := o.take(0, now); ok {
				got++
			}
		}
		return got
	}
	if got := count(lineBurst * 2); got != lineBurst {
		t.Errorf("%d lines at once, want %d", got, lineBurst)
	}
	now = now.Add(time.Second)
	if left, ok := o.take(0, now); !ok || left != lineBurst {
		t.Errorf("%v, %d left out, want %d", ok, left, lineBurst)
	}
	if got := count(lineBurst); got != lineRate-1 {
		t.Errorf("%d more lines in a second, want %d", got, lineRate-1)
	}
	now = now.Add(-time.Hour) // a clock that is set
	if got := count(lineBurst); got != 0 {
		t.Errorf("%d lines when the clock is set back", got)
	}
	now = now.Add(24 * time.Hour)
	if _, ok := o.take(maxLines, now); ok {
		t.Error("one command prints more than its share")
	}
}
