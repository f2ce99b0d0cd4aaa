// SPDX-License-Identifier: Apache-2.0

package management

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

// text is a log's newest line without its time.
func text(l *Log) string {
	_, line, _ := strings.Cut(strings.Join(l.recent(1), ""), ",")
	return line
}

func TestLogText(t *testing.T) {
	var next bytes.Buffer
	l := NewLog(0)
	log := slog.New(l.Handler(slog.NewTextHandler(&next, nil)))

	log.Info("client connected", "client", "alice/10.99.0.2:41008", "cid", 7)
	if got, want := text(l), "I,client connected client=alice/10.99.0.2:41008 cid=7"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	log.With("a", 1).WithGroup("g").With("b", 2).Error("x", "c", 3, slog.Group("h", "d", 4), slog.Group("", "e", 5))
	if got, want := text(l), "N,x a=1 g.b=2 g.c=3 g.h.d=4 g.e=5"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	log.WithGroup("").Warn("evil\r\n>STATE:\x1b", "cn", "a\nb", "none", "", "err", errors.New("no such file"), "k\n", `q"`)
	if got, want := text(l), `W,evil__>STATE:_ cn="a\nb" none="" err="no such file" k_="q\""`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	log.Debug("hidden")
	if got := text(l); !strings.HasPrefix(got, "W,") {
		t.Errorf("a record that next does not want was kept: %q", got)
	}
	if n := strings.Count(next.String(), "\n"); n != 3 || !strings.Contains(next.String(), "a=1 g.b=2 g.c=3") {
		t.Errorf("next got %s", next.String())
	}
	log.Info(strings.Repeat("ä", maxText), "k", "v")
	if line := l.recent(1)[0]; len(line) > maxText || len(line) < maxText-4 || !utf8.ValidString(line) {
		t.Errorf("a long line has %d bytes", len(line))
	}
}

func TestLogKeepsTheNewest(t *testing.T) {
	l := NewLog(3)
	for i := range 8 {
		for n := range 5 {
			var want []string
			for k := max(0, i-min(n, 3)); k < i; k++ {
				want = append(want, fmt.Sprint(k))
			}
			if got := l.recent(n); !slices.Equal(got, want) {
				t.Errorf("after %d lines, the newest %d are %q, want %q", i, n, got, want)
			}
		}
		l.add(fmt.Sprint(i))
	}
}

func TestLogFromManyGoroutines(t *testing.T) {
	l := NewLog(10)
	heard := 0
	l.tell(func(string) { heard++ })
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			log := slog.New(l.Handler(slog.DiscardHandler))
			h := l.Handler(slog.NewTextHandler(&bytes.Buffer{}, nil))
			for range 100 {
				log.Info("discarded")
				slog.New(h).With("k", "v").Info("kept")
				l.recent(5)
			}
		})
	}
	wg.Wait()
	if heard != 400 || len(l.recent(100)) != 10 {
		t.Errorf("heard %d lines, kept %d", heard, len(l.recent(100)))
	}
}
