// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
)

type options struct {
	binary     string
	out        string
	only       []string
	topologies []string
	directions []string
	flows      []int
	reps       int
	seconds    int
	quick      bool
	list       bool
	keepGoing  bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	var o options
	f := pflag.NewFlagSet("bench", pflag.ContinueOnError)
	f.SortFlags = false
	f.StringVar(&o.binary, "binary", "bin/ovpn-xdp", "ovpn-xdp to measure")
	f.StringVar(&o.out, "out", "", "folder for bench.txt and bench.json (default: text on stdout only)")
	f.StringSliceVar(&o.only, "only", nil, "set-ups, or beginnings of their names (default: all; see --list)")
	f.StringSliceVar(&o.topologies, "topology", []string{local, forwarded}, "where the sender is")
	f.StringSliceVar(&o.directions, "direction", []string{up, down}, "up: towards gateway b; down: from it")
	f.IntSliceVar(&o.flows, "flows", []int{1, 4}, "TCP flows at a time")
	f.IntVar(&o.reps, "reps", 3, "repetitions of every cell")
	f.IntVar(&o.seconds, "seconds", 5, "seconds of every measurement")
	f.BoolVar(&o.quick, "quick", false, "one repetition of 3 seconds")
	f.BoolVar(&o.keepGoing, "keep-going", false, "leave out a set-up that does not start, instead of ending")
	f.BoolVar(&o.list, "list", false, "print the set-ups")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.quick {
		o.reps, o.seconds = 1, 3
	}
	if o.reps < 1 || o.seconds < 1 {
		return o, errors.New("--reps and --seconds: want at least 1")
	}
	for _, t := range o.topologies {
		if t != local && t != forwarded {
			return o, fmt.Errorf("--topology %q: want %s or %s", t, local, forwarded)
		}
	}
	for _, d := range o.directions {
		if d != up && d != down {
			return o, fmt.Errorf("--direction %q: want %s or %s", d, up, down)
		}
	}
	return o, nil
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	setups, err := choose(allSetups(), o.only)
	if err != nil {
		return err
	}
	if o.list {
		for _, s := range setups {
			fmt.Printf("%-28s %s\n", s.name, s.about)
		}
		return nil
	}
	if os.Geteuid() != 0 {
		return errors.New("needs root for network namespaces")
	}
	dir, err := os.MkdirTemp("", "ovpn-xdp-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	env := &environment{dir: dir}
	if env.binary, err = filepath.Abs(o.binary); err != nil {
		return err
	}
	if err := env.prepare(setups); err != nil {
		return err
	}

	load, err := background()
	if err != nil {
		return err
	}
	report := newReport(o, setups)
	report.Machine["background"] = fmt.Sprintf("%.2f cores busy before the first measurement", load)
	for rep := range o.reps {
		for _, s := range slices.Clone(setups) {
			began := time.Now()
			samples, err := measureSetup(ctx, env, s, cellsOf(s, o), o.seconds)
			report.add(s.name, samples)
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case err != nil && o.keepGoing:
				fmt.Fprintf(os.Stderr, "bench: %s is left out: %v\n", s.name, err)
				report.Failed[s.name] = err.Error()
				setups = slices.DeleteFunc(setups, func(x setup) bool { return x.name == s.name })
			case err != nil:
				return fmt.Errorf("%s: %w", s.name, err)
			default:
				fmt.Fprintf(os.Stderr, "repetition %d of %d, %s: %.0f s\n", rep+1, o.reps, s.name, time.Since(began).Seconds())
			}
		}
	}
	return report.write(o.out)
}

// choose keeps the set-ups whose name is one of the wanted or, where none is, begins with it.
func choose(all []setup, only []string) ([]setup, error) {
	if len(only) == 0 {
		return slices.DeleteFunc(all, func(s setup) bool { return s.onRequest }), nil
	}
	var chosen []setup
	for _, want := range only {
		matched := false
		exact := slices.ContainsFunc(all, func(s setup) bool { return s.name == want })
		for _, s := range all {
			if s.name != want && (exact || !strings.HasPrefix(s.name, want)) {
				continue
			}
			matched = true
			if !slices.ContainsFunc(chosen, func(c setup) bool { return c.name == s.name }) {
				chosen = append(chosen, s)
			}
		}
		if !matched {
			return nil, fmt.Errorf("--only %q matches no set-up; see --list", want)
		}
	}
	return chosen, nil
}
