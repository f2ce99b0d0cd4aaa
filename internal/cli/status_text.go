// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/admin"
)

// view is how a status is looked at.
type view struct {
	now time.Time
	// prev and elapsed: show rates since then instead of sums.
	prev    *admin.Status
	elapsed time.Duration
	// peers is the most that are listed.
	peers int
}

// per returns a counter's text: its sum, or its rate when there is an earlier
// value.
func (v view) per(now uint64, before func(*admin.Status) uint64) string {
	if v.prev == nil {
		return count(now)
	}
	return scaled(v.rate(now, before(v.prev)), "") + "/s"
}

func (v view) rate(now, before uint64) float64 {
	if now < before || v.elapsed <= 0 {
		return 0 // the gateway was started again
	}
	return float64(now-before) / v.elapsed.Seconds()
}

func (v view) bytes(now uint64, before func(*admin.Status) uint64) string {
	if v.prev == nil {
		return scaled(float64(now), "B")
	}
	return scaled(8*v.rate(now, before(v.prev)), "bit/s")
}

// statusText lays a status out: what is wrong comes before what is big.
func statusText(s *admin.Status, v view) []byte {
	var b bytes.Buffer
	row := func(label, format string, args ...any) {
		fmt.Fprintf(&b, "%-10s %s\n", label, fmt.Sprintf(format, args...))
	}
	row("gateway", "%s on %s, inner MTU %d, %s%s, up %s, pid %d, %s", s.Name, s.Dev, s.MTU, mssfix(s), p2p(s), span(time.Duration(s.UptimeSeconds)*time.Second), s.PID, s.Software)
	row("listening", "%s", listeners(s.Listeners))
	for i := range s.NICs {
		row("nic", "%s", nicLine(&s.NICs[i]))
	}
	if len(s.NICs) == 0 {
		row("nic", "none: records arrive by the socket only")
	}
	row("offloads", "tun %s; udp %s", offloads(s.Tun.Why, offload{"TSO", s.Tun.TSO}, offload{"USO", s.Tun.USO}),
		offloads(s.UDP.Why, offload{"GSO", s.UDP.GSO}, offload{"GRO", s.UDP.GRO}))
	writeTotals(row, s, v)
	writeDrops(row, s, v)
	writeNICDetails(row, s, v)
	fmt.Fprintln(&b)
	writePeersOf(&b, s, v)
	return b.Bytes()
}

type rowFunc func(label, format string, args ...any)

func writeTotals(row rowFunc, s *admin.Status, v view) {
	in, out := &s.Totals.In, &s.Totals.Out
	tcp := ""
	if in.Stream > 0 {
		tcp = v.per(in.Stream, func(p *admin.Status) uint64 { return p.Totals.In.Stream }) + " by TCP without AF_XDP, "
	}
	row("in", "%s records steered, %s by socket, %s%s per batch",
		v.per(in.Steered, func(p *admin.Status) uint64 { return p.Totals.In.Steered }),
		v.per(in.Socket, func(p *admin.Status) uint64 { return p.Totals.In.Socket }),
		tcp, meanBatch(s, v))
	row("", "%s packets delivered, %s, in %s writes; %s keepalives, %d in flight",
		v.per(in.Delivered, func(p *admin.Status) uint64 { return p.Totals.In.Delivered }),
		v.bytes(in.DeliveredBytes, func(p *admin.Status) uint64 { return p.Totals.In.DeliveredBytes }),
		v.per(in.TunWrites, func(p *admin.Status) uint64 { return p.Totals.In.TunWrites }),
		v.per(in.Keepalive, func(p *admin.Status) uint64 { return p.Totals.In.Keepalive }),
		in.InFlight)
	if in.C2C > 0 {
		row("", "%s packets handed to other peers, %s",
			v.per(in.C2C, func(p *admin.Status) uint64 { return p.Totals.In.C2C }),
			v.bytes(in.C2CBytes, func(p *admin.Status) uint64 { return p.Totals.In.C2CBytes }))
	}
	if in.FloatsRefused > 0 {
		row("", "%s batches from addresses that their peers may not float to",
			v.per(in.FloatsRefused, func(p *admin.Status) uint64 { return p.Totals.In.FloatsRefused }))
	}
	row("out", "%s packets, %s, from %s reads in %s sends; %s keepalives",
		v.per(out.Packets, func(p *admin.Status) uint64 { return p.Totals.Out.Packets }),
		v.bytes(out.Bytes, func(p *admin.Status) uint64 { return p.Totals.Out.Bytes }),
		v.per(out.TunReads, func(p *admin.Status) uint64 { return p.Totals.Out.TunReads }),
		v.per(out.Sends, func(p *admin.Status) uint64 { return p.Totals.Out.Sends }),
		v.per(out.Keepalive, func(p *admin.Status) uint64 { return p.Totals.Out.Keepalive }))
	row("control", "%s datagrams, %s dropped",
		v.per(s.Totals.Control.Datagrams, func(p *admin.Status) uint64 { return p.Totals.Control.Datagrams }),
		v.per(s.Totals.Control.Dropped, func(p *admin.Status) uint64 { return p.Totals.Control.Dropped }))
}

// meanBatch is over the interval when rates are shown.
func meanBatch(s *admin.Status, v view) string {
	if v.prev == nil {
		return fmt.Sprintf("%.1f", s.Totals.In.MeanBatch)
	}
	now, before := &s.Totals.In, &v.prev.Totals.In
	batches := v.rate(now.Batches, before.Batches)
	if batches == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", v.rate(now.Steered+now.Socket+now.Stream, before.Steered+before.Socket+before.Stream)/batches)
}

// writeDrops lists the reasons that occurred, the most frequent first.
func writeDrops(row rowFunc, s *admin.Status, v view) {
	list := nonZero(s.Totals.Drops)
	if len(list) == 0 {
		row("drops", "none")
		return
	}
	for i, r := range list {
		label := ""
		if i == 0 {
			label = "drops"
		}
		rate := ""
		if v.prev != nil {
			rate = fmt.Sprintf("  (%s/s)", scaled(v.rate(r.n, v.prev.Totals.Drops[r.name]), ""))
		}
		row(label, "%-16s %s%s", r.name, count(r.n), rate)
	}
}

type named struct {
	name string
	n    uint64
}

func nonZero(m map[string]uint64) []named {
	var list []named
	for name, n := range m {
		if n > 0 {
			list = append(list, named{name, n})
		}
	}
	slices.SortFunc(list, func(a, b named) int {
		return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.name, b.name))
	})
	return list
}

// writeNICDetails says what the BPF programs decided and what rings lost.
func writeNICDetails(row rowFunc, s *admin.Status, v view) {
	for i := range s.NICs {
		n := &s.NICs[i]
		verdicts := make(map[string]uint64, len(n.Verdicts))
		for reason, verdict := range n.Verdicts {
			verdicts[reason] = verdict.Packets
		}
		var parts []string
		for _, r := range nonZero(verdicts) {
			parts = append(parts, r.name+" "+v.per(r.n, func(p *admin.Status) uint64 { return verdictOf(p, n.Name, r.name) }))
		}
		if len(parts) > 0 {
			row("verdicts", "%s: %s", n.Name, strings.Join(parts, ", "))
		}
		for _, ring := range n.Rings {
			if ring.RingFull+ring.FillEmpty+ring.Dropped > 0 {
				row("ring", "%s queue %d lost: ring full %s, fill empty %s, dropped %s; received %s",
					n.Name, ring.Queue, count(ring.RingFull), count(ring.FillEmpty), count(ring.Dropped), count(ring.Received))
			}
		}
	}
}

func verdictOf(s *admin.Status, nic, reason string) uint64 {
	for i := range s.NICs {
		if s.NICs[i].Name == nic {
			return s.NICs[i].Verdicts[reason].Packets
		}
	}
	return 0
}

func mssfix(s *admin.Status) string {
	if s.MSSFix == 0 {
		return "MSS not clamped"
	}
	return fmt.Sprintf("MSS %d/%d", max(s.MSSFix-40, 0), max(s.MSSFix-60, 0))
}

func p2p(s *admin.Status) string {
	if s.P2P {
		return ", p2p"
	}
	return ""
}

func listeners(list []admin.Listener) string {
	var parts []string
	for _, l := range list {
		text := l.Addr.String()
		if l.Transport == "tcp" {
			text = "tcp " + text
		}
		if l.Addr.Addr().IsUnspecified() {
			text += fmt.Sprintf(" (%s)", number(uint64(len(l.Local)), "address"))
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

type offload struct {
	name string
	on   bool
}

func offloads(why string, list ...offload) string {
	var on, off []string
	for _, o := range list {
		if o.on {
			on = append(on, o.name)
		} else {
			off = append(off, "no "+o.name)
		}
	}
	text := strings.Join(append(on, off...), ", ")
	if why != "" {
		text += " (" + why + ")"
	}
	return text
}

// nicLine says in one line what a NIC does and why it does no better.
func nicLine(n *admin.NIC) string {
	parts := []string{n.Name, n.Rung}
	if n.State != "" && n.State != admin.NICAttached {
		parts = append(parts, "("+n.State+")")
	}
	switch {
	case n.TCHook != "":
		parts = append(parts, n.TCHook)
	case n.XDPMode != "":
		parts = append(parts, n.XDPMode)
	}
	if n.Copy {
		parts = append(parts, "copy")
	}
	line := strings.Join(parts, " ")
	if n.Queues > 0 {
		line += ", " + number(uint64(n.Queues), "queue")
	}
	if len(n.MissingQueues) > 0 {
		line += fmt.Sprintf(", not bound: %s", ranges(n.MissingQueues))
	}
	if n.WhyNotHigher != "" {
		line += "; why not higher: " + n.WhyNotHigher
	}
	return line
}

// ranges formats ascending numbers as --queues takes them.
func ranges(list []int) string {
	var parts []string
	for i := 0; i < len(list); {
		j := i
		for j+1 < len(list) && list[j+1] == list[j]+1 {
			j++
		}
		if i == j {
			parts = append(parts, fmt.Sprint(list[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", list[i], list[j]))
		}
		i = j + 1
	}
	return strings.Join(parts, ",")
}
