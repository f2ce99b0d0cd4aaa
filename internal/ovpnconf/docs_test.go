// SPDX-License-Identifier: Apache-2.0

package ovpnconf

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/config.md anew below its head")

const (
	docsPath   = "../../docs/config.md"
	docsMarker = "<!-- From here on written by: go test ./internal/ovpnconf -run TestDocs -update -->\n"
)

// docsOf writes the table of options as Markdown.
func docsOf(rows []OptionDoc) string {
	var b strings.Builder
	cell := func(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
	for _, topic := range Topics() {
		fmt.Fprintf(&b, "\n## %s\n\n| option | verdict | behaviour |\n|---|---|---|\n", topic)
		for _, d := range rows {
			if d.Topic != topic {
				continue
			}
			args := d.Args
			if args == "..." {
				args = ""
			}
			name := "`" + strings.TrimSpace(d.Name+" "+args) + "`"
			if d.Aliases != nil {
				name += ", `" + strings.Join(d.Aliases, "`, `") + "`"
			}
			verdict := d.Verdict.String()
			switch {
			case d.Place&InFile == 0:
				verdict += ", client file only"
			case d.Place&InClientFile != 0 && d.Verdict == Honoured:
				verdict += ", client file too"
			}
			text := d.Text
			if d.Verdict == Refused {
				text += ". Way out: " + d.Remedy
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", cell(name), verdict, cell(text))
		}
	}
	return b.String()
}

func TestDocs(t *testing.T) {
	b, err := os.ReadFile(docsPath)
	if err != nil {
		t.Fatal(err)
	}
	head, table, ok := strings.Cut(string(b), docsMarker)
	if !ok {
		t.Fatalf("%s has no line %q", docsPath, docsMarker)
	}
	want := docsOf(Table())
	if *update {
		if err := os.WriteFile(docsPath, []byte(head+docsMarker+want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if table != want {
		t.Errorf("%s differs from the table of options; run go test ./internal/ovpnconf -run TestDocs -update", docsPath)
	}
	for _, d := range Table() {
		if !strings.Contains(table, "`"+d.Name) {
			t.Errorf("%s is not documented", d.Name)
		}
	}
	if i := slices.IndexFunc(Table(), func(d OptionDoc) bool { return d.Topic == TopicXDP && !strings.HasPrefix(d.Name, "xdp-") }); i >= 0 {
		t.Errorf("%s stands among the own options", Table()[i].Name)
	}
}
