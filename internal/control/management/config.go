// SPDX-License-Identifier: Apache-2.0

// Package management is the reading side of OpenVPN's management interface: a
// line-oriented text protocol over TCP or a Unix socket with which programs and
// people ask a server for its clients, its state and its log, and disconnect clients.
package management

import (
	"log/slog"
	"net/netip"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/status"
)

// Source is the server that is asked. Its methods are called from one goroutine at a
// time, never while a call of Log or SetState is under way.
type Source interface {
	// Report tells clients and routes.
	Report() status.Report
	// KillClient ends a client's session and reports whether there was one with that
	// client id. Message is sent to the client first, e.g. RESTART or HALT; "" sends
	// nothing. kill with a name or an address comes here too, once for each client
	// that Report lists under it.
	KillClient(cid uint64, message string) bool
	// Signal does what the signal SIGHUP, SIGTERM, SIGUSR1 or SIGUSR2 does to the
	// process, and reports whether that is anything. It must not wait for Server.Close.
	Signal(name string) bool
}

// Config is what a management interface is made of.
type Config struct {
	// Addr is the TCP address to listen on; port 0 takes any. Unix is the path of a
	// Unix socket instead.
	Addr netip.AddrPort
	Unix string
	// User and Group, names or numbers, are the only ones that may connect to the
	// Unix socket; "": anyone who may open it. With one of them the socket is
	// open to all and the caller's identity is checked; else its mode is 0700 and
	// the process's umask.
	User, Group string
	// Password is asked for first; "": none.
	Password string
	Source   Source
	// Title is program and version, told by version.
	Title string
	// Log is what the log command shows; nil: nothing.
	Log *Log
	// Logger is told who connects and what is done. nil: nobody.
	Logger *slog.Logger
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}
