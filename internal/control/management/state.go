// SPDX-License-Identifier: Apache-2.0

package management

import (
	"net/netip"
	"time"
)

// State is a line of the state command. A server goes CONNECTING, ADD_ROUTES, CONNECTED
// (detail SUCCESS), and EXITING in the end (detail: the reason).
type State struct {
	Time time.Time
	Name string
	// Detail is SUCCESS for CONNECTED, else a reason or "".
	Detail string
	// Tunnel4 and Tunnel6 are the server's own addresses in the tunnel.
	Tunnel4, Tunnel6 netip.Addr
}
