// SPDX-License-Identifier: Apache-2.0

// Package management is the reading side of OpenVPN's management interface: a
// line-oriented text protocol over TCP or a Unix socket with which programs and
// people ask a server for its clients, its state and its log, and disconnect clients.
// Replies have the form of OpenVPN 2.6, which calls it version 5.
package management

import (
	"log/slog"
	"net/netip"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/status"
)

// Source is the server that is asked. Its methods are called from one goroutine at a
// time, in which nothing of this package is locked. They may log and call
// Server.SetState, but must not wait for Server.Close.
type Source interface {
	// Report tells clients and routes.
	Report() status.Report
	// KillClient ends a client's session and reports whether there was one with that
	// client id. Message, at most 255 bytes of printable ASCII, is sent to the client
	// first, e.g. RESTART or HALT; "" sends nothing. kill with a name or an address comes
	// here too, once for each client that Report lists under it.
	KillClient(cid uint64, message string) bool
	// Signal does what SIGHUP, SIGTERM, SIGUSR1 or SIGUSR2 does to the process, later
	// than its return, and reports whether that is anything.
	Signal(name string) bool
}

// Config is what a management interface is made of.
type Config struct {
	// Addr is the TCP address to listen on; port 0 takes any. Unix is the path of a
	// Unix socket instead.
	Addr netip.AddrPort
	Unix string
	// User and Group, names or numbers, are whom the Unix socket talks to; of a
	// caller's groups only the primary one counts. With neither of them and no
	// Password it talks to root and the process's own user. OpenVPN talks to everybody
	// then.
	User, Group string
	// Password is asked for first; "": none.
	Password string
	Source   Source
	// Title is program and version, as the commands version and help say.
	Title string
	// Verb returns the verbosity that verb tells. Called from several goroutines.
	Verb func() int
	// Log is what the log command shows; nil: nothing. It serves one Server.
	Log *Log
	// Logger is told who connects and what is done; nil: nobody.
	Logger *slog.Logger
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}
