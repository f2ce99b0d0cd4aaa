// SPDX-License-Identifier: Apache-2.0

package ovpnconf

import (
	"fmt"
	"net/netip"
)

func readRoute(r *reader, l Line) answer {
	arg := func(i int) string {
		if i < len(l.Args) && l.Args[i] != "default" {
			return l.Args[i]
		}
		return ""
	}
	out := Route{Metric: -1, Line: l}
	switch l.Args[0] {
	case "vpn_gateway", "net_gateway", "remote_host":
		return refuse("give the network's address", "%s is only known to a client", l.Args[0])
	}
	a, err := parseIPv4(l.Args[0])
	if err != nil {
		return refuse("give an IPv4 address; host names are not looked up", "%v", err)
	}
	bits := 32
	if m := arg(1); m != "" {
		var ok bool
		if bits, ok = parseNetmask(m); !ok {
			return refuse("write route NETWORK NETMASK", "%q is not a netmask", printable(m))
		}
	}
	p := netip.PrefixFrom(a, bits)
	out.Prefix = p.Masked()
	switch g := arg(2); g {
	case "", "vpn_gateway":
	case "net_gateway":
		out.Direct = true
	case "remote_host":
		return refuse("give an address, vpn_gateway or net_gateway", "a server has no remote_host")
	default:
		if out.Gateway, err = parseIPv4(g); err != nil {
			return refuse("give an address, vpn_gateway or net_gateway", "gateway %v", err)
		}
	}
	if a := readMetric(arg(3), &out); a.verdict == Refused {
		return a
	}
	r.c.Routes = append(r.c.Routes, out)
	if out.Prefix != p {
		return note("%s %s has bits behind the mask; %s is routed", p.Addr(), netmask(bits), out.Prefix)
	}
	return fine
}

func readRoute6(r *reader, l Line) answer {
	out := Route{Metric: -1, Line: l}
	p, err := parsePrefix6(l.Args[0], 0, 128)
	if a, e := parseIPv6(l.Args[0]); e == nil {
		p, err = netip.PrefixFrom(a, 128), nil
	}
	if err != nil {
		return refuse("write route-ipv6 PREFIX/BITS", "%v", err)
	}
	out.Prefix = p.Masked()
	if len(l.Args) > 1 && l.Args[1] != "default" {
		if out.Gateway, err = parseIPv6(l.Args[1]); err != nil {
			return refuse("give an IPv6 address", "gateway %v", err)
		}
	}
	if len(l.Args) > 2 {
		if a := readMetric(l.Args[2], &out); a.verdict == Refused {
			return a
		}
	}
	r.c.Routes = append(r.c.Routes, out)
	if out.Prefix != p {
		return note("%s has bits behind the prefix; %s is routed", p, out.Prefix)
	}
	return fine
}

func readMetric(s string, out *Route) answer {
	if s == "" || s == "default" {
		return fine
	}
	n, err := parseInt(s, 0, maxSeconds)
	if err != nil {
		return refuse("give a number", "metric %v", err)
	}
	out.Metric = int(n)
	return fine
}

func readRouteGateway(r *reader, l Line) answer {
	if l.Args[0] == "dhcp" {
		return refuse("give an address", "dhcp is for tap devices")
	}
	a, err := parseIPv4(l.Args[0])
	if err != nil {
		return refuse("give an IPv4 address", "%v", err)
	}
	r.gateway = a
	return fine
}

func readRouteGateway6(r *reader, l Line) answer {
	a, err := parseIPv6(l.Args[0])
	if err != nil {
		return refuse("give an IPv6 address", "%v", err)
	}
	r.gateway6 = a
	return fine
}

func readRouteMetric(r *reader, l Line) answer {
	n, err := parseInt(l.Args[0], 0, maxSeconds)
	if err != nil {
		return refuse("give a number", "%v", err)
	}
	r.metric = int(n)
	return fine
}

// routes fills in gateways and metrics that routes left out. A gateway inside
// the tunnel network stays as it is; the kernel takes no other without a route to it.
func (r *reader) routes() {
	for i := range r.c.Routes {
		t := &r.c.Routes[i]
		if !t.Gateway.IsValid() && !t.Direct {
			if t.Prefix.Addr().Is4() {
				t.Gateway = r.gateway
			} else {
				t.Gateway = r.gateway6
			}
		}
		if t.Metric < 0 {
			t.Metric = r.metric
		}
		if f := r.finding(t.Line); f != nil && !t.Direct && t.Prefix.Addr().Is6() && !r.s.Network6.Prefix.IsValid() {
			f.Why = "the tunnel has no IPv6 network of its own; only clients with an iroute-ipv6 can be reached"
		}
	}
	if r.gateway.IsValid() && !r.s.Network4.Prefix.Contains(r.gateway) {
		r.amend("route-gateway", refuse(fmt.Sprintf("give one of %s, or leave it out", r.s.Network4.Prefix), "%s is not in the tunnel's network", r.gateway))
	}
	if r.gateway6.IsValid() && !r.s.Network6.Prefix.Contains(r.gateway6) {
		r.amend("route-ipv6-gateway", refuse(fmt.Sprintf("give one of %s, or leave it out", r.s.Network6.Prefix), "%s is not in the tunnel's network", r.gateway6))
	}
}

// finding returns the finding of a line, or nil.
func (r *reader) finding(l Line) *Finding {
	for i := range r.findings {
		f := &r.findings[i]
		if f.Line.File == l.File && f.Line.Number == l.Number && f.Line.Option == l.Option && f.Verdict == Honoured {
			return f
		}
	}
	return nil
}
