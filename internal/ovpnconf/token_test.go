// SPDX-License-Identifier: Apache-2.0

package ovpnconf

import (
	"slices"
	"strings"
	"testing"
)

// The expected words are what OpenVPN 2.6.14 prints for an `echo msg` line of
// the same text.
func TestSplitWordsAsOpenVPN(t *testing.T) {
	for in, want := range map[string][]string{
		``:                                nil,
		`   `:                             nil,
		`# comment`:                       nil,
		`; comment`:                       nil,
		`port 1194`:                       {"port", "1194"},
		"tab\tsep\r":                      {"tab", "sep"},
		`a "b c" d`:                       {"a", "b c", "d"},
		`a 'c\d'`:                         {"a", `c\d`},
		`e"f`:                             {`e"f`},
		`a\ b`:                            {"a b"},
		`"x\"y"`:                          {`x"y`},
		`"q"r`:                            {"q", "r"},
		`'it''s'`:                         {"it", "s"},
		`\\\\x`:                           {`\\x`},
		`one#two ;three`:                  {"one#two"},
		`a;b # c`:                         {"a;b"},
		`"a;b" "#"`:                       {"a;b", "#"},
		`a "" end`:                        {"a", "", "end"},
		`msg \#x y`:                       {"msg"},
		`push "route 10.0.0.0 255.0.0.0"`: {"push", "route 10.0.0.0 255.0.0.0"},
		`path "C:\\Program Files\\x"`:     {"path", `C:\Program Files\x`},
	} {
		got, f := splitWords(in)
		if f != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v; want %q", in, got, f, want)
		}
	}
}

func TestSplitWordsFaults(t *testing.T) {
	for in, want := range map[string]string{
		`a "b`:                    "double quote is not closed",
		`a 'b`:                    "single quote is not closed",
		`"a\"`:                    "double quote is not closed",
		`C:\x`:                    `\x is no escape sequence`,
		"a\x00b":                  "NUL byte",
		strings.Repeat("a ", 17):  "17 words",
		strings.Repeat("a ", 400): "400 words",
	} {
		_, f := splitWords(in)
		if f == nil || !strings.Contains(f.why, want) {
			t.Errorf("%.20q: %v, want %q", in, f, want)
		} else if f.remedy == "" {
			t.Errorf("%.20q: no remedy", in)
		}
	}
	if words, f := splitWords(strings.Repeat("a ", 16) + "# b c"); f != nil || len(words) != 16 {
		t.Errorf("16 words and a comment: %d, %v", len(words), f)
	}
}

func TestSplitCommand(t *testing.T) {
	c, err := SplitCommand(`/usr/bin/x --name 'a b' "$(id)" ; rm`)
	if want := []string{"/usr/bin/x", "--name", "a b", "$(id)"}; err != nil || !slices.Equal(c, want) {
		t.Errorf("%q, %v", c, err)
	}
	for _, in := range []string{"", "  ", `"" x`, `"x`} {
		if c, err := SplitCommand(in); err == nil {
			t.Errorf("%q accepted as %q", in, c)
		}
	}
}

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"a\x1b[31mb\n": "a?[31mb?", "büro": "büro", "\xff": "?", "\u0085\u2028x": "??x",
		strings.Repeat("ü", 80): strings.Repeat("ü", 50) + "...",
	} {
		if got := printable(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// FuzzSplitWords checks that words survive being quoted and read again.
func FuzzSplitWords(f *testing.F) {
	for _, s := range []string{`a "b c" 'd' \\ e\ f #g`, `"q"r`, `'`, `\`, `a\#`, `""`, "\x00", "\t;\r"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		words, fault := splitWords(in)
		if fault != nil {
			if fault.why == "" || fault.remedy == "" {
				t.Fatalf("%q: empty fault %+v", in, fault)
			}
			return
		}
		var b strings.Builder
		for _, w := range words {
			b.WriteString(`"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(w) + `" `)
		}
		again, fault := splitWords(b.String())
		if fault != nil || !slices.Equal(words, again) {
			t.Fatalf("%q: %q became %q, %v", in, words, again, fault)
		}
	})
}
