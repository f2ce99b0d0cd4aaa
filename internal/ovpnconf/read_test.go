// SPDX-License-Identifier: Apache-2.0

package ovpnconf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// write makes files below a fresh folder and returns it.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// brief writes lines as "number option args", with "<" for a block and "!" for a fault.
func brief(lines []Line) string {
	var out []string
	for _, l := range lines {
		s := fmt.Sprintf("%d %s", l.Number, strings.Join(append([]string{l.Option}, l.Args...), " "))
		if l.Inline != nil {
			s += " <" + strings.ReplaceAll(*l.Inline, "\n", "|")
		}
		if l.fault != nil {
			s += " !"
		}
		out = append(out, s)
	}
	return strings.Join(out, "\n")
}

func TestParse(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"byte order mark and CR LF", "\uFEFFport 1\r\n\r\nproto udp\r\n", "1 port 1\n3 proto udp"},
		{"dashes", "--port 1194\n-port\n--", "1 port 1194\n2 -port\n3 --"},
		{"no newline at the end", "dev tun", "1 dev tun"},
		{"block", "<ca>\nline 1\n # kept\n\nline 2\n</ca>\nport 2\n", "1 ca <line 1| # kept||line 2|\n7 port 2"},
		{"indented tags", "  <ca>\n  x\n\t </ca> trailing\nport 2", "1 ca <  x|\n4 port 2"},
		{"CR LF in a block", "<ca>\r\nx\r\n</ca>\r\n", "1 ca <x|"},
		{"block without an end", "port 1\n<ca>\nx\nport 2\n", "1 port 1\n2 ca <x|port 2| !"},
		{"other end tag", "<ca>\nx\n</cert>\n</ca>\n", "1 ca <x|</cert>|"},
		{"no tag with words behind it", "<ca> x\n", "1 <ca> x"},
		{"end tag alone", "</ca>\n", "1 /ca < !"},
		{"bad quoting", "push \"route\nport 1\n", "1 push !\n2 port 1"},
		{"long line", "a " + strings.Repeat("x", maxLine) + "\nport 1", "1 a !\n2 port 1"},
		{"control character in a name", "po\x1brt 1", "1 po?rt 1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := brief(Parse("f", tc.text)); got != tc.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, tc.want)
			}
		})
	}
}

func TestReadIncludes(t *testing.T) {
	dir := write(t, map[string]string{
		"server.conf":          "port 1\ncd sub\nconfig more.conf\nca ca.crt\n",
		"sub/more.conf":        "proto udp\ncd deeper\nconfig last.conf\n",
		"sub/deeper/last.conf": "dev tun\nca x\n",
	})
	lines, err := FromArgs([]string{"--cd", dir, "--config", "server.conf"})
	if err != nil {
		t.Fatal(err)
	}
	want := "1 cd " + dir + "\n3 config server.conf\n1 port 1\n2 cd sub\n3 config more.conf\n1 proto udp\n2 cd deeper\n3 config last.conf\n1 dev tun\n2 ca x\n4 ca ca.crt"
	if got := brief(lines); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if got, want := lines[8].Position(), filepath.Join(dir, "sub/deeper/last.conf")+":1"; got != want {
		t.Errorf("position %q, want %q", got, want)
	}
	s, _ := Check(lines)
	if got, want := s.Peers.CA.Path, filepath.Join(dir, "sub/deeper/ca.crt"); got != want {
		t.Errorf("ca %q, want %q", got, want)
	}
}

func TestReadIncludesItself(t *testing.T) {
	dir := write(t, map[string]string{})
	path := filepath.Join(dir, "loop.conf")
	if err := os.WriteFile(path, []byte("port 1\nconfig "+path+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	lines, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) != 2*maxIncludes {
		t.Errorf("%d lines", len(lines))
	}
	_, findings := Check(lines)
	if f := find(findings, "config"); f.Verdict != Honoured {
		t.Errorf("first include: %v", f)
	}
	refused := 0
	for _, f := range findings {
		if f.Line.Option == "config" && f.Verdict == Refused && strings.Contains(f.Why, "10 deep") {
			refused++
		}
	}
	if refused != 1 {
		t.Errorf("%d includes refused, want the deepest", refused)
	}
}

func TestReadMissing(t *testing.T) {
	dir := write(t, map[string]string{"a.conf": "config nowhere.conf\n"})
	if _, err := Read(filepath.Join(dir, "none.conf")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	if _, err := FromArgs([]string{"--config", filepath.Join(dir, "none.conf")}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file on the command line: %v", err)
	}
	lines, err := Read(filepath.Join(dir, "a.conf"))
	if err != nil || len(lines) != 1 {
		t.Fatalf("%v, %v", lines, err)
	}
	_, findings := Check(lines)
	if f := findings[0]; f.Verdict != Refused || !strings.Contains(f.Why, "nowhere.conf") || !strings.HasSuffix(f.Line.Position(), "a.conf:1") {
		t.Errorf("missing include: %v", f)
	}
}

func TestReadIsBounded(t *testing.T) {
	dir := write(t, map[string]string{"big.conf": strings.Repeat("#\n", maxFile/2+1)})
	if _, err := Read(filepath.Join(dir, "big.conf")); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("error %v", err)
	}
}

func TestFromArgs(t *testing.T) {
	dir := write(t, map[string]string{"i.conf": "port 1\n"})
	conf := filepath.Join(dir, "i.conf")
	for _, tc := range []struct {
		args []string
		want string
	}{
		{nil, ""},
		{[]string{conf}, "1 port 1"},
		{[]string{"--status", "/run/s.log", "10", "--status-version", "2", "--suppress-timestamps", "--config", conf},
			"1 status /run/s.log 10\n4 status-version 2\n6 suppress-timestamps\n7 config " + conf + "\n1 port 1"},
		{[]string{"--daemon", "ovpn-i", "--cd", dir, "--script-security", "2", "--config", "i.conf", "--writepid", "p.pid"},
			"1 daemon ovpn-i\n3 cd " + dir + "\n5 script-security 2\n7 config i.conf\n1 port 1\n9 writepid p.pid"},
		{[]string{"--push", "a b", "c"}, "1 push a b c"},
		{[]string{"port", "1", "--dev", "tun"}, "1 port 1 !\n3 dev tun"},
	} {
		lines, err := FromArgs(tc.args)
		if got := brief(lines); err != nil || got != tc.want {
			t.Errorf("%q: %v\ngot:\n%s\nwant:\n%s", tc.args, err, got, tc.want)
		}
	}
	if l, _ := FromArgs([]string{"--dev", "tun"}); l[0].Position() != "command line" {
		t.Errorf("position %q", l[0].Position())
	}
}
