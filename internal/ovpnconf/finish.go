// SPDX-License-Identifier: Apache-2.0

package ovpnconf

import (
	"fmt"
	"net/netip"
	"strings"
)

// finish puts together what several lines decide, expands helper options, and
// refuses what does not go together.
func (r *reader) finish() {
	r.checkMode()
	r.device()
	r.network4()
	r.network6()
	r.listen()
	r.routes()
	r.pushHelpers()
	r.sizes()
	r.timers()
	r.wrapping()
	r.checkAuth()
	r.checkTLS()
	r.checkScripts(r.s.commands())
	r.checkVerifyEnv()
	r.checkManagement()
	r.checkClients()
	r.joinPaths(r.s.sources(), r.s.paths())
	r.keepLines()
}

// keepLines keeps the last line of each option, for messages.
func (r *reader) keepLines() {
	r.c.lines = make(map[string]Line, len(r.last))
	for name, i := range r.last {
		r.c.lines[name] = r.findings[i].Line
	}
}

func (r *reader) checkMode() {
	if r.was("server") || r.was("server-ipv6") || r.mode == "server" {
		return
	}
	for _, o := range []string{"client", "secret", "mode", "server-bridge"} {
		if r.was(o) {
			return // refused already, for a better reason
		}
	}
	r.amend("server", refuse("add server NETWORK NETMASK", "it is missing, and so is mode server: this is no server's configuration"))
}

func (r *reader) device() {
	switch {
	case !r.was("dev"):
		r.amend("dev", refuse("add dev tun", "it is missing"))
	case r.dev == "":
	case r.dev == "tun":
	default:
		if !strings.HasPrefix(r.dev, "tun") && r.devType == "" && !r.was("dev-type") {
			r.amend("dev", refuse("add dev-type tun", "%s could be a tun or a tap device", r.dev))
		}
		r.c.Tunnel.Dev = r.dev
	}
}

func (r *reader) network4() {
	n, pool := &r.s.Network4, &r.s.Pool4
	switch {
	case r.server != nil:
		a, _ := parseIPv4(r.server.network)
		bits, _ := parseNetmask(r.server.mask)
		n.Prefix = netip.PrefixFrom(a, bits)
		n.Own = a.Next()
		if !r.server.nopool {
			if r.pool != nil {
				r.amend("ifconfig-pool", refuse("remove it, or write nopool behind server", "server already makes a pool"))
			}
			*pool = Pool4{Start: n.Own.Next(), End: lastOf(n.Prefix).Prev(), Mask: bits}
		}
		r.noteLine("ifconfig", ignore("server already sets the address"))
	case r.ifconfig != nil && r.given("ifconfig"):
		a, err := parseIPv4(r.ifconfig[0])
		if err != nil {
			r.amend("ifconfig", refuse("write ifconfig 10.8.0.1 255.255.255.0", "%v", err))
			return
		}
		bits, ok := parseNetmask(r.ifconfig[1])
		if !ok {
			r.amend("ifconfig", refuse(fmt.Sprintf("write topology subnet, ifconfig %s 255.255.255.0, and give the clients' mask in ifconfig-pool", a),
				"%q is no netmask: this is a pair of addresses for topology net30 or p2p", printable(r.ifconfig[1])))
			return
		}
		n.Prefix, n.Own = netip.PrefixFrom(a, bits).Masked(), a
		r.pushSubnet()
	}
	if r.topology == "" && n.Prefix.IsValid() && !r.was("topology") {
		option := "server"
		if r.server == nil {
			option = "ifconfig"
		}
		r.amend(option, note("topology is subnet, as with OpenVPN 2.7; servers before that take net30 when the file says nothing"))
	}
	if r.pool != nil && *pool == (Pool4{}) && r.given("ifconfig-pool") {
		*pool = *r.pool
		if pool.Mask == 0 {
			pool.Mask = n.Prefix.Bits()
		}
		r.checkPool()
	}
}

// checkPool holds ifconfig-pool against the network.
func (r *reader) checkPool() {
	n, p := r.s.Network4, r.s.Pool4
	switch {
	case !n.Prefix.IsValid():
		r.amend("ifconfig-pool", refuse("add ifconfig ADDRESS NETMASK", "the tunnel has no IPv4 address"))
	case !n.Prefix.Contains(p.Start) || !n.Prefix.Contains(p.End):
		r.amend("ifconfig-pool", refuse("choose a range of it", "the range is not inside the tunnel's network %s", n.Prefix))
	case p.Start.Compare(n.Own) <= 0 && n.Own.Compare(p.End) <= 0:
		r.amend("ifconfig-pool", refuse("choose a range without it", "the range contains the gateway's own address %s", n.Own))
	case p.Start == n.Prefix.Addr() || p.End == lastOf(n.Prefix):
		r.amend("ifconfig-pool", refuse("leave them out", "the range contains the network's first or last address, which no host can have"))
	}
}

// pushSubnet tells clients what `server` would, if the file does not.
func (r *reader) pushSubnet() {
	var topology, gateway bool
	for _, p := range r.s.Push {
		topology = topology || strings.HasPrefix(p.Text, "topology ")
		gateway = gateway || strings.HasPrefix(p.Text, "route-gateway ")
	}
	l := r.findings[r.last["ifconfig"]].Line
	var added []string
	if !gateway {
		added = append(added, "route-gateway "+r.s.Network4.Own.String())
	}
	if !topology {
		added = append(added, "topology subnet")
	}
	for _, text := range added {
		r.s.Push = append(r.s.Push, Push{Text: text, Line: l})
	}
	if added != nil {
		r.amend("ifconfig", note("clients are told %s, which the file does not push", strings.Join(added, " and ")))
	}
}

func (r *reader) network6() {
	n, pool := &r.s.Network6, &r.s.Pool6
	switch {
	case r.server6.IsValid():
		n.Prefix, n.Own = r.server6, r.server6.Addr().Next()
		// OpenVPN's offsets: ::1000, or ::2 where a prefix has no room for that.
		first := uint64(0x1000)
		if r.server6.Bits() >= 112 {
			first = 2
		}
		*pool = Pool6{Base: addTo(r.server6.Addr(), first), Prefix: r.server6}
		if r.pool6.IsValid() {
			r.amend("ifconfig-ipv6-pool", refuse("remove it", "server-ipv6 already makes a pool"))
		}
		if r.server != nil && r.server.nopool {
			r.amend("server-ipv6", refuse("write ifconfig-ipv6 ADDRESS/BITS REMOTE instead", "server has nopool, and server-ipv6 makes a pool"))
		}
		r.noteLine("ifconfig-ipv6", ignore("server-ipv6 already sets the address"))
	case r.local6.IsValid():
		n.Prefix, n.Own = r.local6.Masked(), r.local6.Addr()
		if r.pool6.IsValid() {
			*pool = Pool6{Base: r.pool6.Addr(), Prefix: r.pool6.Masked()}
		}
	case r.pool6.IsValid():
		r.amend("ifconfig-ipv6-pool", refuse("add ifconfig-ipv6 ADDRESS/BITS REMOTE", "the tunnel has no IPv6 address"))
	}
	if r.mode == "server" && !r.s.Network4.Prefix.IsValid() && !n.Prefix.IsValid() && !r.was("server") && !r.was("server-ipv6") && !r.was("ifconfig") {
		r.amend("mode", refuse("add server NETWORK NETMASK, or ifconfig ADDRESS NETMASK", "the tunnel has no address"))
	}
}

// sizes settles MTU and MSS.
func (r *reader) sizes() {
	t := &r.c.Tunnel
	if !r.fixGiven {
		t.MSSFix = MSSFix{MSSFixMTU, 1492}
		if t.MTU != defaultTunMTU {
			t.MSSFix = MSSFix{MSSFixFixed, t.MTU}
		}
	}
	if t.MTU < 1280 && (r.s != nil && r.s.Network6.Prefix.IsValid() || r.p != nil && r.p.Address6.IsValid()) {
		r.amend("tun-mtu", refuse("give at least 1280", "IPv6 does not work below 1280 bytes"))
	}
}

// checkClients holds the rules about clients against each other.
func (r *reader) checkClients() {
	s := r.s
	if s.Clients.ConfigExclusive && s.Clients.ConfigDir == "" {
		r.amend("ccd-exclusive", refuse("add client-config-dir DIR", "there is no client-config-dir, so nobody could connect"))
	}
	if s.PoolPersist.File != "" && s.Pool4 == (Pool4{}) && s.Pool6 == (Pool6{}) {
		r.amend("ifconfig-pool-persist", refuse("add a pool, or remove it", "there is no pool of addresses"))
	}
	if s.PoolPersist.File != "" && s.Clients.DuplicateCN {
		r.noteLine("ifconfig-pool-persist", ignore("with duplicate-cn a name does not tell whose address it was"))
		s.PoolPersist.File = ""
	}
	if s.Clients.ToClient && s.Clients.BlockToClient {
		r.amend("xdp-block-client-to-client", refuse("remove one of them", "client-to-client asks for the opposite"))
	}
	if !s.anyUDP() {
		r.noteLine("explicit-exit-notify", ignore("TCP clients notice the end of their connection"))
		s.Clients.ExitNotify = 0
		r.noteLine("xdp-nic", note("there is nothing to steer: TCP does not use AF_XDP"))
		r.noteLine("connect-freq-initial", ignore("it is for UDP"))
	}
}

// joinPaths makes relative paths relative to the process's folder.
func (r *reader) joinPaths(sources []*Source, paths []*string) {
	cd := r.c.Process.Cd
	if cd == "" {
		return
	}
	for _, src := range sources {
		src.Path = joinPath(cd, src.Path)
	}
	for _, p := range paths {
		*p = joinPath(cd, *p)
	}
}

// sources returns all files with content that may also be inline.
func (c *Common) sources() []*Source {
	return []*Source{
		&c.Peers.CA, &c.Peers.CRL, &c.TLS.Cert, &c.TLS.Key, &c.TLS.ExtraCerts, &c.TLS.PKCS12, &c.TLS.AskPass, &c.Wrap.Key, &c.Wrap.V2,
	}
}

func (s *Server) sources() []*Source { return append(s.Common.sources(), &s.Auth.Token.Secret) }

// paths returns the other files and folders.
func (c *Common) paths() []*string {
	return []*string{
		&c.Peers.CAPath, &c.Peers.ExportCert, &c.Status.File, &c.Log.File, &c.Process.WritePID, &c.Management.Unix, &c.Management.Password,
		&c.Scripts.TmpDir, &c.XDP.PinDir, &c.XDP.StateDir, &c.XDP.RunDir, &c.XDP.ReadyFile,
	}
}

func (s *Server) paths() []*string {
	return append(s.Common.paths(), &s.Clients.ConfigDir, &s.PoolPersist.File)
}
