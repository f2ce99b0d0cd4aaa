// SPDX-License-Identifier: Apache-2.0

package session

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wire"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wrap"
)

// network is a client and a server on a link that loses, doubles, delays and so
// swaps datagrams. It has its own time, and its own chance.
type network struct {
	rng        *rand.Rand
	now        time.Time
	loss, twin float64       // chances
	delay      time.Duration // at most
	coming     schedule
	order      int

	config         Config // the server's
	cookie         bool   // the reset is answered without state
	static         *[256]byte
	server, client *end
	err            error
}

type scheduled struct {
	at    time.Time
	order int
	do    func()
}

type schedule []scheduled

func (s schedule) Len() int      { return len(s) }
func (s schedule) Swap(i, j int) { s[i], s[j] = s[j], s[i] }
func (s *schedule) Push(x any)   { *s = append(*s, x.(scheduled)) }
func (s *schedule) Pop() any     { x := (*s)[len(*s)-1]; *s = (*s)[:len(*s)-1]; return x }
func (s schedule) Less(i, j int) bool {
	return s[i].at.Before(s[j].at) || s[i].at.Equal(s[j].at) && s[i].order < s[j].order
}

func (n *network) after(d time.Duration, do func()) {
	n.order++
	heap.Push(&n.coming, scheduled{n.now.Add(d), n.order, do})
}

// carry puts a datagram on the link.
func (n *network) carry(b []byte, to func(b []byte)) {
	for n.rng.Float64() >= n.loss {
		n.after(time.Duration(n.rng.Int64N(int64(n.delay))), func() { to(slices.Clone(b)) })
		if n.rng.Float64() >= n.twin {
			return
		}
	}
}

// atServer takes a client's datagram; the first ones go to a gate of sorts.
func (n *network) atServer(b []byte) {
	if n.server == nil {
		if b = n.gate(b); b == nil {
			return
		}
	}
	n.server.Datagram(b, n.now)
}

// gate answers resets. It makes the server's session when it gets a reset, or
// with cookies when the server's session id comes back, and returns what is to
// be fed to it.
func (n *network) gate(b []byte) []byte {
	fresh := func() *wrap.Wrap {
		if n.static == nil {
			return wrap.Plain()
		}
		return wrap.TLSCrypt(n.static, wrap.Server)
	}
	h, plain, err := fresh().Open(nil, slices.Clone(b), n.now)
	if err != nil {
		n.err = err
		return nil
	}
	body, err := wire.ParseBody(h.Opcode, plain)
	if err != nil {
		n.err = err
		return nil
	}
	if n.cookie && h.Opcode == wire.ControlHardResetClientV2 {
		answer := wire.Body{NAcks: 1, Remote: clientID}
		opcode := uint8(wire.ControlHardResetServerV2)
		n.carry(fresh().Seal(nil, wire.Header{Opcode: opcode, Session: serverID}, answer.Append(opcode, nil), n.now),
			func(b []byte) { n.client.Datagram(b, n.now) })
		return nil
	}
	cfg := n.config
	cfg.Wrap = fresh()
	if n.cookie {
		if body.NAcks == 0 || body.Remote != serverID || body.ID > 1 {
			return nil
		}
		cfg.SendReset, cfg.NextRecv, cfg.NextSend = false, 1, 1
		if cfg.Wrap != nil {
			cfg.Wrap.SetNextID(2)
		}
	} else if h.Opcode != wire.ControlHardResetClientV2 {
		return nil
	}
	n.server = &end{Session: New(cfg, n.now)}
	return b
}

// act has the owners of both sessions act, and checks what must hold after that.
func (n *network) act() {
	for _, e := range []*end{n.client, n.server} {
		if e == nil {
			continue
		}
		other := n.atServer
		if e == n.server {
			other = func(b []byte) { n.client.Datagram(b, n.now) }
		}
		for _, ev := range e.Session.Events() {
			e.events = append(e.events, ev)
			switch {
			case ev.Type == Failed:
				n.err = fmt.Errorf("key %d failed: %w", ev.KeyID, ev.Err)
			case ev.Type == KeyExchanged && e == n.server:
				think := time.Duration(0) // as scripts do
				if n.rng.IntN(3) == 0 {
					think = time.Duration(n.rng.Int64N(int64(5 * time.Second)))
				}
				n.after(think, func() { e.Answer(ev.KeyID, n.now) })
			}
		}
		for _, b := range e.Outgoing() {
			n.carry(b, other)
		}
		next := e.Next()
		if !next.IsZero() && !next.After(n.now) {
			n.err = fmt.Errorf("busy loop: wants to be called %v ago", n.now.Sub(next))
		}
		if next.IsZero() && (e.negotiating != nil || e.established != nil && !e.established.idle()) {
			n.err = fmt.Errorf("nothing is due though something is not acknowledged")
		}
	}
}

// until runs the network until done or for at most limit of its time.
func (n *network) until(limit time.Duration, done func() bool) error {
	deadline := n.now.Add(limit)
	for n.act(); n.err == nil && !done(); n.act() {
		next := deadline
		for _, e := range []*end{n.client, n.server} {
			if e == nil {
				continue
			}
			if t := e.Next(); !t.IsZero() && t.Before(next) {
				next = t
			}
		}
		if len(n.coming) > 0 && !n.coming[0].at.After(next) {
			due := heap.Pop(&n.coming).(scheduled)
			n.now = due.at
			due.do()
			continue
		}
		if n.now = next; !n.now.Before(deadline) {
			return fmt.Errorf("stuck for %v", limit)
		}
		n.client.Tick(n.now)
		if n.server != nil {
			n.server.Tick(n.now)
		}
	}
	return n.err
}
