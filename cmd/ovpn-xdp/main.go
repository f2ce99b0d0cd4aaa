// SPDX-License-Identifier: Apache-2.0

// Command ovpn-xdp is an OpenVPN gateway whose data path runs on XDP and AF_XDP.
package main

import (
	"context"
	"os"

	"github.com/ovpn-xdp/ovpn-xdp/internal/cli"
	"github.com/ovpn-xdp/ovpn-xdp/internal/daemon"
)

// version is set by the linker (-X main.version=...).
var version = "unknown"

func main() {
	deps := cli.Deps{
		Version: version,
		Run:     daemon.RunFixed,
		Serve:   daemon.Serve,
		Probe:   probe,
	}
	os.Exit(cli.Run(context.Background(), deps, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
