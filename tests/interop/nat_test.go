// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"fmt"
	"net/netip"
	"strings"
)

// natPort is the port that a client behind address translation binds.
const natPort = 5000

// nft replaces a table of the router's: other packets see the old or the new one.
// An empty text removes it.
func (d *bed) nft(table, text string) {
	d.t.Helper()
	script := fmt.Sprintf("table inet %[1]s\ndelete table inet %[1]s\n", table)
	if text != "" {
		script += fmt.Sprintf("table inet %s {\n%s\n}\n", table, text)
	}
	cmd := d.router.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(script)
	if out, err := cmd.CombinedOutput(); err != nil {
		d.t.Fatalf("nft: %v\n%s\n%s", err, out, script)
	}
}

// rebind makes the server see client i at another address and port from now on,
// host 1 to 254 of a network of the router's; what still comes for an earlier one is
// lost, as with a translator that has forgotten it. Without state, so that nothing
// of it outlives the rule. The client has to bind natPort.
func (d *bed) rebind(i int, host byte, port uint16) {
	d.t.Helper()
	client4, client6 := d.wire(i, 2)
	outside4 := netip.AddrFrom4([4]byte{203, 0, 113, host})
	outside6 := netip.MustParseAddr(fmt.Sprintf("2001:db8:113::%x", host))
	d.nft("nat", fmt.Sprintf(`
chain prerouting {
	type filter hook prerouting priority raw
	ip saddr %[1]s udp sport %[5]d ip saddr set %[3]s udp sport set %[6]d
	ip6 saddr %[2]s udp sport %[5]d ip6 saddr set %[4]s udp sport set %[6]d
	ip daddr %[3]s udp dport %[6]d ip daddr set %[1]s udp dport set %[5]d
	ip6 daddr %[4]s udp dport %[6]d ip6 daddr set %[2]s udp dport set %[5]d
	ip daddr 203.0.113.0/24 drop
	ip6 daddr 2001:db8:113::/64 drop
}`, client4, client6, outside4, outside6, natPort, port))
}

// lose makes the router drop that share of what is sent to and from the server's port.
func (d *bed) lose(percent int) {
	d.t.Helper()
	if percent == 0 {
		d.nft("loss", "")
		return
	}
	d.nft("loss", fmt.Sprintf(`
chain forward {
	type filter hook forward priority filter
	udp dport %[1]d numgen random mod 100 < %[2]d counter drop
	udp sport %[1]d numgen random mod 100 < %[2]d counter drop
}`, port, percent))
}

// loseFirst makes the router drop the first datagram to the server that begins with
// one of these bytes (opcode and key id).
func (d *bed) loseFirst(first ...byte) {
	d.t.Helper()
	var rules strings.Builder
	for _, b := range first {
		fmt.Fprintf(&rules, "udp dport %d @th,64,8 %#x numgen inc mod 1000000 == 0 counter drop\n", port, b)
	}
	d.nft("first", "chain forward {\ntype filter hook forward priority filter\n"+rules.String()+"}")
}

// dropped is how many packets a table of the router's has dropped.
func (d *bed) dropped(table string) (n int) {
	d.t.Helper()
	for line := range strings.Lines(d.router.Output("nft", "list", "table", "inet", table)) {
		var packets int
		if _, after, ok := strings.Cut(line, "counter packets "); ok {
			if _, err := fmt.Sscanf(after, "%d", &packets); err != nil {
				d.t.Fatal(err)
			}
			n += packets
		}
	}
	return n
}
