// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// printJSON writes v as indented JSON; a json.RawMessage keeps the order of
// its members.
func (a *app) printJSON(v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "  "); err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	out.WriteByte('\n')
	_, err = a.stdout.Write(out.Bytes())
	return err
}

// terminal returns the size of the terminal that w is; ok is false when it
// is none.
func terminal(w io.Writer) (rows, columns int, ok bool) {
	f, isFile := w.(*os.File)
	if !isFile {
		return 0, 0, false
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0, false
	}
	return int(size.Row), int(size.Col), true
}

// count formats a number with thousands separated.
func count(n uint64) string {
	s := strconv.FormatUint(n, 10)
	out := make([]byte, 0, len(s)+len(s)/3)
	for i := range len(s) {
		if i > 0 && (len(s)-i)%3 == 0 {
			out = append(out, ',')
		}
		out = append(out, s[i])
	}
	return string(out)
}

// number formats n with its noun, in the plural when it is not 1.
func number(n uint64, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "ch") || strings.HasSuffix(noun, "s"):
		return count(n) + " " + noun + "es"
	default:
		return count(n) + " " + noun + "s"
	}
}

// scaled formats x with three significant digits and a decimal prefix.
func scaled(x float64, unit string) string {
	prefixes := []string{"", "k", "M", "G", "T", "P"}
	i := 0
	for x >= 999.5 && i < len(prefixes)-1 {
		x /= 1000
		i++
	}
	digits := 0
	if i > 0 || x != math.Trunc(x) {
		switch {
		case x < 9.995:
			digits = 2
		case x < 99.95:
			digits = 1
		}
	}
	sep := " "
	if prefixes[i] == "" && unit == "" {
		sep = ""
	}
	return strconv.FormatFloat(x, 'f', digits, 64) + sep + prefixes[i] + unit
}

// span formats a duration with its two largest units.
func span(d time.Duration) string {
	if d < 0 {
		d = 0
	}
	s := int64(d / time.Second)
	days, hours, minutes := s/86400, s/3600%24, s/60%60
	switch {
	case days > 0:
		return fmt.Sprintf("%dd %dh", days, hours)
	case hours > 0:
		return fmt.Sprintf("%dh %dm", hours, minutes)
	case minutes > 0:
		return fmt.Sprintf("%dm %ds", minutes, s%60)
	default:
		return fmt.Sprintf("%ds", s)
	}
}

// age formats how long ago t was; "never" for the zero time.
func age(t, now time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return span(now.Sub(t)) + " ago"
}
