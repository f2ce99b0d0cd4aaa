// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
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
	parallel []int
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
	f.IntSliceVar(&o.parallel, "parallel", []int{8, 32, 128}, "handshakes under way at once, one measurement for each")
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
			return c.hold(o.hold, o.parallel[0])
		}
		return json.NewEncoder(stdout).Encode(c.load(o.seconds, o.parallel[0]))
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
	Loads         []loadCell `json:"loads"`
	KiBPerClient  float64    `json:"resident_kib_per_idle_client"`
	IdleConnected uint64     `json:"idle_clients"`
}

// loadCell is what came of so many handshakes under way at once.
type loadCell struct {
	Parallel     int     `json:"parallel"`
	PerSecond    float64 `json:"handshakes_per_second"`
	Failures     uint64  `json:"failures"`
	ServerMillis float64 `json:"server_cpu_ms_per_handshake"`
}

// row is one line's name and value.
type row struct {
	name string
	of   func(cell) float64
}

func (r *report) rows() []row {
	var out []row
	for n, l := range r.Rounds[r.Servers[0]][0].Loads {
		out = append(out,
			row{fmt.Sprintf("handshakes per second, %d at once", l.Parallel), func(c cell) float64 { return c.Loads[n].PerSecond }},
			row{fmt.Sprintf("server CPU ms per handshake, %d at once", l.Parallel), func(c cell) float64 { return c.Loads[n].ServerMillis }})
	}
	return append(out, row{"resident KiB per idle client", func(c cell) float64 { return c.KiBPerClient }})
}

func (r *report) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Handshakes, %d cores shared by server and clients (median, minimum - maximum of %d rounds, in turns)\n\n", r.Cores, len(r.Rounds[r.Servers[0]]))
	for _, row := range r.rows() {
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
