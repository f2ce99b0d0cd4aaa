// SPDX-License-Identifier: Apache-2.0

package ovpnconf

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

func networkOptions() []OptionDoc {
	t := TopicNetwork
	return append([]OptionDoc{
		{Name: "port", Aliases: []string{"lport"}, Topic: t, Args: "N", Min: 1, Max: 1, read: readPort,
			Text: "port to listen on, default 1194"},
		{Name: "proto", Topic: t, Args: "udp|udp4|udp6|tcp-server|tcp4-server|tcp6-server", Min: 1, Max: 1, read: readProto,
			Text: "udp and tcp-server listen on IPv4, or on the family of `local`; udp6 and tcp6-server without `local` listen on both families, as stock does. TCP carries data without AF_XDP"},
		{Name: "local", Topic: t, Args: "HOST|* [PORT [PROTO]]", Min: 1, Max: 3, read: readLocal,
			Text: "address to listen on; may be given several times, each with a port and protocol of its own"},
		{Name: "bind", Topic: t, Args: "[ipv6only]", Max: 1, read: readBind,
			Text: "a server always binds; with ipv6only, udp6 leaves IPv4 alone"},
		{Name: "multihome", Topic: t, read: toggle(func(c *Common) *bool { return &c.Socket.Multihome }),
			Text: "answers leave from the address that a client spoke to; that is always so"},
		{Name: "float", Topic: t, Text: "clients may change their address; that is always so"},
		{Name: "mark", Topic: t, Args: "N", Min: 1, Max: 1, read: readMark,
			Text: "SO_MARK of outer packets, decimal or in hex with 0x"},
		{Name: "sndbuf", Topic: t, Args: "BYTES", Min: 1, Max: 1, read: number(0, 1<<30, func(c *Common) *int { return &c.Socket.SndBuf }),
			Text: "send buffer of the sockets, 0 for the kernel's default"},
		{Name: "rcvbuf", Topic: t, Args: "BYTES", Min: 1, Max: 1, read: number(0, 1<<30, func(c *Common) *int { return &c.Socket.RcvBuf }),
			Text: "receive buffer of the sockets, 0 for the kernel's default; what AF_XDP steers does not pass it"},
		{Name: "socket-flags", Topic: t, Args: "TCP_NODELAY", Max: maxArgs - 1, read: readSocketFlags, Place: InFile | InClientFile, client: clientIgnores,
			Text: "TCP_NODELAY is always set"},
		{Name: "tcp-nodelay", Topic: t, read: func(r *reader, _ Line) answer { r.nodelay = true; return fine },
			Text: "pushes `socket-flags TCP_NODELAY`; the gateway's side always has it"},
		{Name: "bind-dev", Topic: t, Args: "DEVICE", Min: 1, Max: 1, Verdict: Refused, Place: InFile | InClientFile,
			Text:   "sockets are not bound to a device, and without that the gateway would be reachable from other networks than asked for",
			Remedy: "give the address with `local`, or start the gateway in the VRF with `ip vrf exec`"},
		{Name: "port-share", Topic: t, Args: "HOST PORT [DIR]", Min: 2, Max: 3, Verdict: Refused,
			Text:   "connections that are not OpenVPN's are not passed on to another server",
			Remedy: "give each service an address or port of its own, or put a TCP proxy in front"},
		{Name: "connect-freq", Topic: t, Args: "N SEC", Min: 2, Max: 2, read: frequency(func(s *Server) *Frequency { return &s.Clients.Connect }),
			Text: "at most N new sessions in SEC seconds, counted for each client prefix (/32, /64) and not over all"},
		{Name: "connect-freq-initial", Topic: t, Args: "N SEC", Min: 2, Max: 2, read: frequency(func(s *Server) *Frequency { return &s.Clients.Initial }),
			Text: "at most N answers to first packets in SEC seconds, counted for each client prefix (/32, /64) and not over all; default 100 in 10 s"},
	},
		ignored(t, "buffers and queues have bounds of their own", "bcast-buffers", "tcp-queue-limit", "hash-size", "txqueuelen", "fast-io")...)
}

func readPort(r *reader, l Line) answer {
	n, err := parseInt(l.Args[0], 1, 65535)
	if err != nil {
		return refuse("give a number; names of services are not looked up", "%v", err)
	}
	r.port = uint16(n)
	return fine
}

// canonicalProto returns the name by which scripts know a protocol; "": unknown.
func canonicalProto(s string) string {
	switch s {
	case "udp", "udp4", "udp6", "tcp-server", "tcp4-server", "tcp6-server":
		return s
	case "tcp", "tcp4", "tcp6":
		return s + "-server"
	}
	return ""
}

func readProto(r *reader, l Line) answer {
	p := canonicalProto(l.Args[0])
	if p == "" {
		if strings.HasSuffix(l.Args[0], "-client") {
			return refuse("give tcp-server", "%s is for clients", printable(l.Args[0]))
		}
		return refuse("one of udp, udp4, udp6, tcp-server, tcp4-server, tcp6-server", "%q is no protocol", printable(l.Args[0]))
	}
	r.proto = p
	return fine
}

func readLocal(r *reader, l Line) answer {
	e := local{host: l.Args[0], line: l}
	if e.host == "*" {
		e.host = ""
	} else if e.host == "" || len(e.host) > 253 || strings.ContainsAny(e.host, " \t/") {
		return refuse("give an address or a host name", "%q is neither an address nor a name", printable(e.host))
	}
	if len(l.Args) > 1 {
		if _, err := parseInt(l.Args[1], 1, 65535); err != nil {
			return refuse("give a number; names of services are not looked up", "port %v", err)
		}
		e.port = l.Args[1]
	}
	if len(l.Args) > 2 {
		if e.proto = canonicalProto(l.Args[2]); e.proto == "" {
			return refuse("one of udp, udp4, udp6, tcp-server, tcp4-server, tcp6-server", "%q is no protocol for a server", printable(l.Args[2]))
		}
	}
	r.locals = append(r.locals, e)
	if _, err := netip.ParseAddr(e.host); err != nil && e.host != "" {
		return note("the name is looked up once, at start; an address is safer")
	}
	return fine
}

func readBind(r *reader, l Line) answer {
	if len(l.Args) == 1 {
		if l.Args[0] != "ipv6only" {
			return refuse("write bind, or bind ipv6only", "%q is not possible", printable(l.Args[0]))
		}
		r.v6only = true
	}
	return fine
}

func readMark(r *reader, l Line) answer {
	n, err := strconv.ParseUint(l.Args[0], 0, 32)
	if err != nil {
		return refuse("give a number, decimal or 0x...", "%q is not a mark from 0 to 4294967295", printable(l.Args[0]))
	}
	r.c.Socket.Mark = uint32(n)
	return fine
}

func readSocketFlags(_ *reader, l Line) answer {
	for _, f := range l.Args {
		if f != "TCP_NODELAY" {
			return refuse("TCP_NODELAY is the only flag", "%q is no socket flag", printable(f))
		}
	}
	return fine
}

func frequency[P part](at func(*P) *Frequency) handler {
	return func(r *reader, l Line) answer {
		n, err := parseInt(l.Args[0], 0, maxSeconds)
		if err != nil {
			return refuse("give a count and seconds", "%v", err)
		}
		d, err := parseSeconds(l.Args[1], 0)
		if err != nil {
			return refuse("give a count and seconds", "%v", err)
		}
		if n == 0 || d == 0 {
			*at(in[P](r)) = Frequency{}
			return note("0 means no limit")
		}
		*at(in[P](r)) = Frequency{int(n), d}
		return fine
	}
}

// listen makes the list of endpoints.
func (r *reader) listen() {
	if len(r.locals) == 0 {
		r.locals = []local{{line: Line{File: r.file(), Option: "proto"}}}
	}
	seen := make(map[string]bool)
	for _, e := range r.locals {
		l := Listen{Host: e.host, Port: r.port, Proto: r.proto, Line: e.line}
		if e.port != "" {
			n, _ := parseInt(e.port, 1, 65535)
			l.Port = uint16(n)
		}
		if e.proto != "" {
			l.Proto = e.proto
		}
		l.TCP = strings.HasPrefix(l.Proto, "tcp")
		only4, only6 := strings.Contains(l.Proto, "4"), strings.Contains(l.Proto, "6")
		addrs := []netip.Addr{netip.IPv4Unspecified()}
		if e.host != "" {
			a, _ := netip.ParseAddr(e.host)
			addrs = []netip.Addr{a.Unmap()}
			if a.IsValid() && (only4 && !a.Unmap().Is4() || only6 && a.Unmap().Is4()) {
				r.amend("local", refuse("change one of them", "%s is not an address of proto %s", e.host, l.Proto))
			}
			if a == netip.IPv6Unspecified() && !r.v6only {
				addrs = append(addrs, netip.IPv4Unspecified())
			}
		} else if only6 {
			addrs = []netip.Addr{netip.IPv6Unspecified()}
			if !r.v6only {
				addrs = append(addrs, netip.IPv4Unspecified())
			}
		}
		for _, a := range addrs {
			l.Addr = a
			key := fmt.Sprint(l.TCP, " ", e.host, " ", a, " ", l.Port)
			if seen[key] {
				r.amend("local", refuse("remove one", "an endpoint is given twice"))
				continue
			}
			seen[key] = true
			r.s.Listen = append(r.s.Listen, l)
		}
	}
}

// anyUDP says whether UDP is listened on at all.
func (s *Server) anyUDP() bool {
	return slices.ContainsFunc(s.Listen, func(l Listen) bool { return !l.TCP })
}
