// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/admin"
)

// writePeersOf lists peers, those heard of last first when not all fit.
func writePeersOf(w io.Writer, s *admin.Status, v view) {
	peers := s.Peers
	hidden := len(peers) - v.peers
	if hidden > 0 {
		peers = slices.Clone(peers)
		slices.SortStableFunc(peers, func(a, b admin.Peer) int { return b.LastReceived.Compare(a.LastReceived) })
		peers = peers[:v.peers]
	}
	if v.prev == nil {
		_ = writePeerTable(w, peers, v.now)
	} else {
		_ = writePeerRates(w, peers, v)
	}
	if hidden > 0 {
		fmt.Fprintf(w, "and %s: ovpn-xdp peer list\n", number(uint64(hidden), "more peer"))
	}
}

func writePeerTable(w io.Writer, peers []admin.Peer, now time.Time) error {
	if len(peers) == 0 {
		_, err := fmt.Fprintln(w, "no peers")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	named := slices.ContainsFunc(peers, func(p admin.Peer) bool { return p.Name != "" })
	head := "PEER\tREMOTE\tKEYS\tIN\tOUT\tRECEIVED\tROUTES"
	if named {
		head += "\tCLIENT"
	}
	fmt.Fprintln(t, head)
	for i := range peers {
		p := &peers[i]
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\t%s", p.ID, endpointOf(p), keys(p.Keys),
			scaled(float64(p.In.Bytes), "B"), scaled(float64(p.Out.Bytes), "B"), age(p.LastReceived, now), routes(p.Routes))
		if named {
			fmt.Fprintf(t, "\t%s", printable(p.Name))
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

func writePeerRates(w io.Writer, peers []admin.Peer, v view) error {
	if len(peers) == 0 {
		_, err := fmt.Fprintln(w, "no peers")
		return err
	}
	before := make(map[uint32]*admin.Peer, len(v.prev.Peers))
	for i := range v.prev.Peers {
		before[v.prev.Peers[i].ID] = &v.prev.Peers[i]
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "PEER\tREMOTE\tKEYS\tIN\tOUT\tRECEIVED")
	for i := range peers {
		p := &peers[i]
		old := before[p.ID]
		if old == nil {
			old = &admin.Peer{}
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\n", p.ID, endpointOf(p), keys(p.Keys),
			scaled(8*v.rate(p.In.Bytes, old.In.Bytes), "bit/s"), scaled(8*v.rate(p.Out.Bytes, old.Out.Bytes), "bit/s"), age(p.LastReceived, v.now))
	}
	return t.Flush()
}

func endpoint(ap netip.AddrPort) string {
	if !ap.IsValid() {
		return "unknown"
	}
	return ap.String()
}

// endpointOf is a peer's address, with its transport unless that is UDP.
func endpointOf(p *admin.Peer) string {
	if p.Transport == "tcp" {
		return "tcp " + endpoint(p.Remote)
	}
	return endpoint(p.Remote)
}

// printable quotes a name that would upset a terminal.
func printable(s string) string {
	if q := strconv.QuoteToGraphic(s); q != `"`+s+`"` {
		return q
	}
	return s
}

// keys lists key ids, the primary's first: "0 AES-128-GCM, 1 secondary".
func keys(list []admin.Key) string {
	if len(list) == 0 {
		return "none"
	}
	var parts []string
	primary := false
	for _, k := range list {
		if k.Slot == admin.Primary {
			primary = true
			parts = append(parts, fmt.Sprintf("%d %s", k.KeyID, k.Cipher))
		} else {
			parts = append(parts, fmt.Sprintf("%d %s", k.KeyID, k.Slot))
		}
	}
	if !primary {
		parts = append([]string{"no primary"}, parts...)
	}
	return strings.Join(parts, ", ")
}

func routes(list []netip.Prefix) string {
	const most = 4
	var parts []string
	for i, r := range list {
		if i == most {
			parts = append(parts, fmt.Sprintf("and %d more", len(list)-most))
			break
		}
		parts = append(parts, r.String())
	}
	if parts == nil {
		return "-"
	}
	return strings.Join(parts, " ")
}

// writePeer shows everything about one peer.
func writePeer(w io.Writer, p *admin.Peer, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(label, text string) { fmt.Fprintf(t, "%s\t%s\n", label, text) }
	row("peer", fmt.Sprint(p.ID))
	if p.TxID != nil {
		row("tx id", fmt.Sprint(*p.TxID))
	}
	if p.Name != "" {
		row("client", printable(p.Name))
	}
	row("remote", endpointOf(p))
	local := "auto"
	if p.Local.IsValid() {
		local = p.Local.String()
	}
	row("local", local)
	all := make([]string, len(p.Routes))
	for i, r := range p.Routes {
		all[i] = r.String()
	}
	row("routes", cmp.Or(strings.Join(all, " "), "-"))
	row("keepalive", formatKeepalive(p.Keepalive))
	row("keys", keys(p.Keys))
	for _, d := range []struct {
		label string
		t     admin.Traffic
	}{{"in", p.In}, {"out", p.Out}, {"link in", p.LinkIn}, {"link out", p.LinkOut}} {
		noun := "packet"
		if strings.HasPrefix(d.label, "link") {
			noun = "record"
		}
		row(d.label, fmt.Sprintf("%s, %s", number(d.t.Records, noun), scaled(float64(d.t.Bytes), "B")))
	}
	row("received", age(p.LastReceived, now))
	row("sent", age(p.LastSent, now))
	return t.Flush()
}
