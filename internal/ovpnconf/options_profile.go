// SPDX-License-Identifier: Apache-2.0

package ovpnconf

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/aead"
)

// profileTable are the options of clients: own rows, rows that say the same as for
// servers, and the others, which are refused if a server would honour them.
var (
	profileTable  []OptionDoc
	profileByName map[string]*OptionDoc
)

// alike are options that mean the same to a client as to a server, with what stands
// there about "clients" read as being about the server.
var alike = []string{
	"xdp-nic", "xdp-mode", "xdp-queues", "xdp-ring-size", "xdp-batch", "xdp-prefetch", "xdp-no-tun-offload", "xdp-no-udp-gso", "xdp-no-udp-gro",
	"xdp-name", "xdp-pin-dir", "xdp-state-dir", "xdp-run-dir", "xdp-ready-file", "xdp-log-format",
	"mark", "sndbuf", "rcvbuf", "socket-flags", "dev", "dev-type", "route-ipv6", "route-noexec", "max-packet-size", "mssfix",
	"capath", "cert", "key", "extra-certs", "pkcs12", "askpass", "crl-verify", "remote-cert-ku", "remote-cert-eku", "x509-username-field",
	"tls-verify", "tls-version-min", "tls-version-max", "tls-cipher", "tls-groups", "ecdh-curve", "tls-cert-profile",
	"tls-crypt", "key-direction", "auth", "data-ciphers", "data-ciphers-fallback", "allow-compression",
	"ping", "inactive", "reneg-bytes", "reneg-pkts", "hand-window", "tran-window", "tls-timeout",
	"script-security", "up", "down", "down-pre", "route-up", "route-pre-down", "tmp-dir", "setenv", "setenv-safe",
	"log", "log-append", "verb", "suppress-timestamps", "writepid", "cd", "config", "ignore-unknown-option",
}

// pushable are options of alike, and of those that are the same for both because
// they are ignored or refused, that a server may push.
var pushable = []string{"route-ipv6", "ping", "inactive", "setenv-safe", "sndbuf", "rcvbuf", "socket-flags", "fragment", "comp-noadapt"}

// fillProfileTable makes the client's table, once the server's is there.
func fillProfileTable() {
	rows := profileOptions()
	seen := make(map[string]bool)
	for _, d := range rows {
		for _, n := range append([]string{d.Name}, d.Aliases...) {
			seen[n] = true
		}
	}
	for _, d := range table {
		if seen[d.Name] {
			continue
		}
		place := d.Place & (InFile | AsBlock)
		if d.Topic == TopicClient {
			place |= InPush // windows' and the like; a server may push them
		}
		d.Place, d.client = place, nil
		if slices.Contains(pushable, d.Name) {
			d.Place |= InPush
		}
		if !slices.Contains(alike, d.Name) && d.Verdict != Refused && (d.Verdict == Honoured || d.read != nil) && d.Topic != TopicClient {
			d.Verdict, d.read = Refused, nil
			d.Text, d.Remedy = "it is for servers", "remove it"
			d.Place |= InFile
		}
		rows = append(rows, d)
	}
	profileTable = rows
	profileByName = make(map[string]*OptionDoc, len(rows))
	for i := range rows {
		d := &rows[i]
		if d.Place == 0 {
			d.Place = InFile
		}
		for _, n := range append([]string{d.Name}, d.Aliases...) {
			if profileByName[n] != nil {
				panic("ovpnconf: option " + n + " of clients has two rows")
			}
			profileByName[n] = d
		}
	}
}

// ProfileTable returns all options of clients. The caller may change the result.
func ProfileTable() []OptionDoc { return slices.Clone(profileTable) }

// dial is one `remote` line.
type dial struct {
	host, proto string
	port        uint16
	notify      *int
	line        Line
}

func profileOptions() []OptionDoc {
	t := TopicClient
	both := InFile | InPush
	block := InFile | AsBlock
	return slices.Concat([]OptionDoc{
		{Name: "client", Topic: t, read: func(r *reader, _ Line) answer { r.p.Pull = true; return fine }, Text: "a client of a server: pull and tls-client"},
		{Name: "pull", Topic: t, read: toggle(func(p *Profile) *bool { return &p.Pull }), Text: "the server says what addresses and routes there are"},
		{Name: "tls-client", Topic: t, Text: "implied by client; without pull it is one end of a point-to-point tunnel"},
		{Name: "tls-server", Topic: t, read: toggle(func(p *Profile) *bool { return &p.TLSServer }),
			Text: "without mode server: the end of a point-to-point tunnel that is the server in TLS, over UDP; needs ifconfig"},
		{Name: "mode", Topic: t, Args: "p2p", Min: 1, Max: 1, read: readProfileMode, Text: "implied by client"},
		{Name: "remote", Topic: t, Args: "HOST [PORT [PROTO]]", Min: 1, Max: 3, read: readRemote,
			Text: "server to connect to; of several the next is tried when one does not answer. Names are looked up anew for each attempt, and all their addresses tried"},
		{Name: "connection", Topic: t, Args: "...", Min: 0, Max: 1, Place: block, read: readConnection,
			Text: "block with remote, proto, port, rport and explicit-exit-notify of one server; other options are refused in it"},
		{Name: "remote-random", Topic: t, read: toggle(func(p *Profile) *bool { return &p.Random }), Text: "servers are tried in random order"},
		{Name: "remote-random-hostname", Topic: t, read: toggle(func(p *Profile) *bool { return &p.RandomHost }), Text: "a random label stands in front of host names"},
		{Name: "proto", Topic: t, Args: "udp|udp4|udp6|tcp-client|tcp4-client|tcp6-client", Min: 1, Max: 1, read: readClientProto,
			Text: "of remotes that name none; without 4 or 6 either family is taken, as the name resolves. TCP carries data without AF_XDP"},
		{Name: "port", Topic: t, Args: "N", Min: 1, Max: 1, read: readBothPorts, Text: "lport and rport"},
		{Name: "rport", Topic: t, Args: "N", Min: 1, Max: 1, read: readPortAt(func(r *reader) *uint16 { return &r.rport }), Text: "port of remotes that name none, default 1194"},
		{Name: "lport", Topic: t, Args: "N", Min: 1, Max: 1, read: readPortAt(func(r *reader) *uint16 { return &r.lport }), Text: "local port; 0 or none of lport, port and bind: the kernel's choice"},
		{Name: "local", Topic: t, Args: "ADDRESS", Min: 1, Max: 1, read: readLocalAddress, Text: "local address"},
		{Name: "bind", Topic: t, Args: "[ipv6only]", Max: 1, Text: "binds lport, 1194 if none is given. Without it no port is bound, unlike stock, where that takes nobind"},
		{Name: "nobind", Topic: t, read: func(r *reader, _ Line) answer { r.nobind = true; return fine }, Text: "the kernel chooses the local port, which it keeps while the client runs"},
		{Name: "float", Topic: t, read: toggle(func(p *Profile) *bool { return &p.Float }), Text: "authentic packets may come from another address than the server's, which is taken for its own then"},
		{Name: "connect-retry", Topic: t, Args: "SECONDS [MAX]", Min: 1, Max: 2, read: readConnectRetry, Text: "wait between attempts, default 1 300: from the fifth round on it doubles, up to MAX"},
		{Name: "connect-retry-max", Topic: t, Args: "N", Min: 1, Max: 1, read: number(0, maxSeconds, func(p *Profile) *int { return &p.Retry.Rounds }), Text: "the client ends after so many rounds of attempts; default: never"},
		{Name: "server-poll-timeout", Aliases: []string{"connect-timeout"}, Topic: t, Args: "SECONDS", Min: 1, Max: 1, read: seconds(1, func(p *Profile) *time.Duration { return &p.Retry.Poll }), Text: "how long a server has for its first answer, default 120"},
		{Name: "resolv-retry", Topic: t, Args: "SECONDS|infinite", Min: 1, Max: 1, read: readResolvRetry, Text: "how long a name that cannot be resolved is tried, default infinite"},
		{Name: "proto-force", Topic: t, Args: "udp|tcp", Min: 1, Max: 1, Verdict: Refused, Text: "remotes are tried as they are given", Remedy: "remove the others"},
		{Name: "http-proxy", Topic: t, Args: "...", Max: -1, Place: block, Verdict: Refused, Text: "servers are reached without a proxy", Remedy: "remove it, or use stock OpenVPN where there is no other way out"},
		{Name: "socks-proxy", Topic: t, Args: "...", Max: -1, Verdict: Refused, Text: "servers are reached without a proxy", Remedy: "remove it, or use stock OpenVPN where there is no other way out"},
		{Name: "multihome", Topic: t, Verdict: Ignored, Text: "a client has one server"},
		{Name: "xdp-workers", Topic: TopicXDP, Args: "N", Min: 1, Max: 1, Verdict: Ignored, Text: "there is one server, which one worker serves"},

		{Name: "auth-user-pass", Topic: t, Args: "[FILE]", Max: 1, Place: block, read: readUserPass,
			Text: "user and password from the first two lines of a file or block; what is missing is asked for on the console"},
		{Name: "auth-retry", Topic: t, Args: "none|nointeract|interact", Min: 1, Max: 1, read: readAuthRetry, Text: "after a refusal the client ends (none, the default), tries again, or asks for user and password again"},
		{Name: "auth-nocache", Topic: t, read: toggle(func(p *Profile) *bool { return &p.Login.NoCache }), Text: "user and password are read or asked for each time they are needed"},
		{Name: "static-challenge", Topic: t, Args: `"TEXT" ECHO [FORMAT]`, Min: 2, Max: 3, read: readStaticChallenge, Text: "question that is asked on the console with user and password; ECHO is 1 or 0, FORMAT scrv1 or concat"},
		{Name: "push-peer-info", Topic: t, read: toggle(func(p *Profile) *bool { return &p.PushPeerInfo }), Text: "the server is told this host's UV_ variables, hardware address, and versions"},
		{Name: "explicit-exit-notify", Topic: t, Args: "[N]", Max: 1, Place: both, read: readClientExitNotify, Text: "UDP servers are told that the client goes, by the control channel or, with older ones, N times in the data channel"},

		{Name: "ifconfig", Topic: t, Args: "ADDRESS NETMASK|OTHER", Min: 2, Max: 2, Place: both, read: func(r *reader, l Line) answer { r.ifconfig = l.Args; return fine }, Text: "own address in the tunnel, with a netmask or the other end's address"},
		{Name: "ifconfig-ipv6", Topic: t, Args: "ADDRESS/BITS [OTHER]", Min: 1, Max: 2, Place: both, read: readClientIfconfig6, Text: "own IPv6 address in the tunnel"},
		{Name: "ifconfig-noexec", Topic: t, Verdict: Refused, Text: "the gateway sets the addresses of its device itself", Remedy: "remove it; an `up` command can change them afterwards"},
		{Name: "topology", Topic: t, Args: "subnet|net30|p2p", Min: 1, Max: 1, Place: both, read: readClientTopology, Text: "says how ifconfig is meant"},
		{Name: "route", Topic: t, Args: "NETWORK [NETMASK [GATEWAY [METRIC]]]", Min: 1, Max: 4, Place: both, read: readClientRoute,
			Text: "kernel route into the tunnel, net_gateway around it. The way to the server (remote_host) is kept clear by itself. Host names are refused"},
		{Name: "route-gateway", Topic: t, Args: "ADDRESS", Min: 1, Max: 1, Place: both, read: readRouteGateway, Text: "gateway of routes that name none; without one they lead to the device, which does the same"},
		{Name: "route-ipv6-gateway", Topic: t, Args: "ADDRESS", Min: 1, Max: 1, Place: both, read: readRouteGateway6, Text: "as route-gateway"},
		{Name: "route-metric", Topic: t, Args: "N", Min: 1, Max: 1, Place: both, read: readRouteMetric, Text: "metric of routes that give none"},
		{Name: "route-nopull", Topic: t, read: toggle(func(p *Profile) *bool { return &p.RouteNoPull }), Text: "pushed routes and DNS settings are left out"},
		{Name: "pull-filter", Topic: t, Args: `accept|ignore|reject "TEXT"`, Min: 2, Max: 2, read: readPullFilter, Text: "pushed options that begin with TEXT; the first that fits counts, and reject ends the session"},
		{Name: "redirect-gateway", Topic: t, Args: "FLAGS...", Max: maxArgs - 1, Place: both, read: readRedirect,
			Text: "all traffic goes through the tunnel. The host's own default route stays, as with def1, so that nothing is left behind. Flags: def1, local, autolocal, block-local, ipv6, !ipv4; bypass-dhcp and bypass-dns do nothing on Linux"},
		{Name: "redirect-private", Topic: t, Args: "FLAGS...", Max: maxArgs - 1, Place: both, read: readRedirect, Text: "as redirect-gateway, but only keeps the way to the server clear"},
		{Name: "block-ipv6", Topic: t, Place: both, read: toggle(func(p *Profile) *bool { return &p.Block6 }), Text: "IPv6 that would go through the tunnel is answered with unreachable"},
		{Name: "dhcp-option", Topic: t, Args: "TYPE [VALUE]", Min: 1, Max: 3, Place: both, read: readDHCPOption, Text: "DNS, DNS6, DOMAIN and DOMAIN-SEARCH go to resolvectl where that is to be had; all go to `up` as foreign_option_N"},
		{Name: "dns", Topic: t, Args: "server N address|resolve-domains ... | search-domains ...", Min: 2, Max: maxArgs - 1, Place: both, read: readDNS, Text: "goes to resolvectl where that is to be had"},
		{Name: "dns-updown", Topic: t, Args: "disable", Min: 1, Max: 1, Verdict: Refused, read: readDNSUpdown, Text: "DNS settings go to resolvectl and to `up`", Remedy: "write disable, or use an `up` command"},
		{Name: "tun-mtu", Topic: t, Args: "BYTES [OCC-BYTES]", Min: 1, Max: 2, Place: both, read: readClientMTU, Text: "MTU of the tunnel, default 1500; a server's counts"},
		{Name: "tun-mtu-max", Topic: t, Args: "BYTES", Min: 1, Max: 1, read: number(68, 65451, func(c *Common) *int { return &c.Tunnel.MTUMax }), Text: "largest tun-mtu that a server may push, default 1600"},
		{Name: "ca", Topic: TopicTLS, Args: "FILE", Min: 1, Max: 1, Place: block, read: source(func(c *Common) *Source { return &c.Peers.CA }), Text: "certificates of the CAs whose servers are trusted"},
		{Name: "remote-cert-tls", Topic: TopicTLS, Args: "server", Min: 1, Max: 1, read: readRemoteCertTLS,
			Text: "the server's certificate needs a key usage and the extended key usage for servers"},
		{Name: "verify-x509-name", Topic: TopicTLS, Args: "NAME [subject|name|name-prefix]", Min: 1, Max: 2, read: readX509Name, Text: "the server's certificate needs this name"},
		{Name: "peer-fingerprint", Topic: TopicTLS, Args: "SHA256", Min: 1, Max: 1, Place: block, read: readFingerprints, Text: "only these certificates are accepted; without ca they may be self-signed"},
		{Name: "tls-auth", Topic: TopicWrap, Args: "FILE [0|1]", Min: 1, Max: 2, Place: block, read: readTLSAuth, Text: "control packets carry an HMAC; the direction is 1 on a client whose server has 0"},
		{Name: "tls-crypt-v2", Topic: TopicWrap, Args: "FILE", Min: 1, Max: 1, Place: block, read: source(func(c *Common) *Source { return &c.Wrap.V2 }), Text: "control packets are encrypted with a key of this client's own"},
		{Name: "cipher", Topic: TopicData, Args: "CIPHER", Min: 1, Max: 1, Place: both, read: readClientCipher, Text: "cipher with a server that negotiates none, if it is one of data-ciphers' four"},
		{Name: "compress", Topic: TopicData, Args: "[ALGORITHM]", Max: 1, Place: both, read: readClientCompress, Text: "refused in every form, also if a server pushes it: even stubs change every packet"},
		{Name: "comp-lzo", Topic: TopicData, Args: "[no]", Max: 1, Place: both, read: readClientCompress, Text: "`no` is ignored in a file; every other form is refused, and so is a server that pushes it"},
		{Name: "keepalive", Topic: TopicTimers, Args: "PING TIMEOUT", Min: 2, Max: 2, read: readKeepalive, Text: "ping and ping-restart"},
		{Name: "ping-restart", Topic: TopicTimers, Args: "SECONDS", Min: 1, Max: 1, Place: both, read: seconds(0, func(c *Common) *time.Duration { return &c.PingRestart }), Text: "the client connects anew after so long without a packet; default 120 with pull"},
		{Name: "ping-exit", Topic: TopicTimers, Args: "SECONDS", Min: 1, Max: 1, Place: both, read: seconds(0, func(c *Common) *time.Duration { return &c.PingExit }), Text: "the client ends after so long without a packet"},
		{Name: "ping-timer-rem", Topic: TopicTimers, Place: both, Verdict: Ignored, Text: "a client's server is always known"},
		{Name: "session-timeout", Topic: TopicTimers, Args: "SECONDS", Min: 1, Max: 1, Place: both, read: seconds(0, func(c *Common) *time.Duration { return &c.SessionTimeout }), Text: "the client ends after so long"},
		{Name: "reneg-sec", Topic: TopicTimers, Args: "SECONDS [MIN]", Min: 1, Max: 2, read: readRenegSec, Text: "keys are renegotiated after so long, or sooner if the server wants it; default 3600, 0 leaves it to the server"},
		{Name: "ipchange", Topic: TopicScripts, Args: `"COMMAND"`, Min: 1, Max: 1, read: command(func(c *Common) *Command { return &c.Scripts.IPChange }), Text: "run when the server's address is known or has changed"},

		{Name: "peer-id", Topic: t, Args: "N", Min: 1, Max: 1, Place: InPush, read: readPeerID, Text: "id in data records"},
		{Name: "protocol-flags", Topic: t, Args: "WORDS", Min: 1, Max: maxArgs - 1, Place: InPush, read: readProtocolFlags, Text: "cc-exit, tls-ekm, dyn-tls-crypt"},
		{Name: "key-derivation", Topic: t, Args: "tls-ekm", Min: 1, Max: 1, Place: InPush, read: readProtocolFlags, Text: "keys come from the TLS exporter"},
		{Name: "auth-token", Topic: t, Args: "TOKEN", Min: 1, Max: 1, Place: InPush, read: value(func(p *Profile) *string { return &p.Pushed.Token }), Text: "takes the place of the password from then on"},
		{Name: "auth-token-user", Topic: t, Args: "BASE64", Min: 1, Max: 1, Place: InPush, read: readTokenUser, Text: "user that belongs to the token"},
	},
		statusRows(),
		pushIgnored("it is without effect on Linux", "block-outside-dns", "register-dns", "ip-win32", "dhcp-renew", "dhcp-release", "route-method", "route-delay"),
		pushIgnored("it only silenced or caused a message", "echo", "parameter", "tun-ipv6", "ifconfig-nowarn"),
		pushIgnored("addresses, keys and device are kept while the client runs, and changed only where a server says something else", "persist-tun", "persist-key"),
	)
}

// statusRows are options about files and sockets that operators read.
func statusRows() []OptionDoc {
	const why = "a client has one session, which `ovpn-xdp status` shows"
	return ignored(TopicOperate, why, "status", "status-version", "management", "management-client-user", "management-client-group", "management-log-cache")
}

// pushIgnored are options that do nothing, neither in a file nor pushed.
func pushIgnored(why string, names ...string) (rows []OptionDoc) {
	for _, d := range ignored(TopicClient, why, names...) {
		d.Place |= InPush
		rows = append(rows, d)
	}
	return rows
}

func readProfileMode(_ *reader, l Line) answer {
	if l.Args[0] != "p2p" {
		return refuse("remove it", "%q is no mode of a client", printable(l.Args[0]))
	}
	return fine
}

// clientProto returns the name by which scripts know a client's protocol; "": unknown.
func clientProto(s string) string {
	switch s {
	case "udp", "udp4", "udp6", "tcp-client", "tcp4-client", "tcp6-client":
		return s
	case "tcp", "tcp4", "tcp6":
		return s + "-client"
	}
	return ""
}

func readClientProto(r *reader, l Line) answer {
	if r.proto = clientProto(l.Args[0]); r.proto == "" {
		r.proto = "udp"
		return refuse("one of udp, udp4, udp6, tcp-client, tcp4-client, tcp6-client", "%q is no protocol of a client", printable(l.Args[0]))
	}
	return fine
}

func readRemote(r *reader, l Line) answer {
	d := dial{host: l.Args[0], line: l}
	if d.host == "" || len(d.host) > 253 || strings.ContainsAny(d.host, " \t/") {
		return refuse("give an address or a host name", "%q is neither an address nor a name", printable(d.host))
	}
	if len(l.Args) > 1 {
		n, err := parseInt(l.Args[1], 1, 65535)
		if err != nil {
			return refuse("give a number; names of services are not looked up", "port %v", err)
		}
		d.port = uint16(n)
	}
	if len(l.Args) > 2 {
		if d.proto = clientProto(l.Args[2]); d.proto == "" {
			return refuse("one of udp, udp4, udp6, tcp-client, tcp4-client, tcp6-client", "%q is no protocol of a client", printable(l.Args[2]))
		}
	}
	r.dials = append(r.dials, d)
	return fine
}

// readConnection reads a <connection> block.
func readConnection(r *reader, l Line) answer {
	if l.Inline == nil {
		return refuse("write <connection>, remote HOST PORT and </connection>", "it is a block")
	}
	var d dial
	for _, in := range Parse(l.File, *l.Inline) {
		var a answer
		switch {
		case in.fault != nil:
			return refuse(in.fault.remedy, "%s", in.fault.why)
		case in.Option == "remote" && len(in.Args) > 0:
			before := len(r.dials)
			in.Number += l.Number
			if a = readRemote(r, in); a.verdict != Refused {
				d.host, d.line = r.dials[before].host, in
				if r.dials[before].port != 0 {
					d.port = r.dials[before].port
				}
				if r.dials[before].proto != "" {
					d.proto = r.dials[before].proto
				}
				r.dials = r.dials[:before]
			}
		case in.Option == "proto" && len(in.Args) == 1:
			if d.proto = clientProto(in.Args[0]); d.proto == "" {
				a = refuse("one of udp, udp4, udp6, tcp-client, tcp4-client, tcp6-client", "%q is no protocol of a client", printable(in.Args[0]))
			}
		case (in.Option == "port" || in.Option == "rport") && len(in.Args) == 1:
			n, err := parseInt(in.Args[0], 1, 65535)
			if err != nil {
				a = refuse("give a number", "port %v", err)
			}
			d.port = uint16(n)
		case in.Option == "explicit-exit-notify" && len(in.Args) <= 1:
			n := int64(1)
			if len(in.Args) == 1 {
				var err error
				if n, err = parseInt(in.Args[0], 0, maxSeconds); err != nil {
					a = refuse("give a number", "%v", err)
				}
			}
			times := int(n)
			d.notify = &times
		case in.Option == "nobind" || in.Option == "float" || in.Option == "connect-timeout" || in.Option == "server-poll-timeout" || in.Option == "connect-retry":
			a = refuse("put it outside of the block: it counts for all servers", "%s counts for all servers here", in.Option)
		default:
			a = refuse("put it outside of the block", "%s is not possible in it", printable(in.Option))
		}
		if a.verdict == Refused {
			return a
		}
	}
	if d.host == "" {
		return refuse("add remote HOST PORT", "there is no remote in it")
	}
	r.dials = append(r.dials, d)
	return fine
}

func readPortAt(at func(*reader) *uint16) handler {
	return func(r *reader, l Line) answer {
		n, err := parseInt(l.Args[0], 0, 65535)
		if err != nil {
			return refuse("give a number; names of services are not looked up", "%v", err)
		}
		*at(r) = uint16(n)
		return fine
	}
}

func readBothPorts(r *reader, l Line) answer {
	a := readPortAt(func(r *reader) *uint16 { return &r.rport })(r, l)
	r.lport = r.rport
	return a
}

func readLocalAddress(r *reader, l Line) answer {
	if a, err := parseIPv4(l.Args[0]); err == nil {
		r.p.Local = a.String()
		return fine
	}
	a, err := parseIPv6(l.Args[0])
	if err != nil {
		return refuse("give an address of this host", "%q is not an address", printable(l.Args[0]))
	}
	r.p.Local = a.String()
	return fine
}

func readConnectRetry(r *reader, l Line) answer {
	wait, err := parseSeconds(l.Args[0], 1)
	if err != nil {
		return refuse("write connect-retry 1 300", "%v", err)
	}
	most := max(300*time.Second, wait)
	if len(l.Args) == 2 {
		if most, err = parseSeconds(l.Args[1], 1); err != nil || most < wait {
			return refuse("write connect-retry 1 300", "the second number is the larger one")
		}
	}
	r.p.Retry.Wait, r.p.Retry.WaitMax = wait, most
	return fine
}

func readResolvRetry(r *reader, l Line) answer {
	if l.Args[0] == "infinite" {
		r.p.Retry.Resolve = -1
		return fine
	}
	d, err := parseSeconds(l.Args[0], 0)
	if err != nil {
		return refuse("give seconds, or infinite", "%v", err)
	}
	r.p.Retry.Resolve = d
	return fine
}

func readUserPass(r *reader, l Line) answer {
	r.p.Login.Wanted = true
	if l.Inline == nil && len(l.Args) == 0 {
		r.p.Login.File = Source{Line: l}
		return fine
	}
	return readSource(l, &r.p.Login.File)
}

func readAuthRetry(r *reader, l Line) answer {
	switch l.Args[0] {
	case "none":
		r.p.Login.Retry = AuthRetryNone
	case "nointeract":
		r.p.Login.Retry = AuthRetryNoInteract
	case "interact":
		r.p.Login.Retry = AuthRetryInteract
	default:
		return refuse("one of: none, nointeract, interact", "%q is not possible", printable(l.Args[0]))
	}
	return fine
}

func readStaticChallenge(r *reader, l Line) answer {
	c := &r.p.Login
	if l.Args[0] == "" {
		return refuse(`write static-challenge "TEXT" 1`, "the question is empty")
	}
	switch l.Args[1] {
	case "0", "1":
	default:
		return refuse("1 shows the answer while it is typed, 0 does not", "%q is not possible", printable(l.Args[1]))
	}
	c.Challenge, c.Echo, c.Concat = l.Args[0], l.Args[1] == "1", false
	if len(l.Args) == 3 {
		switch l.Args[2] {
		case "scrv1":
		case "concat":
			c.Concat = true
		default:
			return refuse("scrv1 or concat", "%q is not possible", printable(l.Args[2]))
		}
	}
	return fine
}

func readClientExitNotify(r *reader, l Line) answer {
	n := int64(1)
	if len(l.Args) == 1 {
		var err error
		if n, err = parseInt(l.Args[0], 0, 16); err != nil {
			return refuse("give a number from 0 to 16", "%v", err)
		}
	}
	r.p.ExitNotify = int(n)
	return fine
}

func readClientTopology(r *reader, l Line) answer {
	switch l.Args[0] {
	case "subnet", "net30", "p2p":
		r.topology = l.Args[0]
		return fine
	}
	return refuse("one of: subnet, net30, p2p", "%q is no topology", printable(l.Args[0]))
}

func readClientRoute(r *reader, l Line) answer {
	if l.Args[0] == "remote_host" {
		return note("the way to the server is kept clear by itself")
	}
	return readRoute(r, l)
}

func readPullFilter(r *reader, l Line) answer {
	f := PullFilter{Text: l.Args[1]}
	switch l.Args[0] {
	case "accept":
	case "ignore":
		f.Action = FilterIgnore
	case "reject":
		f.Action = FilterReject
	default:
		return refuse("one of: accept, ignore, reject", "%q is not possible", printable(l.Args[0]))
	}
	r.p.Filters = append(r.p.Filters, f)
	return fine
}

func readRedirect(r *reader, l Line) answer {
	to := Redirect{V4: true}
	for _, flag := range l.Args {
		switch flag {
		case "def1", "bypass-dhcp", "bypass-dns":
		case "local":
			to.Local = true
		case "autolocal":
			to.AutoLocal = true
		case "block-local":
			to.BlockLocal = true
		case "ipv6":
			to.V6 = true
		case "!ipv4":
			to.V4 = false
		default:
			return refuse("flags are def1, local, autolocal, block-local, ipv6, !ipv4, bypass-dhcp and bypass-dns", "%q is no flag", printable(flag))
		}
	}
	if l.Option == "redirect-private" {
		to.V4, to.V6, to.Private = false, false, true
	}
	have := &r.p.Redirect
	have.V4, have.V6, have.Private = have.V4 || to.V4, have.V6 || to.V6, have.Private || to.Private
	have.Local, have.AutoLocal, have.BlockLocal = have.Local || to.Local, have.AutoLocal || to.AutoLocal, have.BlockLocal || to.BlockLocal
	return fine
}

func readDNSUpdown(_ *reader, l Line) answer {
	if l.Args[0] == "disable" {
		return ignore("DNS settings go to resolvectl where that is to be had; pull-filter ignore keeps them away")
	}
	return fine
}

func readClientMTU(r *reader, l Line) answer {
	if !r.pulling {
		return readTunMTU(r, l)
	}
	n, err := parseInt(l.Args[0], 68, 65451)
	switch {
	case err != nil:
		return refuse("", "%v", err)
	case int(n) > r.c.Tunnel.MTUMax:
		return refuse(fmt.Sprintf("add tun-mtu-max %d", n), "the server's tun-mtu %d is larger than tun-mtu-max %d", n, r.c.Tunnel.MTUMax)
	}
	r.c.Tunnel.MTU = int(n)
	return fine
}

// readClientCipher is a server's choice, or else what a profile of old says.
func readClientCipher(r *reader, l Line) answer {
	c, err := aead.ParseCipher(l.Args[0])
	switch {
	case err != nil && r.pulling:
		return refuse("the server's data-ciphers need one of AES-256-GCM, AES-128-GCM and CHACHA20-POLY1305", "the server chose cipher %s, which is not spoken", printable(l.Args[0]))
	case err != nil:
		return ignore("%s is not spoken; the cipher is negotiated from data-ciphers", printable(l.Args[0]))
	case r.pulling && !slices.Contains(r.c.Data.Ciphers, c):
		return refuse("add it to data-ciphers", "the server chose cipher %s, which is not among data-ciphers", c)
	case r.pulling:
		r.p.Pushed.Cipher = c
	case r.c.Data.Fallback == 0:
		r.c.Data.Fallback = c
		return note("it is for a server that negotiates none; others choose from data-ciphers")
	}
	return fine
}

func readClientCompress(r *reader, l Line) answer {
	no := len(l.Args) == 1 && l.Args[0] == "no"
	switch {
	case r.pulling:
		return refuse("remove comp-lzo and compress from the server's configuration and its pushes", "the server wants %s, whose framing is in every packet and not spoken", strings.TrimSpace(l.Option+" "+strings.Join(l.Args, " ")))
	case l.Option == "comp-lzo" && no:
		return ignore("its extra byte in every packet is not spoken: it must not be in the server's configuration either")
	case l.Option == "compress" && len(l.Args) == 1 && l.Args[0] == "migrate":
		return ignore("it is for servers")
	}
	return refuse("remove it here and from the server; compression has leaked the contents of VPNs (VORACLE)", "compression is not spoken")
}
