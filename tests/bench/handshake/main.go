// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
)

type options struct {
	binary   string
	out      string
	reps     int
	seconds  float64
	parallel int
	idle     int
	load     string // the load process's: the server
	hold     int
	dir      string
}

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "handshake:", err)
		os.Exit(1)
	}
}

func run(args []string, stdout io.Writer) error {
	var o options
	f := pflag.NewFlagSet("handshake", pflag.ContinueOnError)
	f.StringVar(&o.binary, "binary", "bin/ovpn-xdp", "ovpn-xdp to measure")
	f.StringVar(&o.out, "out", "", "folder for handshake.txt and handshake.json (default: text on stdout only)")
	f.IntVar(&o.reps, "reps", 3, "repetitions")
	f.Float64Var(&o.seconds, "seconds", 5, "seconds of every measurement")
	f.IntVar(&o.parallel, "parallel", 32, "handshakes under way at once")
	f.IntVar(&o.idle, "idle", 1000, "idle clients for the measurement of memory")
	f.StringVar(&o.load, "load", "", "be the clients of the server at this address")
	f.IntVar(&o.hold, "hold", 0, "as the clients: connect so many and keep them")
	f.StringVar(&o.dir, "dir", "", "as the clients: folder of certificate and key")
	for _, hidden := range []string{"load", "hold", "dir"} {
		_ = f.MarkHidden(hidden)
	}
	if err := f.Parse(args); err != nil {
		return err
	}
	_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 65536, Max: 65536})
	if o.load != "" {
		c, err := newClients(o.load, o.dir)
		if err != nil {
			return err
		}
		if o.hold > 0 {
			return c.hold(o.hold, o.parallel)
		}
		return json.NewEncoder(stdout).Encode(c.load(o.seconds, o.parallel))
	}
	r, err := measure(o)
	if err != nil {
		return err
	}
	text := r.text()
	if _, err := io.WriteString(stdout, text); err != nil || o.out == "" {
		return err
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(o.out, "handshake.json"), append(raw, '\n'), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(o.out, "handshake.txt"), []byte(text), 0o644)
}

// report is everything that was measured.
type report struct {
	Version int               `json:"version"`
	Cores   int               `json:"cores"`
	Servers []string          `json:"servers"`
	Rounds  map[string][]cell `json:"rounds"`
}

// cell is one server's results in one round.
type cell struct {
	PerSecond     float64 `json:"handshakes_per_second"`
	Failures      uint64  `json:"failures"`
	ServerMillis  float64 `json:"server_cpu_ms_per_handshake"`
	KiBPerClient  float64 `json:"resident_kib_per_idle_client"`
	IdleConnected uint64  `json:"idle_clients"`
}

func (r *report) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Handshakes, %d cores shared by server and clients (median, minimum - maximum of %d rounds, in turns)\n\n", runtime.NumCPU(), len(r.Rounds[r.Servers[0]]))
	rows := []struct {
		name string
		of   func(cell) float64
	}{
		{"handshakes per second", func(c cell) float64 { return c.PerSecond }},
		{"server CPU ms per handshake", func(c cell) float64 { return c.ServerMillis }},
		{"resident KiB per idle client", func(c cell) float64 { return c.KiBPerClient }},
	}
	for _, row := range rows {
		fmt.Fprintln(&b, row.name)
		var medians []float64
		for _, s := range r.Servers {
			var v []float64
			for _, c := range r.Rounds[s] {
				v = append(v, row.of(c))
			}
			slices.Sort(v)
			m := v[len(v)/2]
			medians = append(medians, m)
			fmt.Fprintf(&b, "  %-10s %9.2f  (%.2f - %.2f)\n", s, m, v[0], v[len(v)-1])
		}
		if len(medians) == 2 && medians[1] > 0 {
			fmt.Fprintf(&b, "  ratio      %9.2f\n", medians[0]/medians[1])
		}
	}
	return b.String()
}
