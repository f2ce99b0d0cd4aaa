// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/ovpn-xdp/ovpn-xdp/internal/cli"
	"github.com/ovpn-xdp/ovpn-xdp/internal/steer"
)

func probe(_ context.Context, nic string) (cli.ProbeReport, error) {
	r, err := steer.Probe(nic)
	if err != nil {
		return nil, err
	}
	return report{r}, nil
}

// report is a steer.Report that can be printed.
type report struct{ steer.Report }

// WriteText puts the verdict first.
func (r report) WriteText(w io.Writer) error {
	var b strings.Builder
	row := func(label, format string, args ...any) {
		fmt.Fprintf(&b, "%-13s %s\n", label, fmt.Sprintf(format, args...))
	}
	row("nic", "%s, %s", r.NIC, r.device())
	row("auto", "%s", r.Auto)
	for _, why := range r.Why {
		row("", "not %s", why)
	}
	if r.XDP != nil {
		row("xdp slot", "held by %s", r.XDP)
	} else {
		row("xdp slot", "free")
	}
	for _, h := range r.TC {
		row("tc ingress", "%s", h)
	}
	if f := r.Features; f != nil {
		row("driver offers", "%s", words(map[string]bool{"native XDP": f.Basic, "redirect": f.Redirect, "AF_XDP zero-copy": f.ZeroCopy, "multi-buffer": f.RxSG},
			"native XDP", "redirect", "AF_XDP zero-copy", "multi-buffer"))
	} else {
		row("driver offers", "unknown: kernels before 6.3 do not tell")
	}
	row("kernel offers", "%s", words(map[string]bool{"AF_XDP": r.Kernel.XSKMap, "tcx": r.Kernel.TCX, "XDP frags": r.Kernel.Frags},
		"AF_XDP", "tcx", "XDP frags"))
	row("umem chunk", "%d bytes", r.ChunkSize)
	for _, c := range r.Missing {
		row("missing", "%s", c)
	}
	for _, n := range r.Notes {
		row("note", "%s", n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r report) device() string {
	parts := []string{}
	for _, p := range []string{r.Kind, r.Driver} {
		if p != "" && (len(parts) == 0 || parts[0] != p) {
			parts = append(parts, p)
		}
	}
	state := "down"
	if r.Up {
		state = "up"
	}
	noun := "receive queues"
	if r.RxQueues == 1 {
		noun = "receive queue"
	}
	return strings.Join(append(parts, state, fmt.Sprintf("MTU %d", r.MTU), fmt.Sprintf("%d %s", r.RxQueues, noun)), ", ")
}

// words lists names in their order, those that are false with "no".
func words(have map[string]bool, names ...string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = n
		if !have[n] {
			out[i] = "no " + n
		}
	}
	return strings.Join(out, ", ")
}
