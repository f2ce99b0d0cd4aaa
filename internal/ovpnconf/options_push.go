// SPDX-License-Identifier: Apache-2.0

package ovpnconf

import (
	"fmt"
	"strings"
)

// maxPush is the most bytes of one pushed option: clients cut an option there, and
// take the rest for another one.
const maxPush = 255

func pushOptions() []OptionDoc {
	t := TopicPush
	inClient := "put it into a file of client-config-dir, named after the client"
	return append([]OptionDoc{
		{Name: "push", Topic: t, Args: `"OPTION"`, Min: 1, Max: 1, Place: InFile | InClientFile, read: readPush, client: clientPush,
			Text: "any text is passed on to clients as it is. Refused: commas (they would cut it), compression, fragment, topology other than subnet, and what the gateway negotiates itself"},
		{Name: "push-reset", Topic: t, Place: InClientFile, Remedy: inClient, client: clientPushReset,
			Text: "the client is told nothing of what stands above"},
		{Name: "push-remove", Topic: t, Args: "PREFIX", Min: 1, Max: 1, Place: InClientFile, Remedy: inClient, client: clientPushRemove,
			Text: "the client is not told options that begin with PREFIX; ifconfig and ifconfig-ipv6 keep its addresses from it"},
		{Name: "client-config-dir", Topic: t, Args: "DIR", Min: 1, Max: 1, read: pathAt(func(s *Server) *string { return &s.Clients.ConfigDir }),
			Text: "folder with a file for each client, named after the common name ('/' written as '_'), or DEFAULT; read at each connection"},
		{Name: "ccd-exclusive", Topic: t, read: toggle(func(s *Server) *bool { return &s.Clients.ConfigExclusive }),
			Text: "clients without such a file are turned away"},
		{Name: "ifconfig-push", Topic: t, Args: "ADDRESS NETMASK [ALIAS]", Min: 2, Max: 3, Place: InClientFile, Remedy: inClient, client: clientAddress4,
			Text: "the client's IPv4 address. A pair of addresses (net30) is recognised: the first one is used with the tunnel network's mask"},
		{Name: "ifconfig-ipv6-push", Topic: t, Args: "ADDRESS/BITS [REMOTE]", Min: 1, Max: 2, Place: InClientFile, Remedy: inClient, client: clientAddress6,
			Text: "the client's IPv6 address"},
		{Name: "iroute", Topic: t, Args: "NETWORK [NETMASK]", Min: 1, Max: 2, Place: InClientFile, Remedy: inClient, client: clientRoute4,
			Text: "network behind the client; becomes a kernel route while the client is connected"},
		{Name: "iroute-ipv6", Topic: t, Args: "PREFIX/BITS", Min: 1, Max: 1, Place: InClientFile, Remedy: inClient, client: clientRoute6,
			Text: "IPv6 network behind the client; becomes a kernel route while the client is connected"},
		{Name: "disable", Topic: t, Place: InClientFile, Remedy: inClient, client: func(r *clientReader, _ Line) answer { r.c.Disable = true; return fine },
			Text: "the client may not connect"},
		{Name: "vlan-pvid", Topic: t, Args: "VID", Min: 1, Max: 1, Place: InFile | InClientFile, Verdict: Refused, Text: "VLANs are for tap devices", Remedy: "remove it"},
		{Name: "client-to-client", Topic: t, read: toggle(func(s *Server) *bool { return &s.Clients.ToClient }),
			Text: "packets between clients stay inside the gateway. Without it they go through the host's routing and firewall; xdp-block-client-to-client drops them"},
		{Name: "duplicate-cn", Topic: t, read: toggle(func(s *Server) *bool { return &s.Clients.DuplicateCN }),
			Text: "several clients may have one common name; without it the newest replaces the others"},
		{Name: "max-clients", Topic: t, Args: "N", Min: 1, Max: 1, read: number(1, 0xfffffe, func(s *Server) *int { return &s.Clients.Max }), Text: "default 1024"},
		{Name: "max-routes-per-client", Topic: t, Args: "N", Min: 1, Max: 1, Place: InFile, read: number(1, 1<<20, func(s *Server) *int { return &s.Clients.MaxRoutes }),
			Text: "most networks behind a client, default 256"},
		{Name: "explicit-exit-notify", Topic: t, Args: "[1|2]", Max: 1, read: readExitNotify,
			Text: "UDP clients are told when the gateway stops: 1 to reconnect, 2 to go to their next server"},
	},
		ignored(t, "it is without effect in stock too, which only logs", "ifconfig-push-constraint")...)
}

func readPush(r *reader, l Line) answer {
	a := checkPush(l.Args[0])
	if a.verdict != Refused {
		r.s.Push = append(r.s.Push, Push{Text: l.Args[0], Line: l})
	}
	return a
}

// checkPush refuses what clients would misunderstand.
func checkPush(text string) answer {
	words, f := splitWords(text)
	switch {
	case f != nil:
		return refuse(f.remedy, "in the pushed option %s", f.why)
	case len(words) == 0:
		return refuse(`write push "route 192.168.1.0 255.255.255.0"`, "nothing is pushed")
	case strings.Contains(text, ","):
		return refuse("leave the comma out", "a comma separates pushed options and cannot be part of one")
	case len(text) > maxPush:
		return refuse("split it", "it has %d bytes, and %d are possible", len(text), maxPush)
	}
	arg := ""
	if len(words) > 1 {
		arg = words[1]
	}
	switch words[0] {
	case "comp-lzo", "compress", "comp-noadapt":
		if arg == "migrate" {
			return refuse("remove it", "migrate is for servers")
		}
		return refuse("remove it; without it clients do not compress", "compression is not spoken, and even %q changes every packet", text)
	case "fragment":
		return refuse("remove it", "fragment headers are not spoken")
	case "topology":
		if arg != "subnet" {
			return refuse("remove it; topology subnet is pushed by itself", "clients cannot have another topology than the gateway")
		}
	case "peer-id", "cipher", "protocol-flags", "key-derivation", "auth-token", "push-continuation":
		return refuse("remove it", "%s is decided for each session by the gateway", words[0])
	case "redirect-gateway", "redirect-private", "route", "route-ipv6", "dhcp-option", "dns", "ping", "ping-restart":
	default:
		if strings.HasPrefix(words[0], "xdp-") {
			return refuse("remove the push", "%s is for the gateway, not for clients", printable(words[0]))
		}
	}
	if words[0] == "route" && len(words) > 2 {
		if _, ok := parseNetmask(words[2]); !ok && words[2] != "default" {
			return note("%q is not a netmask; clients will refuse this route", words[2])
		}
	}
	return fine
}

func readExitNotify(r *reader, l Line) answer {
	n := int64(1)
	if len(l.Args) == 1 {
		var err error
		if n, err = parseInt(l.Args[0], 0, maxSeconds); err != nil {
			return refuse("give 1 or 2", "%v", err)
		}
	}
	r.s.Clients.ExitNotify = int(n)
	if n > 2 {
		r.s.Clients.ExitNotify = 1
		return note("on a server %d means 1", n)
	}
	return fine
}

// pushHelpers appends what helper options push, behind what the file pushes.
func (r *reader) pushHelpers() {
	add := func(option, format string, args ...any) {
		l := Line{File: r.file(), Option: option}
		if i, ok := r.last[option]; ok {
			l = r.findings[i].Line
		}
		r.s.Push = append(r.s.Push, Push{Text: fmt.Sprintf(format, args...), Line: l})
	}
	if r.server6.IsValid() {
		add("server-ipv6", "tun-ipv6")
	}
	if r.server != nil && r.s.Network4.Own.IsValid() {
		add("server", "route-gateway %s", r.s.Network4.Own)
		add("server", "topology subnet")
	}
	if k := r.ping; k.interval > 0 {
		add("keepalive", "ping %d", int(k.interval.Seconds()))
		add("keepalive", "ping-restart %d", int(k.timeout.Seconds()))
	}
	if r.nodelay {
		add("tcp-nodelay", "socket-flags TCP_NODELAY")
	}
}
