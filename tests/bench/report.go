// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"
)

// report is what bench.json holds; fields are only added.
type report struct {
	Version int               `json:"version"` // 1
	Time    time.Time         `json:"time"`
	Machine map[string]string `json:"machine"`
	Seconds int               `json:"seconds"` // of each measurement
	Reps    int               `json:"repetitions"`
	Setups  []described       `json:"setups"`
	Failed  map[string]string `json:"failed,omitempty"`
	Results []result          `json:"results"`

	samples map[key][]sample
	order   []key
}

type described struct {
	Name  string `json:"name"`
	About string `json:"about"`
}

type key struct {
	setup string
	cell
}

// spread is a median with the smallest and the largest value seen.
type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

type result struct {
	Setup string `json:"setup"`
	cell
	Samples     int    `json:"samples"`
	Gbps        spread `json:"gbps"`
	Retransmits spread `json:"retransmits"`
	Machine     spread `json:"machine_s_per_gb"`
	Softirq     spread `json:"softirq_s_per_gb"`
	GatewayA    spread `json:"gateway_a_s_per_gb"`
	GatewayB    spread `json:"gateway_b_s_per_gb"`
	Iperf       spread `json:"iperf3_s_per_gb"`
	Cores       spread `json:"cores_busy"`
}

func newReport(o options, setups []setup) *report {
	r := &report{Version: 1, Time: time.Now().UTC().Truncate(time.Second), Machine: machine(o.binary), Seconds: o.seconds, Reps: o.reps,
		Failed: map[string]string{}, samples: map[key][]sample{}}
	for _, s := range setups {
		r.Setups = append(r.Setups, described{s.name, s.about})
	}
	return r
}

func (r *report) add(setup string, samples []sample) {
	for _, s := range samples {
		k := key{setup, s.cell}
		if _, known := r.samples[k]; !known {
			r.order = append(r.order, k)
		}
		r.samples[k] = append(r.samples[k], s)
	}
}

func (r *report) summarise() {
	r.Results = nil
	for _, k := range r.order {
		samples := r.samples[k]
		of := func(value func(sample) float64) spread {
			values := make([]float64, 0, len(samples))
			for _, s := range samples {
				values = append(values, value(s))
			}
			return spreadOf(values)
		}
		r.Results = append(r.Results, result{
			Setup: k.setup, cell: k.cell, Samples: len(samples),
			Gbps:        of(func(s sample) float64 { return s.Gbps }),
			Retransmits: of(func(s sample) float64 { return s.Retransmits }),
			Machine:     of(func(s sample) float64 { return s.Machine }),
			Softirq:     of(func(s sample) float64 { return s.Softirq }),
			GatewayA:    of(func(s sample) float64 { return s.GatewayA }),
			GatewayB:    of(func(s sample) float64 { return s.GatewayB }),
			Iperf:       of(func(s sample) float64 { return s.Iperf }),
			Cores:       of(func(s sample) float64 { return s.Cores }),
		})
	}
}

// spreadOf takes the lower of the middle two as the median of an even number,
// so that every figure printed was measured.
func spreadOf(values []float64) spread {
	slices.Sort(values)
	return spread{Median: values[(len(values)-1)/2], Min: values[0], Max: values[len(values)-1]}
}

// write prints the text to stdout and, given a folder, writes it there with the JSON.
func (r *report) write(dir string) error {
	r.summarise()
	if len(r.Results) == 0 {
		return errors.New("nothing was measured")
	}
	if dir == "" {
		return r.text(os.Stdout)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	text, err := os.Create(filepath.Join(dir, "bench.txt"))
	if err != nil {
		return err
	}
	if err := errors.Join(r.text(io.MultiWriter(os.Stdout, text)), text.Close()); err != nil {
		return err
	}
	encoded, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "bench.json"), append(encoded, '\n'), 0o644)
}

func (r *report) text(w io.Writer) error {
	fmt.Fprintf(w, "%s, %d repetitions of %d s, median (minimum-maximum)\n", r.Time.Format(time.DateOnly), r.Reps, r.Seconds)
	for _, k := range []string{"cpu", "kernel", "go", "ovpn-xdp", "openvpn", "wireguard-go", "background"} {
		if v := r.Machine[k]; v != "" {
			fmt.Fprintf(w, "%-13s %s\n", k, v)
		}
	}
	fmt.Fprintln(w, "\nCPU seconds per GB of TCP payload: machine (softirq in it), gateway a, gateway b, iperf3 at both ends.")
	var cells []cell
	for _, res := range r.Results {
		if !slices.Contains(cells, res.cell) {
			cells = append(cells, res.cell)
		}
	}
	for _, c := range cells {
		way := map[string]string{up: "a to b", down: "b to a"}[c.Direction]
		where := map[string]string{local: "gateway a itself", forwarded: "a host forwarded by gateway a"}[c.Topology]
		fmt.Fprintf(w, "\n%s, %d TCP flow(s), %s\n", where, c.Flows, way)
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "  set-up\tGbit/s\t\tx wg-go\tx openvpn\tretr\tmachine\tsoftirq\ta\tb\tiperf3\tcores\t")
		for _, res := range r.Results {
			if res.cell != c {
				continue
			}
			fmt.Fprintf(table, "  %s\t%.2f\t(%.2f-%.2f)\t%s\t%s\t%.0f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t\n",
				res.Setup, res.Gbps.Median, res.Gbps.Min, res.Gbps.Max,
				r.times(res, "wireguard-go"), r.times(res, "openvpn"), res.Retransmits.Median,
				res.Machine.Median, res.Softirq.Median, res.GatewayA.Median, res.GatewayB.Median, res.Iperf.Median, res.Cores.Median)
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	for name, why := range r.Failed {
		fmt.Fprintf(w, "\n%s was left out: %s\n", name, why)
	}
	return nil
}

// times is the ratio to another set-up's throughput in the same cell.
func (r *report) times(res result, other string) string {
	for _, o := range r.Results {
		if o.Setup == other && o.cell == res.cell {
			return fmt.Sprintf("%.2f", res.Gbps.Median/o.Gbps.Median)
		}
	}
	return "-"
}

// machine says what was measured on; what cannot be found out is left out.
func machine(binary string) map[string]string {
	m := map[string]string{"go": runtime.Version(), "wireguard-go": wireguardVersion}
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if name, model, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
				m["cpu"] = fmt.Sprintf("%s, %d logical", strings.TrimSpace(model), runtime.NumCPU())
				break
			}
		}
	}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		m["kernel"] = unix.ByteSliceToString(name.Release[:])
	}
	// OpenVPN before 2.7 ends --version with status 1.
	if out, _ := exec.Command("openvpn", "--version").Output(); len(out) > 0 {
		if words := strings.Fields(string(out)); len(words) > 1 {
			m["openvpn"] = words[1]
		}
	}
	if out, err := exec.Command(binary, "version").Output(); err == nil {
		first, _, _ := strings.Cut(string(out), "\n")
		m["ovpn-xdp"] = strings.TrimSpace(first)
	}
	return m
}
