// SPDX-License-Identifier: Apache-2.0

package ovpnconf

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/ovpn-xdp/ovpn-xdp/internal/config"
)

// defaultTunMTU is OpenVPN's tun-mtu in bytes.
const defaultTunMTU = 1500

func tunnelOptions() []OptionDoc {
	t := TopicTunnel
	return append([]OptionDoc{
		{Name: "dev", Topic: t, Args: "tun|tunN|NAME", Min: 1, Max: 1, read: readDev,
			Text: "`tun` takes the first free tunN; a name that does not begin with tun needs `dev-type tun`. tap and null are refused"},
		{Name: "dev-type", Topic: t, Args: "tun", Min: 1, Max: 1, read: readDevType, Text: "tap is refused"},
		{Name: "topology", Topic: t, Args: "subnet", Min: 1, Max: 1, read: readTopology,
			Text: "subnet is also the default, unlike stock before 2.7, where it is net30; net30 and p2p are refused"},
		{Name: "server", Topic: t, Args: "NETWORK NETMASK [nopool]", Min: 2, Max: 3, read: readServer,
			Text: "the gateway has the first address, clients get the others; pushes route-gateway and topology"},
		{Name: "server-ipv6", Topic: t, Args: "PREFIX/BITS", Min: 1, Max: 1, read: readServer6,
			Text: "64 to 124 bits; the gateway has the first address, clients get those from ::1000 on, or from ::2 in prefixes from /112 on"},
		{Name: "ifconfig", Topic: t, Args: "ADDRESS NETMASK", Min: 2, Max: 2, read: func(r *reader, l Line) answer { r.ifconfig = l.Args; return fine },
			Text: "the gateway's own IPv4 address, instead of `server`; a pair of addresses (net30) is refused"},
		{Name: "ifconfig-ipv6", Topic: t, Args: "ADDRESS/BITS REMOTE", Min: 2, Max: 2, read: readIfconfig6,
			Text: "the gateway's own IPv6 address, instead of `server-ipv6`"},
		{Name: "ifconfig-pool", Topic: t, Args: "START END [NETMASK]", Min: 2, Max: 3, read: readPool,
			Text: "range of the clients' IPv4 addresses, at most 65,536"},
		{Name: "ifconfig-ipv6-pool", Topic: t, Args: "BASE/BITS", Min: 1, Max: 1, read: readPool6,
			Text: "first of the clients' IPv6 addresses"},
		{Name: "ifconfig-pool-persist", Topic: t, Args: "FILE [SECONDS]", Min: 1, Max: 2, read: readPoolPersist,
			Text: "clients get their old addresses back; written every 600 s. With 0 it is only read, and the addresses in it are kept for the names beside them"},
		{Name: "ifconfig-noexec", Topic: t, Verdict: Refused,
			Text: "the gateway sets the addresses of its device itself", Remedy: "remove it; an `up` command can change them afterwards"},
		{Name: "route", Topic: t, Args: "NETWORK [NETMASK [GATEWAY [METRIC]]]", Min: 1, Max: 4, read: readRoute,
			Text: "kernel route into the tunnel; net_gateway routes around it. Host names are refused"},
		{Name: "route-ipv6", Topic: t, Args: "PREFIX/BITS [GATEWAY [METRIC]]", Min: 1, Max: 3, read: readRoute6, Text: "kernel route into the tunnel"},
		{Name: "route-gateway", Topic: t, Args: "ADDRESS", Min: 1, Max: 1, read: readRouteGateway, Text: "gateway of routes that name none; dhcp is refused"},
		{Name: "route-ipv6-gateway", Topic: t, Args: "ADDRESS", Min: 1, Max: 1, read: readRouteGateway6, Text: "gateway of IPv6 routes that name none"},
		{Name: "route-metric", Topic: t, Args: "N", Min: 1, Max: 1, read: readRouteMetric, Text: "metric of routes that give none"},
		{Name: "route-noexec", Topic: t, read: toggle(func(c *Common) *bool { return &c.Tunnel.RoutesNoExec }), Text: "`route` and `route-ipv6` set no routes; a `route-up` command may"},
		{Name: "route-table", Topic: t, Args: "ID", Min: 1, Max: 1, Verdict: Refused, Text: "routes go into the main table", Remedy: "set them in an `up` command with route-noexec"},
		{Name: "tun-mtu", Topic: t, Args: "BYTES [OCC-BYTES]", Min: 1, Max: 2, read: readTunMTU, Text: "MTU of the tunnel, default 1500; pushed to clients that can take it"},
		{Name: "tun-mtu-max", Topic: t, Args: "BYTES", Min: 1, Max: 1, Verdict: Ignored, read: number(68, 65536, func(c *Common) *int { return &c.Tunnel.MTUMax }), Text: "every client is told the same tun-mtu"},
		{Name: "mssfix", Topic: t, Args: "[BYTES [mtu|fixed]]", Max: 2, read: readMSSFix,
			Text: "TCP connections in the tunnel agree on segments that fit; done by the gateway in both directions. Default 1492 mtu with a tun-mtu of 1500, else the tun-mtu. 0 leaves them alone"},
		{Name: "max-packet-size", Topic: t, Args: "BYTES", Min: 1, Max: 1, read: readMaxPacket, Text: "most bytes of a control channel packet with IP and UDP headers, default 1250; sets mssfix too"},
		{Name: "fragment", Topic: t, Args: "BYTES [mtu]", Max: -1, Verdict: Refused, Text: "records are not fragmented, and a fragment header would be in every one",
			Remedy: "remove it here and from the clients; mssfix keeps TCP from needing it"},
		{Name: "server-bridge", Topic: t, Args: "...", Max: -1, Verdict: Refused, Text: "it is for tap devices", Remedy: "use dev tun and server NETWORK NETMASK"},
	},
		append(append(append(append(
			ignored(t, "the device is made through /dev/net/tun", "dev-node", "iproute"),
			ignored(t, "it is for tap devices", "lladdr")...),
			ignored(t, "the MTU is set by tun-mtu alone", "link-mtu", "udp-mtu", "tun-mtu-extra", "mtu-disc", "mtu-test")...),
			ignored(t, "clients' routes are not learnt from traffic, so none goes stale", "stale-routes-check")...),
			append(append(ignored(t, "inner TOS does not reach the outer packets", "passtos"),
				ignored(t, "it only silenced or caused a message", "ifconfig-nowarn", "tun-ipv6", "max-routes")...),
				refused(t, "VLANs are for tap devices", "remove it", "vlan-tagging", "vlan-accept")...)...)...)
}

func readDev(r *reader, l Line) answer {
	name := l.Args[0]
	if a, ok := kindOfDev(name); !ok {
		return a
	}
	if name != "tun" {
		if err := config.ValidateDevice(name); err != nil || strings.Contains(name, "%") {
			return refuse("give tun, or a name of 1 to 15 characters", "%q is not a name the kernel takes", printable(name))
		}
	}
	r.dev = name
	return fine
}

func kindOfDev(name string) (answer, bool) {
	switch {
	case strings.HasPrefix(name, "tap"):
		return refuse("use dev tun: tap has no counterpart without a bridge", "tap devices carry Ethernet frames, and the gateway routes IP packets"), false
	case strings.HasPrefix(name, "null"):
		return refuse("use dev tun", "a tunnel without a device carries nothing"), false
	case strings.HasPrefix(name, "unix:") || strings.HasPrefix(name, "utun"):
		return refuse("use dev tun", "%q is not for Linux TUN devices", printable(name)), false
	}
	return fine, true
}

func readDevType(r *reader, l Line) answer {
	if l.Args[0] != "tun" {
		if a, ok := kindOfDev(l.Args[0]); !ok {
			return a
		}
		return refuse("give tun", "%q is no type of device", printable(l.Args[0]))
	}
	r.devType = "tun"
	return fine
}

func readTopology(r *reader, l Line) answer {
	switch l.Args[0] {
	case "subnet":
		r.topology = "subnet"
		return fine
	case "net30", "p2p":
		return refuse("write topology subnet; clients take it from the push, only ccd files with pairs of addresses have to change",
			"%s gives every client a network or a pair of its own, which data channel offload has never had", l.Args[0])
	}
	return refuse("write topology subnet", "%q is no topology", printable(l.Args[0]))
}

func readServer(r *reader, l Line) answer {
	s := &serverLine{network: l.Args[0], mask: l.Args[1]}
	if len(l.Args) == 3 {
		if l.Args[2] != "nopool" {
			return refuse("write server NETWORK NETMASK, or with nopool behind", "%q is not possible", printable(l.Args[2]))
		}
		s.nopool = true
	}
	a, err := parseIPv4(s.network)
	if err != nil {
		return refuse("write server 10.8.0.0 255.255.255.0", "%v", err)
	}
	bits, ok := parseNetmask(s.mask)
	if !ok {
		return refuse("write server 10.8.0.0 255.255.255.0", "%q is not a netmask", printable(s.mask))
	}
	p := netip.PrefixFrom(a, bits)
	if p.Masked() != p {
		return refuse(fmt.Sprintf("write server %s %s", p.Masked().Addr(), s.mask), "%s is not the first address of a network of that mask", a)
	}
	// The limits are OpenVPN's: a pool has at most 65,536 addresses.
	if bits < 16 || bits > 29 {
		return refuse("give a mask from 255.255.0.0 to 255.255.255.248", "a network of /%d is too %s", bits, map[bool]string{true: "large", false: "small"}[bits < 16])
	}
	r.server = s
	return fine
}

func readServer6(r *reader, l Line) answer {
	p, err := parsePrefix6(l.Args[0], 64, 124)
	if err != nil {
		return refuse("write server-ipv6 fd00:8::/64", "%v", err)
	}
	if p.Masked() != p {
		return refuse("write server-ipv6 "+p.Masked().String(), "%s has bits behind the prefix", p)
	}
	r.server6 = p
	return fine
}

func readIfconfig6(r *reader, l Line) answer {
	p, err := parsePrefix6(l.Args[0], 64, 124)
	if err != nil {
		return refuse("write ifconfig-ipv6 fd00:8::1/64 fd00:8::2", "%v", err)
	}
	if _, err := parseIPv6(l.Args[1]); err != nil {
		return refuse("write ifconfig-ipv6 fd00:8::1/64 fd00:8::2", "%v", err)
	}
	r.local6 = p
	return fine
}

func readPool(r *reader, l Line) answer {
	var p Pool4
	var err error
	if p.Start, err = parseIPv4(l.Args[0]); err == nil {
		p.End, err = parseIPv4(l.Args[1])
	}
	if err != nil {
		return refuse("write ifconfig-pool START END [NETMASK]", "%v", err)
	}
	if len(l.Args) == 3 {
		var ok bool
		if p.Mask, ok = parseNetmask(l.Args[2]); !ok {
			return refuse("write ifconfig-pool START END [NETMASK]", "%q is not a netmask", printable(l.Args[2]))
		}
	}
	if p.End.Less(p.Start) {
		return refuse("swap them", "the pool ends before it starts")
	}
	if uint32FromAddr(p.End)-uint32FromAddr(p.Start) >= 65536 {
		return refuse("give at most 65536 addresses", "the pool is too large")
	}
	r.pool = &p
	return fine
}

func readPool6(r *reader, l Line) answer {
	p, err := parsePrefix6(l.Args[0], 64, 124)
	if err != nil {
		return refuse("write ifconfig-ipv6-pool fd00:8::1000/64", "%v", err)
	}
	r.pool6 = p
	return fine
}

func readPoolPersist(r *reader, l Line) answer {
	if a := readPath(l, &r.s.PoolPersist.File); a.verdict == Refused {
		return a
	}
	if len(l.Args) == 2 {
		d, err := parseSeconds(l.Args[1], 0)
		if err != nil {
			return refuse("write ifconfig-pool-persist FILE [SECONDS]", "%v", err)
		}
		r.s.PoolPersist.Every = d
	}
	return fine
}

func readTunMTU(r *reader, l Line) answer {
	a := number(100, 65535-84, func(c *Common) *int { return &c.Tunnel.MTU })(r, l)
	r.mtuGiven = true
	if a.verdict == Honoured && len(l.Args) == 2 {
		return note("the second number is not used: clients read their own tun-mtu back")
	}
	return a
}

func readMSSFix(r *reader, l Line) answer {
	r.fixGiven = len(l.Args) > 0
	if !r.fixGiven {
		return fine
	}
	m := MSSFix{Kind: MSSFixLink}
	n, err := parseInt(l.Args[0], 0, 65535)
	// 256 keeps the inner packet above what any header needs.
	if err != nil || n > 0 && n < 256 {
		return refuse("give 256 to 65535, or 0 for off", "%q bytes are not possible", printable(l.Args[0]))
	}
	m.Bytes = int(n)
	if len(l.Args) == 2 {
		switch l.Args[1] {
		case "mtu":
			m.Kind = MSSFixMTU
		case "fixed":
			m.Kind = MSSFixFixed
		default:
			return refuse("write mssfix BYTES, with mtu or fixed behind", "%q is not possible", printable(l.Args[1]))
		}
	}
	r.c.Tunnel.MSSFix = m
	return fine
}

func readMaxPacket(r *reader, l Line) answer {
	n, err := parseInt(l.Args[0], 0, 65535)
	if err != nil {
		return refuse("give 154 to 2048 bytes", "%v", err)
	}
	r.c.Tunnel.MaxPacket = min(max(int(n), 154), 2048)
	if n >= 256 {
		r.fixGiven = true
		r.c.Tunnel.MSSFix = MSSFix{MSSFixMTU, int(n)}
	}
	if int(n) != r.c.Tunnel.MaxPacket {
		return note("%d is used: the control channel takes 154 to 2048 bytes", r.c.Tunnel.MaxPacket)
	}
	return fine
}
