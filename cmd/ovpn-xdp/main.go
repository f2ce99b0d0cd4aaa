// SPDX-License-Identifier: Apache-2.0

// Command ovpn-xdp is an OpenVPN gateway whose data path runs over AF_XDP.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/ovpn-xdp/ovpn-xdp/internal/cli"
	"github.com/ovpn-xdp/ovpn-xdp/internal/daemon"
	"github.com/ovpn-xdp/ovpn-xdp/internal/steer"
)

// version is set by the linker.
var version = "unknown"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Run(ctx, cli.Deps{Version: version, Run: daemon.Run, Probe: probe}, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

type report struct{ steer.Report }

func (r report) WriteText(w io.Writer) error {
	b, err := json.MarshalIndent(r.Report, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, string(b))
	return err
}

func probe(_ context.Context, nic string) (cli.ProbeReport, error) {
	r, err := steer.Probe(nic)
	return report{r}, err
}
