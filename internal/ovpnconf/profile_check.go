// SPDX-License-Identifier: Apache-2.0

package ovpnconf

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// IsProfile says whether the options are a client's, or one end of a point-to-point
// tunnel's, and not a server's.
func IsProfile(lines []Line) bool {
	client := false
	for _, l := range lines {
		switch l.Option {
		case "server", "server-ipv6", "server-bridge":
			return false
		case "mode":
			if len(l.Args) == 1 && l.Args[0] == "server" {
				return false
			}
		case "client", "pull", "tls-client", "remote", "connection", "tls-server":
			client = true
		}
	}
	return client
}

// CheckProfile is Check for a client's configuration.
func CheckProfile(lines []Line) (*Profile, []Finding) {
	r := newProfileReader()
	for _, l := range lines {
		r.read(l)
	}
	r.finishProfile()
	return r.p, slices.Concat(r.findings, r.aboutRun)
}

// InspectProfile is Inspect for a client's configuration.
func InspectProfile(lines []Line) (*Profile, []Finding) {
	p, findings := CheckProfile(lines)
	return p, merge(findings, p.Unreadable())
}

func newProfileReader() *reader {
	p := &Profile{Common: defaults()}
	p.Retry = Retry{Wait: time.Second, WaitMax: 300 * time.Second, Poll: 120 * time.Second, Resolve: -1}
	r := newReaderOf(profileByName)
	r.p, r.c = p, &p.Common
	return r
}

// finishProfile puts together what several lines decide, and refuses what does not go
// together.
func (r *reader) finishProfile() {
	p := r.p
	r.device()
	r.remotes()
	r.clientAddresses()
	r.clientRoutes()
	r.sizes()
	r.clientTimers()
	r.wrapping()
	r.checkLogin()
	r.checkClientTLS()
	r.checkScripts(p.commands())
	r.checkManagement()
	r.joinPaths(p.sources(), p.paths())
	r.keepLines()
	p.kept.topology, p.kept.gateway, p.kept.gateway6, p.kept.metric = r.topology, r.gateway, r.gateway6, r.metric
}

// remotes completes the remote lines with port and proto, which may stand behind them.
func (r *reader) remotes() {
	p := r.p
	if len(r.dials) == 0 && !p.TLSServer {
		r.amend("remote", refuse("add remote HOST PORT", "it is missing, so there is no server to connect to"))
	}
	for _, d := range r.dials {
		m := Remote{Host: d.host, Port: r.rport, Line: d.line, ExitNotify: d.notify}
		if d.port != 0 {
			m.Port = d.port
		}
		m.Proto = r.proto
		if d.proto != "" {
			m.Proto = d.proto
		}
		m.TCP = strings.HasPrefix(m.Proto, "tcp")
		switch {
		case strings.Contains(m.Proto, "4"):
			m.Family = 4
		case strings.Contains(m.Proto, "6"):
			m.Family = 6
		}
		if a, err := netip.ParseAddr(m.Host); err == nil {
			if m.Family == 4 && !a.Unmap().Is4() || m.Family == 6 && a.Unmap().Is4() {
				r.amendLine(m.Line, refuse("change one of them", "%s is not an address of proto %s", m.Host, m.Proto))
			}
		}
		p.Remotes = append(p.Remotes, m)
	}
	if p.TLSServer && slices.ContainsFunc(p.Remotes, func(m Remote) bool { return m.TCP }) || p.TLSServer && strings.HasPrefix(r.proto, "tcp") {
		r.amend("proto", refuse("use udp, or a server's configuration (server NETWORK NETMASK)", "a point-to-point tunnel's TLS server does not listen on TCP"))
	}
	if r.nobind {
		if r.was("lport") || r.was("local") {
			r.amend("nobind", refuse("remove one of them", "local or lport asks for the opposite"))
		}
		p.LocalPort = 0
	} else if p.TLSServer || r.was("lport") || r.was("port") || r.was("bind") {
		p.LocalPort = r.lport
	}
	for _, m := range p.Remotes {
		if m.TCP && m.ExitNotify == nil && p.ExitNotify > 0 && len(p.Remotes) == 1 {
			r.noteLine("explicit-exit-notify", ignore("the server notices the end of a TCP connection"))
		}
	}
}

// clientAddresses is ifconfig and ifconfig-ipv6, which a server may push.
func (r *reader) clientAddresses() {
	p := r.p
	if r.ifconfig != nil {
		p.Address4, p.Remote4 = netip.Prefix{}, netip.Addr{}
		a, err := parseIPv4(r.ifconfig[0])
		if err != nil {
			r.amend("ifconfig", refuse("write ifconfig ADDRESS NETMASK", "%v", err))
			return
		}
		if bits, ok := parseNetmask(r.ifconfig[1]); ok && r.topology != "net30" && r.topology != "p2p" {
			p.Address4 = netip.PrefixFrom(a, bits)
		} else if b, err := parseIPv4(r.ifconfig[1]); err == nil {
			p.Address4, p.Remote4 = netip.PrefixFrom(a, 32), b
		} else {
			r.amend("ifconfig", refuse("write ifconfig ADDRESS NETMASK", "%v", err))
		}
	}
	if r.local6.IsValid() {
		p.Address6 = r.local6
	}
	if !p.Pull && !r.pulling && !p.Address4.IsValid() && !p.Address6.IsValid() {
		option := "tls-client"
		if p.TLSServer {
			option = "tls-server"
		}
		r.amend(option, refuse("add ifconfig OWN OTHER, or write client", "nobody tells this end its address: without pull, ifconfig or ifconfig-ipv6 has to"))
	}
}

// clientRoutes gives routes their gateways and metrics. Routes without gateway go to the
// device.
func (r *reader) clientRoutes() {
	p := r.p
	for i := range p.Routes {
		t := &p.Routes[i]
		if t.Metric < 0 {
			t.Metric = r.metric
		}
		if !t.Gateway.IsValid() && !t.Direct && t.Prefix.Addr().Is4() && r.gateway.IsValid() && p.Address4.IsValid() && p.Address4.Masked().Contains(r.gateway) {
			t.Gateway = r.gateway
		}
	}
}

// clientTimers expands keepalive and fills in what depends on other timers.
func (r *reader) clientTimers() {
	t := &r.c.Timers
	if r.ping.interval > 0 {
		t.Ping, t.PingRestart = r.ping.interval, r.ping.timeout
	}
	if t.RenegMin < 0 {
		t.RenegMin = t.RenegMax // a client's time is not drawn by lot
	}
	if r.p.Pull && t.PingRestart == 0 && t.PingExit == 0 && !r.was("ping-restart") && !r.was("ping-exit") {
		t.PingRestart = 120 * time.Second // stock's, for a client that pulls
	}
}

func (r *reader) checkLogin() {
	l := r.p.Login
	for _, o := range []string{"static-challenge", "auth-retry", "auth-nocache"} {
		if r.given(o) && !l.Wanted {
			r.noteLine(o, ignore("there is no auth-user-pass"))
		}
	}
	if l.Wanted && !l.File.Given() {
		r.noteLine("auth-user-pass", note("user and password are asked for on the console; a service has none: give a file"))
	}
}

// checkClientTLS says what is missing for TLS.
func (r *reader) checkClientTLS() {
	p := r.p
	if r.was("pkcs12") {
		for _, o := range []string{"cert", "key", "capath"} {
			if r.was(o) {
				r.amend(o, refuse("remove one of them", "pkcs12 is given too"))
			}
		}
	} else {
		switch {
		case r.was("cert") != r.was("key"):
			missing := "cert"
			if r.was("cert") {
				missing = "key"
			}
			r.amend(missing, refuse("add it, or remove the other one", "certificate and key go together"))
		case !r.was("cert") && !p.Login.Wanted:
			r.amend("cert", refuse("add cert and key, pkcs12, or auth-user-pass", "it is missing, and so is auth-user-pass: the server could not tell who this is"))
		case !r.was("cert") && p.TLSServer:
			r.amend("cert", refuse("add cert FILE and key FILE", "it is missing, and a TLS server needs it"))
		}
	}
	if !r.was("ca") && !r.was("capath") && !r.was("peer-fingerprint") && !r.was("pkcs12") {
		r.amend("ca", refuse("add ca FILE, or peer-fingerprint", "it is missing, so the server's certificate could not be checked"))
	}
	if p.TLS.MaxVersion != 0 && p.TLS.MaxVersion < p.TLS.MinVersion {
		r.amend("tls-version-max", refuse("raise it", "it is below tls-version-min"))
	}
	if !p.TLSServer && p.Peers.RemoteCertTLS == "" && p.Peers.RemoteEKU == "" && p.Peers.Name == "" && len(p.Peers.Fingerprints) == 0 && p.Peers.Verify == nil && !r.was("remote-cert-ku") && r.was("ca") {
		r.amend("ca", note("any certificate of that CA passes for the server's, other clients' too if they are not marked as such; add remote-cert-tls server"))
	}
}

// amendLine is amend for one of several lines of an option.
func (r *reader) amendLine(l Line, a answer) {
	if f := r.finding(l); f != nil {
		f.Verdict, f.Why, f.Remedy = max(f.Verdict, a.verdict), a.why, a.remedy
		return
	}
	r.aboutRun = append(r.aboutRun, Finding{Line: l, Verdict: a.verdict, Why: a.why, Remedy: a.remedy})
}

// commands returns the options that run something, with their commands.
func (p *Profile) commands() []optionCommand {
	return append(p.Common.commands(), optionCommand{"ipchange", p.Scripts.IPChange})
}

// sources returns all files with content that may also be inline.
func (p *Profile) sources() []*Source { return append(p.Common.sources(), &p.Login.File) }

// paths returns the other files and folders.
func (p *Profile) paths() []*string { return p.Common.paths() }

// contents returns the files with what they have to look like.
func (p *Profile) contents() []content {
	return append(p.Common.contents(), content{p.Wrap.V2, isClientKey}, content{p.Login.File, isLogin})
}

// Unreadable looks at every file, folder and command that the profile names, and
// returns what would keep the client from starting, or what is suspicious.
func (p *Profile) Unreadable() []Finding {
	return p.unreadable(!p.TLSServer, p.contents(), p.commands(), p.folders(), p.files())
}

func isLogin(b []byte) answer {
	user, rest, _ := strings.Cut(string(b), "\n")
	if strings.TrimSpace(user) == "" {
		return refuse("write the user into its first line and the password into its second", "there is no user in it")
	}
	if password, _, _ := strings.Cut(rest, "\n"); strings.TrimSpace(password) == "" {
		return note("there is no password in it: it is asked for on the console")
	}
	return fine
}

// Description says what a remote is, for messages.
func (m Remote) String() string { return fmt.Sprintf("%s:%d (%s)", m.Host, m.Port, m.Proto) }
