// SPDX-License-Identifier: Apache-2.0

package management

import (
	"math"
	"strconv"
	"strings"
)

// history is what log, state and echo have in common: words that are on, off, a
// number of lines or all, in any order.
type history struct {
	name   string
	turn   func(on bool)
	recent func(n int) []string
}

func (c *conversation) logs(args []string) {
	log := c.srv.cfg.Log
	c.history(args, history{"log", func(on bool) {
		if on {
			log.tell(func(line string) { c.note(">LOG:" + line) })
		} else {
			log.tell(nil)
		}
	}, log.recent})
}

func (c *conversation) stateLines(args []string) {
	if len(args) == 0 {
		args = []string{"1"}
	}
	c.history(args, history{"state", c.states.Store, c.srv.recentStates})
}

func (c *conversation) echoes(args []string) {
	c.history(args, history{"echo", func(bool) {}, func(int) []string { return nil }})
}

// history answers the first two words; OpenVPN looks at no more.
func (c *conversation) history(args []string, h history) {
	for _, word := range args[:min(len(args), 2)] {
		switch word {
		case "on", "off":
			h.turn(word == "on")
			c.flush() // what came before off
			c.succeed("real-time %s notification set to %s", h.name, strings.ToUpper(word))
			continue
		}
		n := math.MaxInt
		if word != "all" {
			var err error
			if n, err = strconv.Atoi(word); err != nil || n <= 0 {
				c.fail("%s parameter must be 'on' or 'off' or some number n or 'all'", h.name)
				return
			}
		}
		var b strings.Builder
		for _, line := range h.recent(n) {
			b.WriteString(line)
			b.WriteByte('\n')
		}
		b.WriteString("END\n")
		c.block(b.String())
	}
}
