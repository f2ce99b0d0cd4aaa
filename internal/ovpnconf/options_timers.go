// SPDX-License-Identifier: Apache-2.0

package ovpnconf

import "time"

func timerOptions() []OptionDoc {
	t := TopicTimers
	both := InFile | InClientFile
	return append([]OptionDoc{
		{Name: "keepalive", Topic: t, Args: "PING TIMEOUT", Min: 2, Max: 2, read: readKeepalive,
			Text: "pings every PING seconds; a client is gone after twice TIMEOUT, clients are told TIMEOUT"},
		{Name: "ping", Topic: t, Args: "SECONDS", Min: 1, Max: 1, Place: both, read: seconds(0, func(c *Common) *time.Duration { return &c.Ping }), client: clientSeconds(func(c *Client) **time.Duration { return &c.Ping }),
			Text: "a ping is sent after so long without sending"},
		{Name: "ping-restart", Topic: t, Args: "SECONDS", Min: 1, Max: 1, Place: both, read: seconds(0, func(c *Common) *time.Duration { return &c.PingRestart }), client: clientSeconds(func(c *Client) **time.Duration { return &c.PingRestart }),
			Text: "a client is gone after so long without a packet from it"},
		{Name: "ping-exit", Topic: t, Args: "SECONDS", Min: 1, Max: 1, Place: both, read: seconds(0, func(c *Common) *time.Duration { return &c.PingExit }), client: clientSeconds(func(c *Client) **time.Duration { return &c.PingRestart }),
			Text: "as ping-restart: it ends the client's session, not the gateway"},
		{Name: "ping-timer-rem", Topic: t, Place: both, client: clientIgnores, Text: "a client's address is always known"},
		{Name: "inactive", Topic: t, Args: "SECONDS [BYTES]", Min: 1, Max: 2, Place: both, read: readInactive, client: clientInactive,
			Text: "ends sessions that carried no more than BYTES in both directions in that time"},
		{Name: "session-timeout", Topic: t, Args: "SECONDS", Min: 1, Max: 1, Place: both, read: seconds(0, func(c *Common) *time.Duration { return &c.SessionTimeout }), client: clientSeconds(func(c *Client) **time.Duration { return &c.SessionTimeout }),
			Text: "ends every session after so long"},
		{Name: "reneg-sec", Topic: t, Args: "MAX [MIN]", Min: 1, Max: 2, read: readRenegSec, Text: "keys are renegotiated after a time drawn between MIN and MAX; defaults 3600 and 90 % of MAX. 0 is never"},
		{Name: "reneg-bytes", Topic: t, Args: "N", Min: 1, Max: 1, read: budget(func(c *Common) *int64 { return &c.RenegBytes }), Text: "keys are renegotiated after so many bytes; unlike with the kernel driver it has effect"},
		{Name: "reneg-pkts", Topic: t, Args: "N", Min: 1, Max: 1, read: budget(func(c *Common) *int64 { return &c.RenegPackets }), Text: "keys are renegotiated after so many packets; unlike with the kernel driver it has effect"},
		{Name: "hand-window", Topic: t, Args: "SECONDS", Min: 1, Max: 1, read: seconds(1, func(c *Common) *time.Duration { return &c.HandWindow }), Text: "time for a handshake, default 60"},
		{Name: "tran-window", Topic: t, Args: "SECONDS", Min: 1, Max: 1, read: seconds(0, func(c *Common) *time.Duration { return &c.TranWindow }), Text: "how long a replaced key is received with, default 3600"},
		{Name: "tls-timeout", Topic: t, Args: "SECONDS", Min: 1, Max: 1, read: seconds(1, func(c *Common) *time.Duration { return &c.TLSTimeout }), Text: "control packets are repeated after so long, default 2, doubling"},
	},
		ignored(t, "every session stands for itself", "single-session", "tls-exit")...)
}

func budget[P part](at func(*P) *int64) handler {
	return func(r *reader, l Line) answer {
		n, err := parseInt(l.Args[0], 0, 1<<62)
		if err != nil {
			return refuse("give a number", "%v", err)
		}
		*at(in[P](r)) = n
		return fine
	}
}

func readKeepalive(r *reader, l Line) answer {
	interval, err := parseSeconds(l.Args[0], 1)
	if err != nil {
		return refuse("write keepalive 10 60", "%v", err)
	}
	timeout, err := parseSeconds(l.Args[1], 1)
	if err != nil {
		return refuse("write keepalive 10 60", "%v", err)
	}
	// The upper limit is half a day, as with OpenVPN, since it is doubled.
	if timeout < 2*interval || timeout > 12*time.Hour {
		return refuse("write keepalive 10 60", "the time-out has to be at least twice the interval and at most 43200 seconds")
	}
	r.ping.interval, r.ping.timeout = interval, timeout
	return fine
}

func readInactive(r *reader, l Line) answer {
	d, bytes, a := inactiveOf(l)
	if a.verdict != Refused {
		r.c.Inactive, r.c.InactiveBytes = d, bytes
	}
	return a
}

func inactiveOf(l Line) (d time.Duration, bytes int64, a answer) {
	d, err := parseSeconds(l.Args[0], 0)
	if err == nil && len(l.Args) == 2 {
		bytes, err = parseInt(l.Args[1], 0, 1<<62)
	}
	if err != nil {
		return 0, 0, refuse("write inactive SECONDS [BYTES]", "%v", err)
	}
	return d, bytes, fine
}

func readRenegSec(r *reader, l Line) answer {
	most, err := parseSeconds(l.Args[0], 0)
	if err != nil {
		return refuse("give seconds, or 0 for never", "%v", err)
	}
	least := time.Duration(-1)
	if len(l.Args) == 2 {
		if least, err = parseSeconds(l.Args[1], 0); err != nil {
			return refuse("give seconds", "%v", err)
		}
		if least > most {
			return refuse("write reneg-sec MAX MIN", "the second number is the smaller one")
		}
	}
	r.c.RenegMax, r.c.RenegMin = most, least
	return fine
}

// timers expands keepalive and fills in what depends on other timers.
func (r *reader) timers() {
	t := &r.c.Timers
	if r.ping.interval > 0 {
		for _, o := range []string{"ping", "ping-restart", "ping-exit"} {
			if r.given(o) {
				r.amend(o, refuse("remove it, or remove keepalive", "keepalive already says it"))
			}
		}
		t.Ping, t.PingRestart = r.ping.interval, 2*r.ping.timeout
	}
	if t.PingExit > 0 && t.PingRestart == 0 {
		t.PingRestart = t.PingExit
	}
	if t.RenegMin < 0 {
		t.RenegMin = t.RenegMax - t.RenegMax/10
	}
	if t.RenegMax == 0 {
		r.noteLine("reneg-sec", note("keys are only renegotiated for reneg-bytes, reneg-pkts, or when a key's packet ids or cipher's limit run out"))
	}
}

// noteLine adds a note to an option that was given.
func (r *reader) noteLine(option string, a answer) {
	if r.given(option) {
		r.amend(option, a)
	}
}
