// SPDX-License-Identifier: Apache-2.0

package ovpnconf

import "strings"

func scriptOptions() []OptionDoc {
	t := TopicScripts
	cmd := func(name, text string, at func(*Common) *Command) OptionDoc {
		return OptionDoc{Name: name, Topic: t, Args: `"COMMAND"`, Min: 1, Max: 1, read: command(at), Text: text}
	}
	return append([]OptionDoc{
		{Name: "script-security", Topic: t, Args: "0|1|2|3", Min: 1, Max: 1, read: number(0, 3, func(c *Common) *int { return &c.Scripts.Security }),
			Text: "2 allows commands, 3 passwords in their environment; default 1. Commands with less than that are refused at start, where stock fails when it comes to run them. Commands never go through a shell"},
		cmd("client-connect", "run when a client is authenticated; a file it writes is read like one of client-config-dir, and it can turn the client away or defer the answer", func(c *Common) *Command { return &c.Scripts.ClientConnect }),
		cmd("client-disconnect", "run when a client has gone", func(c *Common) *Command { return &c.Scripts.ClientDisconnect }),
		cmd("learn-address", "run when an address or network of a client is added, updated or deleted; can refuse it", func(c *Common) *Command { return &c.Scripts.LearnAddress }),
		cmd("up", "run when the device is up", func(c *Common) *Command { return &c.Scripts.Up }),
		cmd("down", "run when the device has gone, or before with down-pre", func(c *Common) *Command { return &c.Scripts.Down }),
		{Name: "down-pre", Topic: t, read: toggle(func(c *Common) *bool { return &c.Scripts.DownPre }), Text: "runs `down` before the device goes"},
		cmd("route-up", "run when the routes are set", func(c *Common) *Command { return &c.Scripts.RouteUp }),
		cmd("route-pre-down", "run before the routes go", func(c *Common) *Command { return &c.Scripts.RoutePreDown }),
		cmd("client-crresponse", "run with a client's answer to a challenge", func(c *Common) *Command { return &c.Scripts.CRResponse }),
		{Name: "ipchange", Topic: t, Args: `"COMMAND"`, Max: -1, Verdict: Refused, Text: "stock refuses it on a server too", Remedy: "use client-connect or learn-address"},
		{Name: "tmp-dir", Topic: t, Args: "DIR", Min: 1, Max: 1, read: pathAt(func(c *Common) *string { return &c.Scripts.TmpDir }), Text: "folder of files that are handed to commands, default $TMPDIR or /tmp"},
		{Name: "setenv", Topic: t, Args: "NAME [VALUE]", Min: 1, Max: maxArgs - 1, read: readSetEnv, Text: "variable for commands; `setenv opt OPTION` makes an option optional, `setenv FORWARD_COMPATIBLE 1` all unknown ones"},
		{Name: "setenv-safe", Topic: t, Args: "NAME [VALUE]", Min: 1, Max: 2, read: readSetEnvSafe, Text: "variable OPENVPN_NAME for commands"},
	}, ignored(t, "nothing of the device is opened again while the gateway runs", "up-restart", "up-delay")...)
}

func readSetEnv(r *reader, l Line) answer {
	switch l.Args[0] {
	case "opt":
		return refuse("write setenv opt OPTION", "it names no option")
	case "FORWARD_COMPATIBLE":
		r.all = len(l.Args) == 2 && l.Args[1] == "1"
	case "GENERIC_CONFIG":
		return refuse("make a configuration of it first", "this is a generic configuration that cannot be used directly")
	case "REMOTE_RANDOM_HOSTNAME", "PUSH_PEER_INFO", "SERVER_POLL_TIMEOUT":
		return ignore("%s is for clients", l.Args[0])
	}
	if len(l.Args) > 2 {
		return refuse("put the value into double quotes", "it has more than a name and a value")
	}
	return r.setEnv(l.Args[0], l)
}

func readSetEnvSafe(r *reader, l Line) answer { return r.setEnv("OPENVPN_"+l.Args[0], l) }

func (r *reader) setEnv(name string, l Line) answer {
	if name == "" || strings.ContainsFunc(name, func(c rune) bool {
		return c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z')
	}) {
		return refuse("use letters, digits and '_'", "%q is no name of a variable", printable(name))
	}
	v := EnvVar{Name: name}
	if len(l.Args) == 2 {
		v.Value = l.Args[1]
	}
	r.c.Scripts.Env = append(r.c.Scripts.Env, v)
	return fine
}

// optionCommand is an option with the command that it names.
type optionCommand struct {
	option string
	argv   Command
}

// commands returns the options that run something, with their commands.
func (c *Common) commands() []optionCommand {
	return []optionCommand{
		{"tls-verify", c.Peers.Verify},
		{"up", c.Scripts.Up},
		{"down", c.Scripts.Down},
		{"route-up", c.Scripts.RouteUp},
		{"route-pre-down", c.Scripts.RoutePreDown},
	}
}

func (s *Server) commands() []optionCommand {
	return append(s.Common.commands(), []optionCommand{
		{"auth-user-pass-verify", s.Auth.Verify},
		{"tls-crypt-v2-verify", s.Wrap.V2Verify},
		{"client-connect", s.Scripts.ClientConnect},
		{"client-disconnect", s.Scripts.ClientDisconnect},
		{"learn-address", s.Scripts.LearnAddress},
		{"client-crresponse", s.Scripts.CRResponse},
	}...)
}

// checkScripts refuses commands that script-security does not allow.
func (r *reader) checkScripts(commands []optionCommand) {
	for _, c := range commands {
		if c.argv != nil && r.c.Scripts.Security < 2 {
			r.amend(c.option, refuse("add script-security 2", "script-security is %d, which allows no commands", r.c.Scripts.Security))
		}
	}
}

// checkVerifyEnv refuses passwords in the environment that script-security does not allow.
func (r *reader) checkVerifyEnv() {
	if r.s.Auth.Verify != nil && !r.s.Auth.ViaFile && r.c.Scripts.Security == 2 {
		r.amend("auth-user-pass-verify", refuse("use via-file, or script-security 3", "via-env puts passwords into the environment, which script-security 2 does not allow"))
	}
}
