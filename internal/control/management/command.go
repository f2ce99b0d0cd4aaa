// SPDX-License-Identifier: Apache-2.0

package management

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/status"
	"github.com/ovpn-xdp/ovpn-xdp/internal/ovpnconf"
)

// command is one command. Words behind those that it takes are ignored, as by OpenVPN.
type command struct {
	name string
	args string // for help
	need int    // words that have to follow
	more bool   // others may
	help string
	run  func(c *conversation, args []string)
}

// commands are those that are answered, in the order of help. help itself is
// answered by lookup, or the list would contain itself.
var commands = []command{
	{"bytecount", "N", 1, false, "tell every client's bytes every N seconds; 0: no longer", (*conversation).byteCount},
	{"client-kill", "CID [MESSAGE]", 1, true, "end the session with that client id; MESSAGE goes to the client, default RESTART", (*conversation).clientKill},
	{"echo", "on|off|N|all", 1, true, "there are no echo messages", (*conversation).echoes},
	{"exit", "", 0, false, "end this conversation, as quit", (*conversation).quit},
	{"hold", "[off|release]", 0, true, "the server never waits for release", (*conversation).hold},
	{"kill", "NAME | ADDRESS:PORT", 1, false, "end the sessions of a common name, or of an outer address; [udp:|tcp:][IPv6]:port and a plain IPv6 address are known too", (*conversation).kill},
	{"load-stats", "", 0, false, "number of clients, and bytes of all", (*conversation).loadStats},
	{"log", "on|off|N|all", 1, true, "tell log lines as they come, or the last N", (*conversation).logs},
	{"mute", "", 0, true, "limit of repeated log lines", (*conversation).mute},
	{"nclients", "", 0, false, "number of clients", (*conversation).nclients},
	{"pid", "", 0, false, "process id", (*conversation).processID},
	{"quit", "", 0, false, "end this conversation", (*conversation).quit},
	{"signal", "NAME", 1, false, "what the signal does: SIGHUP, SIGTERM, SIGUSR1 or SIGUSR2", (*conversation).signal},
	{"state", "[on|off|N|all]", 0, true, "tell states as they come, or the last N", (*conversation).stateLines},
	{"status", "[1|2|3]", 0, true, "clients and routes as in that version of the status file", (*conversation).status},
	{"verb", "", 0, true, "verbosity of the log", (*conversation).verb},
	{"version", "", 0, true, "program, and version of this interface", (*conversation).version},
}

// unsupported are OpenVPN's other commands. They answer questions that this server
// never asks, or belong to clients.
var unsupported = []string{
	"auth-retry", "certificate", "client-auth", "client-auth-nt", "client-deny", "client-pending-auth", "cr-response", "env-filter",
	"forget-passwords", "needok", "needstr", "net", "password", "pk-sig", "pkcs11-id-count", "pkcs11-id-get", "proxy", "push-update-broad",
	"push-update-cid", "remote", "remote-entry-count", "remote-entry-get", "rsa-sig", "test", "username",
}

// command answers a line.
func (c *conversation) command(q request) {
	if q.long {
		c.fail("a command has at most %d bytes", maxLine)
		return
	}
	if strings.Trim(q.text, " \t\v\f\r") == "" {
		return
	}
	c.srv.log.Debug("management command", "command", q.text)
	words, err := ovpnconf.SplitCommand(q.text)
	if err != nil {
		c.fail("%v", err)
		return
	}
	name, args := words[0], words[1:]
	if name == "help" {
		c.help()
		return
	}
	i := slices.IndexFunc(commands, func(k command) bool { return k.name == name })
	if i < 0 {
		if slices.Contains(unsupported, name) {
			c.fail("the '%s' command is not supported by this server", name)
		} else {
			c.fail("unknown command, enter 'help' for more options")
		}
		return
	}
	k := commands[i]
	switch {
	case len(args) >= k.need:
		k.run(c, args)
	case k.more:
		c.fail("the '%s' command requires at least %d parameter", name, k.need)
	default:
		c.fail("the '%s' command requires %d parameter", name, k.need)
	}
}

func (c *conversation) succeed(format string, args ...any) {
	c.line("SUCCESS: " + fmt.Sprintf(format, args...))
}

func (c *conversation) fail(format string, args ...any) {
	c.line("ERROR: " + visible(fmt.Sprintf(format, args...)))
}

func (c *conversation) help() {
	var b strings.Builder
	fmt.Fprintf(&b, "Management Interface for %s\nCommands:\n", status.Printable(c.srv.cfg.Title))
	for _, k := range commands {
		fmt.Fprintf(&b, "%-32s : %s\n", strings.TrimSpace(k.name+" "+k.args), k.help)
	}
	fmt.Fprintf(&b, "%-32s : %s\nEND\n", "help", "this list")
	c.block(b.String())
}

// arg is word i, or "".
func arg(args []string, i int) string {
	if i < len(args) {
		return args[i]
	}
	return ""
}
