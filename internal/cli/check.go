// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ovpn-xdp/ovpn-xdp/internal/ovpnconf"
)

// maxClientFiles bounds how many files of client-config-dir are looked at.
const maxClientFiles = 10000

func (a *app) checkCommand() *cobra.Command {
	var dir string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check [flags] FILE",
		Short: "Say what would be honoured, ignored or refused of an OpenVPN server.conf",
		Long: `Say of each line of an OpenVPN server configuration whether it would be
honoured, ignored or refused, why, and what to do about it. Nothing is started.
Certificates, keys and other files that it names are looked at, and so are the
files in client-config-dir.

Relative paths start in the working folder, as OpenVPN reads them; --cd changes it.
Exit code 0: a gateway would start with it; 1: it would not.`,
		Example: `  ovpn-xdp check --cd /etc/openvpn/server server.conf
  ovpn-xdp check --json server.conf | jq '.lines[] | select(.verdict == "refused")'`,
		Args: cobra.ExactArgs(1),
	}
	a.command(cmd, func(_ *cobra.Command, args []string) error {
		file, options := args[0], []string{"--config", args[0]}
		if dir != "" {
			options = append([]string{"--cd", dir}, options...)
			if !filepath.IsAbs(file) {
				file = filepath.Join(dir, file)
			}
		}
		lines, err := ovpnconf.FromArgs(options)
		if err != nil {
			return err
		}
		r := newCheckReport(file, lines)
		if asJSON {
			err = a.printJSON(r)
		} else {
			err = r.writeText(a.stdout)
		}
		if err == nil && !r.Starts {
			err = fmt.Errorf("%s: a gateway would not start with it: %s", file, r.counts())
		}
		return err
	})
	cmd.Flags().StringVar(&dir, "cd", "", "`folder` that relative paths start in (default: the working folder)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	_ = cmd.MarkFlagDirname("cd")
	return cmd
}

// checkReport is what `check` prints; as JSON, members may be added.
type checkReport struct {
	Version  int         `json:"version"`
	File     string      `json:"file"`
	Starts   bool        `json:"starts"`
	Honoured int         `json:"honoured"`
	Ignored  int         `json:"ignored"`
	Refused  int         `json:"refused"`
	Lines    []checkLine `json:"lines"`
	// Clients are lines of files in client-config-dir that are not simply honoured.
	Clients []checkLine `json:"clients"`
}

type checkLine struct {
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"`
	Option  string `json:"option"`
	Verdict string `json:"verdict"`
	Why     string `json:"why,omitempty"`
	Remedy  string `json:"remedy,omitempty"`
}

func newCheckReport(file string, lines []ovpnconf.Line) *checkReport {
	r := &checkReport{Version: 1, File: file, Lines: []checkLine{}, Clients: []checkLine{}}
	server, findings := ovpnconf.Inspect(lines)
	for _, f := range findings {
		if f.Line.File == ovpnconf.CommandLine {
			if f.Verdict != ovpnconf.Refused {
				continue // --cd and --config
			}
			f.Line.Number = 0
		}
		switch f.Verdict {
		case ovpnconf.Honoured:
			r.Honoured++
		case ovpnconf.Ignored:
			r.Ignored++
		case ovpnconf.Refused:
			r.Refused++
		}
		r.Lines = append(r.Lines, newCheckLine(f))
	}
	r.Starts = r.Refused == 0
	if server.Clients.ConfigDir != "" {
		r.readClients(server)
	}
	return r
}

func newCheckLine(f ovpnconf.Finding) checkLine {
	return checkLine{File: f.Line.File, Line: f.Line.Number, Option: f.Line.Option, Verdict: f.Verdict.String(), Why: f.Why, Remedy: f.Remedy}
}

// readClients looks at the files of client-config-dir. What it finds does not
// keep a gateway from starting.
func (r *checkReport) readClients(s *ovpnconf.Server) {
	entries, err := os.ReadDir(s.Clients.ConfigDir)
	if err != nil {
		return // the option's line says so
	}
	for i, e := range entries {
		path := filepath.Join(s.Clients.ConfigDir, e.Name())
		if i == maxClientFiles {
			r.Clients = append(r.Clients, checkLine{File: s.Clients.ConfigDir, Option: "client-config-dir", Verdict: ovpnconf.Honoured.String(),
				Why: fmt.Sprintf("only the first %d files were looked at", maxClientFiles)})
			return
		}
		if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
			continue
		}
		_, findings, err := ovpnconf.ReadClient(path, s)
		if err != nil {
			r.Clients = append(r.Clients, checkLine{File: path, Verdict: ovpnconf.Refused.String(), Why: err.Error()})
			continue
		}
		for _, f := range findings {
			if f.Verdict != ovpnconf.Honoured || f.Why != "" {
				r.Clients = append(r.Clients, newCheckLine(f))
			}
		}
	}
}

func (r *checkReport) counts() string {
	return fmt.Sprintf("%d honoured, %d ignored, %d refused", r.Honoured, r.Ignored, r.Refused)
}

func (r *checkReport) writeText(w io.Writer) error {
	var b strings.Builder
	writeCheckLines(&b, r.File, r.Lines)
	if len(r.Clients) > 0 {
		b.WriteString("\nIn files about clients:\n")
		writeCheckLines(&b, "", r.Clients)
	}
	if r.Starts {
		fmt.Fprintf(&b, "\n%s: a gateway would start with it: %s\n", r.File, r.counts())
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeCheckLines writes one line for each, in columns; lines of file have
// their number only.
func writeCheckLines(b *strings.Builder, file string, lines []checkLine) {
	rows := make([][3]string, 0, len(lines)+1)
	rows = append(rows, [3]string{"LINE", "VERDICT", "OPTION"})
	var width [3]int
	for _, l := range lines {
		where := l.File
		switch {
		case l.Line == 0:
			where = "-"
		case l.File == file:
			where = fmt.Sprint(l.Line)
		default:
			where += fmt.Sprintf(":%d", l.Line)
		}
		rows = append(rows, [3]string{where, l.Verdict, l.Option})
	}
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], len(cell))
		}
	}
	for i, row := range rows {
		text := fmt.Sprintf("%*s  %-*s  %-*s", width[0], row[0], width[1], row[1], width[2], row[2])
		if i > 0 {
			l := lines[i-1]
			text += "  " + l.Why
			if l.Remedy != "" {
				text += " -> " + l.Remedy
			}
		}
		b.WriteString(strings.TrimRight(text, " ") + "\n")
	}
}
