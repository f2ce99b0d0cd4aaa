// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Every command has help, every flag says what it is and every number its
// unit or range.
func TestEveryCommandAndFlagHasHelp(t *testing.T) {
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: short help %q", cmd.CommandPath(), cmd.Short)
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if len(f.Usage) < 10 && f.Name != "json" {
				t.Errorf("%s --%s: help %q", cmd.CommandPath(), f.Name, f.Usage)
			}
			switch f.Value.Type() {
			case "int", "uint8", "uint32":
				if !strings.ContainsAny(f.Usage, "0123456789") {
					t.Errorf("%s --%s: no range in %q", cmd.CommandPath(), f.Name, f.Usage)
				}
			}
		})
		for _, child := range cmd.Commands() {
			walk(child)
		}
	}
	a := &app{}
	walk(a.root())
}

func TestManPages(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	dir := t.TempDir()
	if o := invoke(t, "", "man", dir); o.code != 0 || o.stderr != "" || o.stdout != "" {
		t.Fatalf("%+v", o)
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*.8"))
	if err != nil || len(pages) < 20 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(page), ".8")
		if !strings.Contains(string(text), ".TH \""+strings.ToUpper(name)+"\" \"8\" \"Nov 2023\" \"ovpn-xdp v1.2.3\"") {
			t.Errorf("%s begins with %.90q", page, text)
		}
	}
	run, err := os.ReadFile(filepath.Join(dir, "ovpn-xdp-run.8"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\\fB--mtu\\fP=1420", "68 to 65451", "\\fBovpn-xdp(8)\\fP", "--nic eth0 --listen 192.0.2.2:1194"} {
		if !strings.Contains(string(run), want) {
			t.Errorf("ovpn-xdp-run.8 lacks %q", want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "ovpn-xdp-man.8")); err == nil {
		t.Error("the hidden command has a page")
	}
}
