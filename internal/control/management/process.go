// SPDX-License-Identifier: Apache-2.0

package management

import (
	"fmt"
	"slices"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/status"
)

func (c *conversation) quit([]string) { c.quits = true }

func (c *conversation) processID([]string) { c.succeed("pid=%d", c.srv.pid) }

// version says OpenVPN Version for the sake of programs that look for that line.
// version N, by which a client tells what it knows, has no answer.
func (c *conversation) version(args []string) {
	if len(args) > 0 {
		return
	}
	c.block(fmt.Sprintf("OpenVPN Version: %s\nManagement Version: 5\nEND\n", status.Printable(c.srv.cfg.Title)))
}

func (c *conversation) verb(args []string) {
	if len(args) > 0 {
		c.fail("verb is set in the configuration; change it there and reload")
		return
	}
	c.succeed("verb=%d", c.srv.cfg.Verb())
}

func (c *conversation) mute(args []string) {
	if len(args) > 0 {
		c.fail("log lines are not muted")
		return
	}
	c.succeed("mute=0")
}

// hold answers as a server does that is never held.
func (c *conversation) hold(args []string) {
	switch arg(args, 0) {
	case "":
		c.succeed("hold=0")
	case "off":
		c.succeed("hold flag set to OFF")
	case "release":
		c.succeed("hold release succeeded")
	default:
		c.fail("the server cannot be held")
	}
}

func (c *conversation) signal(args []string) {
	name := args[0]
	if !slices.Contains([]string{"SIGHUP", "SIGTERM", "SIGUSR1", "SIGUSR2"}, name) {
		c.fail("signal '%s' is not a known signal type", name)
		return
	}
	c.srv.log.Info("management client sent a signal", "signal", name)
	if !c.srv.cfg.Source.Signal(name) {
		c.fail("signal '%s' is currently ignored", name)
		return
	}
	c.succeed("signal %s thrown", name)
}
