// SPDX-License-Identifier: Apache-2.0

package ovpnconf

import (
	"net/netip"
	"slices"
)

func operateOptions() []OptionDoc {
	t := TopicOperate
	return slices.Concat([]OptionDoc{
		{Name: "status", Topic: t, Args: "FILE [SECONDS]", Min: 1, Max: 2, read: readStatus, Text: "status file, written every 60 s; with 0 on SIGUSR2 only"},
		{Name: "status-version", Topic: t, Args: "1|2|3", Min: 1, Max: 1, read: number(1, 3, func(c *Common) *int { return &c.Status.Version }), Text: "form of the status file, default 1"},
		{Name: "management", Topic: t, Args: "ADDRESS PORT [PASSWORD-FILE] | PATH unix [PASSWORD-FILE]", Min: 2, Max: 3, read: readManagement,
			Text: "the reading side of the management interface: status, state, log, kill, client-kill, bytecount, load-stats, version, help; and signal. A Unix socket is for root alone, unless there is a password file or management-client-user or -group"},
		{Name: "management-client-user", Topic: t, Args: "USER", Min: 1, Max: 1, read: value(func(c *Common) *string { return &c.Management.User }), Text: "only this user may connect to the Unix socket"},
		{Name: "management-client-group", Topic: t, Args: "GROUP", Min: 1, Max: 1, read: value(func(c *Common) *string { return &c.Management.Group }), Text: "only this group may connect to the Unix socket"},
		{Name: "management-log-cache", Topic: t, Args: "N", Min: 1, Max: 1, read: number(1, 100000, func(c *Common) *int { return &c.Management.LogCache }), Text: "log lines that are kept, default 250"},
		{Name: "log", Topic: t, Args: "FILE", Min: 1, Max: 1, read: readLog, Text: "the log goes to a file, which is emptied first"},
		{Name: "log-append", Topic: t, Args: "FILE", Min: 1, Max: 1, read: readLog, Text: "the log goes to a file"},
		{Name: "syslog", Topic: t, Args: "[NAME]", Max: 1, Verdict: Ignored, read: readSyslog, Text: "the log goes to stderr, from where the journal takes it, or to a file"},
		{Name: "daemon", Topic: t, Args: "[NAME]", Max: 1, Verdict: Ignored, read: readDaemon, Text: "the gateway stays in the foreground; a service manager such as systemd puts it in the background"},
		{Name: "verb", Topic: t, Args: "0...11", Min: 1, Max: 1, read: number(0, 11, func(c *Common) *int { return &c.Log.Verb }), Text: "default 1; 0 logs errors only, 4 and above is debug"},
		{Name: "mute", Topic: t, Args: "N", Min: 1, Max: 1, Verdict: Ignored, read: number(0, maxSeconds, func(c *Common) *int { return &c.Log.Mute }), Text: "repeated log lines are held back and counted in any case"},
		{Name: "suppress-timestamps", Topic: t, read: toggle(func(c *Common) *bool { return &c.Log.SuppressTimestamps }), Text: "log lines have no time"},
		{Name: "machine-readable-output", Topic: t, Verdict: Ignored, read: toggle(func(c *Common) *bool { return &c.Log.MachineReadable }), Text: "xdp-log-format json is the log for machines"},
		{Name: "writepid", Topic: t, Args: "FILE", Min: 1, Max: 1, read: pathAt(func(c *Common) *string { return &c.Process.WritePID }), Text: "file for the process id"},
		{Name: "cd", Topic: t, Args: "DIR", Min: 1, Max: 1, read: readCd, Text: "relative paths start here, and commands run here"},
		{Name: "mode", Topic: t, Args: "server", Min: 1, Max: 1, read: readMode, Text: "implied by server; p2p is refused"},
	},
		ignored(t, "rights are limited by the unit file, to what BPF, AF_XDP and TUN need; started by hand the gateway keeps all of them. Scripts run as the gateway does, so as root", "user", "group", "chroot", "setcon"),
		ignored(t, "set it in the unit file: Nice= and LimitMEMLOCK=", "nice", "mlock"),
		ignored(t, "addresses, keys and device are kept while the gateway runs", "persist-tun", "persist-key", "persist-local-ip", "persist-remote-ip", "remap-usr1"),
		ignored(t, "errors are on stderr unless a log file is given", "errors-to-stderr"),
		ignored(t, "it has no effect on a server", "echo", "parameter"),
		ignored(t, "the management interface only reads; it does not ask, hold or signal", "management-query-passwords", "management-query-remote", "management-hold",
			"management-signal", "management-forget-disconnect", "management-up-down"),
		refused(t, "the management interface cannot be asked whether a client may connect, and without the question anybody could", "use auth-user-pass-verify or client-connect",
			"management-client-auth"),
		refused(t, "the management interface cannot be asked whether traffic may pass", "use the host's firewall (nftables)", "management-client-pf"),
		refused(t, "the management interface listens and does not connect", "give an address to listen on", "management-client"),
		refused(t, "keys are read from files", "use key FILE", "management-external-key", "management-external-cert"),
		refused(t, "a server has no proxy", "remove it", "management-query-proxy"),
	)
}

func readStatus(r *reader, l Line) answer {
	if a := readPath(l, &r.c.Status.File); a.verdict == Refused {
		return a
	}
	if len(l.Args) == 2 {
		d, err := parseSeconds(l.Args[1], 0)
		if err != nil {
			return refuse("write status FILE [SECONDS]", "%v", err)
		}
		r.c.Status.Every = d
	}
	return fine
}

func readManagement(r *reader, l Line) answer {
	m := Management{Enabled: true, LogCache: r.c.Management.LogCache, User: r.c.Management.User, Group: r.c.Management.Group, Line: l}
	host := l.Args[0]
	if l.Args[1] == "unix" {
		m.Unix = host
	} else {
		port, err := parseInt(l.Args[1], 1, 65535)
		if err != nil {
			return refuse("give a port, or unix behind a path", "port %v", err)
		}
		switch host {
		case "localhost":
			host = "127.0.0.1"
		case "tunnel":
			m.Tunnel, host = true, "0.0.0.0"
		}
		a, err := netip.ParseAddr(host)
		if err != nil {
			return refuse("give an address, such as 127.0.0.1", "%q is not an address", printable(host))
		}
		m.Addr = netip.AddrPortFrom(a.Unmap(), uint16(port))
		if m.Tunnel {
			m.Addr = netip.AddrPortFrom(netip.Addr{}, uint16(port))
		}
	}
	if len(l.Args) == 3 {
		if l.Args[2] == "stdin" {
			return refuse("give a file with the password in its first line", "there is no console to ask")
		}
		m.Password = l.Args[2]
	}
	r.c.Management = m
	if m.Unix == "" && m.Password == "" {
		return note("whoever reaches that port can read it and end sessions; give a password file, or a Unix socket")
	}
	return fine
}

func readLog(r *reader, l Line) answer {
	r.c.Log.Append = l.Option == "log-append"
	return readPath(l, &r.c.Log.File)
}

func readSyslog(r *reader, l Line) answer {
	r.c.Log.Syslog = true
	if len(l.Args) == 1 {
		r.c.Log.Name = l.Args[0]
	}
	return fine
}

func readDaemon(r *reader, l Line) answer {
	r.c.Process.Daemon = true
	if len(l.Args) == 1 {
		r.c.Log.Name = l.Args[0]
	}
	return fine
}

func readCd(r *reader, l Line) answer {
	var dir string
	if a := readPath(l, &dir); a.verdict == Refused {
		return a
	}
	r.c.Process.Cd = joinPath(r.c.Process.Cd, dir)
	return fine
}

func readMode(r *reader, l Line) answer {
	switch l.Args[0] {
	case "server":
		r.mode = "server"
		return fine
	case "p2p":
		return refuse("write server NETWORK NETMASK", "the gateway is a server for many clients")
	}
	return refuse("write mode server", "%q is no mode", printable(l.Args[0]))
}

// checkManagement holds the management options against each other.
func (r *reader) checkManagement() {
	m := r.c.Management
	for _, o := range []string{"management-client-user", "management-client-group"} {
		if r.given(o) && m.Unix == "" {
			r.amend(o, refuse("write management PATH unix", "it is for a Unix socket"))
		}
	}
	if r.given("management-log-cache") && !m.Enabled {
		r.amend("management-log-cache", ignore("there is no management line"))
	}
}
