// SPDX-License-Identifier: Apache-2.0

package management

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/status"
)

const (
	// maxInterval bounds bytecount, in seconds.
	maxInterval = 86400
	// maxMessage is the most bytes of client-kill's message: those of a word.
	maxMessage = 255
)

// status answers status [1|2|3]. What is no number is 1, as with OpenVPN.
func (c *conversation) status(args []string) {
	version := 1
	if n, err := strconv.Atoi(arg(args, 0)); err == nil {
		version = n
	}
	b, err := status.Append(nil, version, c.srv.cfg.Source.Report())
	if err != nil {
		c.fail("bad status format version number")
		return
	}
	c.block(string(b))
}

func (c *conversation) nclients([]string) {
	c.succeed("nclients=%d", len(c.srv.cfg.Source.Report().Clients))
}

func (c *conversation) loadStats([]string) {
	r := c.srv.cfg.Source.Report()
	c.succeed("nclients=%d,bytesin=%d,bytesout=%d", len(r.Clients), r.BytesReceived, r.BytesSent)
}

// byteCount answers bytecount.
func (c *conversation) byteCount(args []string) {
	n, err := strconv.Atoi(args[0])
	if err != nil || n < 0 || n > maxInterval {
		c.fail("bytecount parameter must be a number of seconds, at most %d", maxInterval)
		return
	}
	if c.tick != nil {
		c.tick.Stop()
		c.tick = nil
	}
	if n > 0 {
		c.tick = time.NewTicker(time.Duration(n) * time.Second)
	}
	c.succeed("bytecount interval changed")
}

// byteCounts tells every client's bytes.
func (c *conversation) byteCounts() {
	var b strings.Builder
	for _, k := range c.srv.cfg.Source.Report().Clients {
		fmt.Fprintf(&b, ">BYTECOUNT_CLI:%d,%d,%d\n", k.ClientID, k.BytesReceived, k.BytesSent)
	}
	c.block(b.String())
}

// kill answers kill. No message goes to the client, as with OpenVPN: it
// notices by its own timers.
func (c *conversation) kill(args []string) {
	t := parseTarget(args[0])
	killed := 0
	for _, k := range c.srv.cfg.Source.Report().Clients {
		if t.is(k) && c.srv.cfg.Source.KillClient(k.ClientID, "") {
			killed++
		}
	}
	c.srv.log.Info("management client killed sessions", "of", args[0], "count", killed)
	text := visible(args[0])
	switch {
	case t.name && killed > 0:
		c.succeed("common name '%s' found, %d client(s) killed", text, killed)
	case t.name:
		c.fail("common name '%s' not found", text)
	case killed > 0:
		c.succeed("%d client(s) at address %s killed", killed, text)
	default:
		c.fail("client at address %s not found", text)
	}
}

// clientKill answers client-kill.
func (c *conversation) clientKill(args []string) {
	cid, err := strconv.ParseUint(args[0], 10, 64)
	if err != nil {
		c.fail("cannot parse CID")
		return
	}
	message := arg(args, 1)
	if message == "" {
		message = "RESTART"
	}
	if len(message) > maxMessage || strings.ContainsFunc(message, func(r rune) bool { return r < ' ' || r > '~' }) {
		c.fail("the message has to be at most %d bytes of ASCII", maxMessage)
		return
	}
	if !c.srv.cfg.Source.KillClient(cid, message) {
		c.fail("client-kill command failed")
		return
	}
	c.srv.log.Info("management client killed a session", "cid", cid, "message", message)
	c.succeed("client-kill command succeeded")
}
