// SPDX-License-Identifier: Apache-2.0

package ovpnconf

import (
	"log/slog"
	"net/netip"
	"time"
)

// Timers are times and budgets of sessions. A zero duration or count is off.
type Timers struct {
	// RenegMax and RenegMin: a key is renegotiated after a time between them, drawn
	// once for each client. Defaults 3600 s and 90 % of RenegMax.
	RenegMax, RenegMin time.Duration
	// RenegBytes and RenegPackets are the same in both directions' sum.
	RenegBytes, RenegPackets int64
	// HandWindow is the time that a handshake may take, default 60 s.
	HandWindow time.Duration
	// TranWindow is how long a replaced key is received with, default 3600 s.
	TranWindow time.Duration
	// TLSTimeout is the first retransmission's delay, default 2 s.
	TLSTimeout time.Duration
	// Ping: send a ping after that time without sending. PingRestart: the client
	// is gone after that time without receiving. PingExit is PingRestart on a server.
	Ping, PingRestart, PingExit time.Duration
	// Inactive ends a session that carried less than InactiveBytes (both
	// directions) in that time.
	Inactive      time.Duration
	InactiveBytes int64
	// SessionTimeout ends every session after that time.
	SessionTimeout time.Duration
}

// Auth is user and password verification.
type Auth struct {
	// Verify is the auth-user-pass-verify command; nil: none.
	Verify Command
	// ViaFile: user and password are handed over in a file, else in the environment.
	ViaFile bool
	// Optional: clients without user and password are let in by the script as well.
	Optional bool
	// UsernameAsCN: the username replaces the common name.
	UsernameAsCN bool
	Token        Token
}

// Token is auth-gen-token.
type Token struct {
	Enabled bool
	// Lifetime is how long a token may be used; 0: for ever.
	Lifetime time.Duration
	// Renewal is how often a new one is sent; 0: at each renegotiation.
	Renewal time.Duration
	// External: the script sees tokens too and has the last word.
	External bool
	// Secret is auth-gen-token-secret; not given: a random one until restart.
	Secret Source
}

// Scripts are commands that are run on events; nil: none.
type Scripts struct {
	// Security is script-security: 2 allows commands, 3 passwords in the
	// environment.
	Security                        int
	ClientConnect, ClientDisconnect Command
	LearnAddress                    Command
	Up, Down                        Command
	RouteUp, RoutePreDown           Command
	IPChange                        Command
	CRResponse                      Command
	// TmpDir is for files handed to commands, default: TMPDIR or /tmp.
	TmpDir string
	// Env are variables of setenv and setenv-safe, in order.
	Env []EnvVar
	// DownPre runs Down before the device is closed.
	DownPre bool
}

// EnvVar is one variable for scripts.
type EnvVar struct{ Name, Value string }

// Management is the management interface.
type Management struct {
	// Enabled: an address or a path is given.
	Enabled bool
	// Addr is the TCP address; "tunnel" as address is Tunnel.
	Addr   netip.AddrPort
	Tunnel bool
	// Unix is the path of a Unix socket; "": TCP.
	Unix string
	// Password is the file with the password in its first line; "": none.
	Password string
	// User and Group may connect to the Unix socket; "": anyone who may open it.
	User, Group string
	// LogCache is how many log lines are kept, default 250.
	LogCache int
	Line     Line
}

// Status is the status file.
type Status struct {
	// File is "" when none is written.
	File string
	// Every is how often, default 60 s; 0: only on SIGUSR2.
	Every time.Duration
	// Version is 1 (default), 2 or 3.
	Version int
}

// Log is where and how much is logged.
type Log struct {
	// File is written instead of stderr; "": stderr.
	File   string
	Append bool
	// Syslog: lines carry syslog priorities for a journal; Name is the program's.
	Syslog bool
	Name   string
	// Verb is 0..11, default 1; 4 and above is debug.
	Verb int
	// Mute is the most lines of one kind in a row; 0: no limit.
	Mute int
	// SuppressTimestamps leaves times out of lines.
	SuppressTimestamps bool
	// MachineReadable writes epoch seconds and flags.
	MachineReadable bool
}

// Level is the least level of lines that verb asks for.
func (l Log) Level() slog.Level {
	switch {
	case l.Verb >= 4:
		return slog.LevelDebug
	case l.Verb == 0:
		return slog.LevelError
	}
	return slog.LevelInfo
}

// Process is what the process does about itself.
type Process struct {
	// WritePID is a file for the process id; "": none.
	WritePID string
	// Daemon: `daemon` was asked for. The gateway stays in the foreground.
	Daemon bool
	// Cd is the folder that commands run in; "": the process's own.
	Cd string
}

// XDP are the gateway's own options, `xdp-` and a name of `ovpn-xdp run`'s
// flags. Nil, "" and 0 stand for not given.
type XDP struct {
	NICs                                []string
	Mode                                string
	Queues                              []int
	Name                                string
	RingSize, Batch, Workers            int
	Prefetch                            *int
	NoTunOffload, NoUDPGSO, NoUDPGRO    bool
	PinDir, StateDir, RunDir, ReadyFile string
	LogFormat                           string
}
