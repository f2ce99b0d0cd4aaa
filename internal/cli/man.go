// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func (a *app) manCommand() *cobra.Command {
	cmd := a.command(&cobra.Command{
		Use:    "man DIR",
		Short:  "Write man pages, section 8, into a folder",
		Args:   cobra.ExactArgs(1),
		Hidden: true,
	}, func(cmd *cobra.Command, args []string) error {
		if err := os.MkdirAll(args[0], 0o755); err != nil {
			return fmt.Errorf("write man pages: %w", err)
		}
		return writeManPages(cmd.Root(), args[0], a.deps.Version)
	})
	return cmd
}

// writeManPages writes a page for cmd and each command below it. They are the
// texts of --help and no date, so that a version always gives the same bytes.
func writeManPages(cmd *cobra.Command, dir, version string) error {
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".8"
	if err := os.WriteFile(filepath.Join(dir, name), manPage(cmd, version), 0o644); err != nil {
		return fmt.Errorf("write man pages: %w", err)
	}
	for _, child := range cmd.Commands() {
		if documented(child) {
			if err := writeManPages(child, dir, version); err != nil {
				return err
			}
		}
	}
	return nil
}

func documented(cmd *cobra.Command) bool {
	return cmd.IsAvailableCommand() && cmd.Name() != "help" && cmd.Name() != "completion"
}

// manPage renders one page in man(7).
func manPage(cmd *cobra.Command, version string) []byte {
	var b bytes.Buffer
	title := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	fmt.Fprintf(&b, ".TH %s 8 \"\" %s\n", roffQuote(strings.ToUpper(title)), roffQuote("ovpn-xdp "+version))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(title), roff(cmd.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.nf\n%s\n.fi\n", roff(cmd.UseLine()))
	if cmd.Long != "" {
		fmt.Fprintf(&b, ".SH DESCRIPTION\n%s", paragraphs(cmd.Long))
	}
	manFlags(&b, "OPTIONS", cmd.NonInheritedFlags())
	manFlags(&b, "GLOBAL OPTIONS", cmd.InheritedFlags())
	if cmd.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", roff(cmd.Example))
	}
	if cmd.HasParent() {
		b.WriteString(".SH EXIT STATUS\n0 done, 1 failed, 2 usage, 3 running but below what was required.\n")
	}
	var see []string
	if cmd.HasParent() {
		see = append(see, cmd.Parent().CommandPath())
	}
	for _, child := range cmd.Commands() {
		if documented(child) {
			see = append(see, child.CommandPath())
		}
	}
	if len(see) > 0 {
		b.WriteString(".SH SEE ALSO\n")
		for i, path := range see {
			comma := ","
			if i == len(see)-1 {
				comma = ""
			}
			fmt.Fprintf(&b, ".BR %s (8)%s\n", roff(strings.ReplaceAll(path, " ", "-")), comma)
		}
	}
	return b.Bytes()
}

func manFlags(b *bytes.Buffer, heading string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	fmt.Fprintf(b, ".SH %s\n", heading)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		kind, usage := pflag.UnquoteUsage(f)
		if kind != "" {
			kind = " \\fI" + roff(kind) + "\\fR"
		}
		short := ""
		if f.Shorthand != "" {
			short = "\\fB\\-" + f.Shorthand + "\\fR, "
		}
		if _, stated := stateDefault(f); stated {
			usage += fmt.Sprintf(" (default: %s)", f.DefValue)
		}
		fmt.Fprintf(b, ".TP\n%s\\fB\\-\\-%s\\fR%s\n%s\n", short, roff(f.Name), kind, roff(strings.ReplaceAll(usage, "\n", " ")))
	})
}

// stateDefault reports whether a flag's default has to be added to its help:
// where the help does not say it itself and it is not "off".
func stateDefault(f *pflag.Flag) (string, bool) {
	if f.DefValue == "" || f.DefValue == "false" || f.DefValue == "[]" || strings.Contains(f.Usage, "(default:") {
		return "", false
	}
	return f.DefValue, true
}

// paragraphs turns blank lines into .PP.
func paragraphs(text string) string {
	parts := strings.Split(strings.TrimSpace(text), "\n\n")
	for i, p := range parts {
		parts[i] = roff(p) + "\n"
	}
	return strings.Join(parts, ".PP\n")
}

// roff escapes text: backslashes, hyphens that are to be typed, and dots or
// quotes that would start a request at the beginning of a line.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}

func roffQuote(s string) string {
	return `"` + strings.ReplaceAll(roff(s), `"`, `\(dq`) + `"`
}
