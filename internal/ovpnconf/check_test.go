// SPDX-License-Identifier: Apache-2.0

package ovpnconf

import (
	"strings"
	"testing"
)

// find returns the first finding about an option; without one its verdict is 255.
func find(findings []Finding, option string) Finding {
	for _, f := range findings {
		if f.Line.Option == option {
			return f
		}
	}
	return Finding{Verdict: 255}
}

// minimal is the least that a server needs.
const minimal = "dev tun\nca ca.crt\ncert s.crt\nkey s.key\ntopology subnet\nserver 10.8.0.0 255.255.255.0\n"

// bare is minimal without an address.
const bare = "dev tun\nca ca.crt\ncert s.crt\nkey s.key\ntopology subnet\nmode server\n"

func checkText(t *testing.T, text string) (*Server, []Finding) {
	t.Helper()
	s, findings := Check(Parse("server.conf", text))
	for _, f := range findings {
		if f.Verdict == Refused && (f.Why == "" || f.Remedy == "") {
			t.Errorf("refused without reason or way out: %+v", f)
		}
		if f.Verdict == Ignored && f.Why == "" {
			t.Errorf("ignored without reason: %+v", f)
		}
	}
	return s, findings
}

func TestMinimal(t *testing.T) {
	_, findings := checkText(t, minimal)
	for _, f := range findings {
		if f.Verdict != Honoured || f.Why != "" {
			t.Errorf("%v", f)
		}
	}
}

// rule is one line, or a few, and what is said about an option.
type rule struct {
	text    string
	option  string
	verdict Verdict
	why     string // part of the reason or the remedy
}

func runRules(t *testing.T, base string, rules []rule) {
	for _, tc := range rules {
		t.Run(tc.text, func(t *testing.T) {
			_, findings := checkText(t, base+tc.text+"\n")
			f := find(findings, tc.option)
			// The last line of an option has the verdict.
			for _, g := range findings {
				if g.Line.Option == tc.option {
					f = g
				}
			}
			if f.Verdict != tc.verdict || !strings.Contains(f.Why+"; "+f.Remedy, tc.why) || tc.why == "" && f.Why != "" {
				t.Errorf("%v, want %v with %q", f, tc.verdict, tc.why)
			}
			if tc.verdict == Refused {
				return
			}
			for _, g := range findings {
				if g.Verdict == Refused {
					t.Errorf("also refused: %v", g)
				}
			}
		})
	}
}

func TestRefusedAndIgnored(t *testing.T) {
	runRules(t, minimal, []rule{
		{"dev tap0", "dev", Refused, "use dev tun"},
		{"dev null", "dev", Refused, "carries nothing"},
		{"dev vpn0", "dev", Refused, "dev-type tun"},
		{"dev-type tun\ndev vpn0", "dev", Honoured, ""},
		{"dev-type tap", "dev-type", Refused, "use dev tun"},
		{"dev tun%d", "dev", Refused, "not a name the kernel takes"},
		{"topology net30", "topology", Refused, "topology subnet"},
		{"topology p2p", "topology", Refused, "topology subnet"},
		{"server-bridge", "server-bridge", Refused, "tap"},
		{"secret static.key", "secret", Refused, "make a CA"},
		{"fragment 1300", "fragment", Refused, "mssfix"},
		{"comp-lzo", "comp-lzo", Refused, "VORACLE"},
		{"comp-lzo adaptive", "comp-lzo", Refused, "not spoken"},
		{"comp-lzo no", "comp-lzo", Ignored, "turned away"},
		{"compress lz4-v2", "compress", Refused, "not spoken"},
		{"compress stub-v2", "compress", Refused, "stub"},
		{"compress", "compress", Refused, "stub"},
		{"compress migrate", "compress", Ignored, "nothing is compressed"},
		{"allow-compression no", "allow-compression", Honoured, ""},
		{"allow-compression yes", "allow-compression", Refused, "allow-compression no"},
		{"allow-compression asym", "allow-compression", Refused, "allow-compression no"},
		{"cipher AES-256-CBC", "cipher", Ignored, "data-ciphers"},
		{"ncp-disable", "ncp-disable", Ignored, "negotiated"},
		{"no-replay", "no-replay", Refused, "always dropped"},
		{"replay-window 128 30", "replay-window", Ignored, "2048"},
		{"user nobody", "user", Ignored, "unit file"},
		{"group nogroup", "group", Ignored, "unit file"},
		{"chroot /x", "chroot", Ignored, "unit file"},
		{"nice 3", "nice", Ignored, "unit file"},
		{"mlock", "mlock", Ignored, "unit file"},
		{"persist-key", "persist-key", Ignored, "kept"},
		{"daemon", "daemon", Ignored, "foreground"},
		{"port-share 127.0.0.1 443", "port-share", Refused, "proxy"},
		{"vlan-tagging", "vlan-tagging", Refused, "tap"},
		{"client", "client", Refused, "client's option"},
		{"remote vpn.example 1194", "remote", Refused, "client's option"},
		{"redirect-gateway def1", "redirect-gateway", Refused, `push "redirect-gateway def1"`},
		{"resolv-retry infinite", "resolv-retry", Ignored, "for clients"},
		{"<connection>\nremote a\n</connection>", "connection", Refused, "client's option"},
		{"client-cert-not-required", "client-cert-not-required", Refused, "verify-client-cert none"},
		{"ns-cert-type client", "ns-cert-type", Refused, "remote-cert-tls client"},
		{"verify-hash aa", "verify-hash", Refused, "peer-fingerprint"},
		{"tls-remote x", "tls-remote", Refused, "verify-x509-name"},
		{"management-client-auth", "management-client-auth", Refused, "anybody could"},
		{"management-query-proxy", "management-query-proxy", Refused, "proxy"},
		{"pkcs11-id x", "pkcs11-id", Refused, "cert and key"},
		{"bind-dev vrf1", "bind-dev", Refused, "ip vrf exec"},
		{"block-ipv6", "block-ipv6", Refused, "firewall"},
		{"ifconfig-noexec", "ifconfig-noexec", Refused, "sets the addresses"},
		{"ipchange x", "ipchange", Refused, "client-connect"},
		{"iroute 10.1.0.0 255.255.0.0", "iroute", Refused, "client-config-dir"},
		{"ifconfig-push 10.8.0.9 255.255.255.0", "ifconfig-push", Refused, "client-config-dir"},
		{"push-reset", "push-reset", Refused, "client-config-dir"},
		{"show-tls", "show-tls", Refused, "command of its own"},

		{"plugin /usr/lib/openvpn/openvpn-plugin-auth-pam.so login", "plugin", Refused, `auth-user-pass-verify "/usr/lib/ovpn-xdp/auth-pam login" via-file`},
		{`plugin openvpn-plugin-auth-pam.so "login login USERNAME password PASSWORD pin OTP"`, "plugin", Refused, `auth-user-pass-verify "/usr/lib/ovpn-xdp/auth-pam login login USERNAME password PASSWORD pin OTP" via-file`},
		{`plugin openvpn-plugin-auth-pam.so "vpn 'one time' OTP"`, "plugin", Refused, "docs/auth-pam.md"},
		{"plugin openvpn-plugin-auth-pam.so openvpn", "plugin", Refused, "auth-user-pass-verify /usr/lib/ovpn-xdp/auth-pam via-file"},
		{"plugin /usr/lib/openvpn-auth-ldap.so /etc/ldap.conf", "plugin", Refused, "pam_ldap"},
		{"plugin ./own.so", "plugin", Refused, "command"},

		{"prot udp", "prot", Refused, "did you mean proto?"},
		{"xdp-nics eth0", "xdp-nics", Refused, "did you mean xdp-nic?"},
		{"frobnicate", "frobnicate", Refused, "ignore-unknown-option"},
		{"Port 1194", "Port", Refused, "did you mean port?"},
		{"port", "port", Refused, "0 arguments, and takes 1"},
		{"port 1 2", "port", Refused, "2 arguments, and takes 1"},
		{"push route 10.1.0.0 255.255.0.0", "push", Refused, "double quotes"},
		{"client-to-client yes", "client-to-client", Refused, "takes none"},
		{"<port>\n1194\n</port>", "port", Refused, "inline block"},
		{"push \"route\x1b\"", "push", Refused, "control character"},
	})
}

func TestValues(t *testing.T) {
	runRules(t, minimal, []rule{
		{"port 0", "port", Refused, "1 to 65535"},
		{"port openvpn", "port", Refused, "services"},
		{"proto sctp", "proto", Refused, "is no protocol"},
		{"proto tcp-client", "proto", Refused, "tcp-server"},
		{"local 192.0.2.1 1195 udp\nlocal 192.0.2.1 1195 udp", "local", Refused, "given twice"},
		{"local 192.0.2.1\nproto udp6", "local", Refused, "not an address of proto udp6"},
		{"local 2001:db8::1\nproto udp4", "local", Refused, "not an address of proto udp4"},
		{"local vpn.example", "local", Honoured, "looked up once"},
		{"local *", "local", Honoured, ""},
		{"local ../x", "local", Refused, "neither"},
		{"bind ipv6only", "bind", Honoured, ""},
		{"bind all", "bind", Refused, "ipv6only"},
		{"mark -1", "mark", Refused, "0 to 4294967295"},
		{"sndbuf x", "sndbuf", Refused, "not a number"},
		{"socket-flags TCP_CORK", "socket-flags", Refused, "no socket flag"},
		{"connect-freq 0 10", "connect-freq", Honoured, "no limit"},
		{"connect-freq-initial a 1", "connect-freq-initial", Refused, "count"},
		{"tun-mtu 99", "tun-mtu", Refused, "100 to 65451"},
		{"tun-mtu 1400 1500", "tun-mtu", Honoured, "second number"},
		{"mssfix 100", "mssfix", Refused, "256"},
		{"mssfix 1400 foo", "mssfix", Refused, "mtu or fixed"},
		{"max-packet-size 100", "max-packet-size", Honoured, "154 is used"},
		{"server 10.8.0.0 10.8.0.255", "server", Refused, "is not a netmask"},
		{"server 10.8.0.1 255.255.255.0", "server", Refused, "write server 10.8.0.0 255.255.255.0"},
		{"server 10.0.0.0 255.0.0.0", "server", Refused, "too large"},
		{"server 10.8.0.0 255.255.255.252", "server", Refused, "too small"},
		{"server 10.8.0.0 255.255.255.0 pool", "server", Refused, "nopool"},
		{"server-ipv6 fd00::/48", "server-ipv6", Refused, "64 to 124"},
		{"server-ipv6 fd00::5/64", "server-ipv6", Refused, "write server-ipv6 fd00::/64"},
		{"server-ipv6 10.0.0.0/64", "server-ipv6", Refused, "not an IPv6"},
		{"server-ipv6 fd00::/64\ntun-mtu 1200", "tun-mtu", Refused, "1280"},
		{"ifconfig 10.8.0.1 10.8.0.2", "ifconfig", Ignored, "server already"},
		{"ifconfig-pool 10.8.0.9 10.8.0.20", "ifconfig-pool", Refused, "nopool"},
		{"ifconfig-pool-persist ipp.txt x", "ifconfig-pool-persist", Refused, "seconds"},
		{"ifconfig-pool-persist ipp.txt\nduplicate-cn", "ifconfig-pool-persist", Ignored, "duplicate-cn"},
		{"route 10.1.0.0 10.1.0.255", "route", Refused, "is not a netmask"},
		{"route office.example", "route", Refused, "host names"},
		{"route 10.1.0.5 255.255.0.0", "route", Honoured, "10.1.0.0/16 is routed"},
		{"route 10.1.0.0 255.255.0.0 remote_host", "route", Refused, "net_gateway"},
		{"route vpn_gateway", "route", Refused, "only known to a client"},
		{"route 10.1.0.0 255.255.0.0 default x", "route", Refused, "metric"},
		{"route-ipv6 10.1.0.0/16", "route-ipv6", Refused, "IPv6"},
		{"route-ipv6 fd01::/48", "route-ipv6", Honoured, "no IPv6 network of its own"},
		{"route-gateway 10.9.0.1", "route-gateway", Refused, "not in the tunnel's network"},
		{"route-gateway dhcp", "route-gateway", Refused, "tap"},
		{"route-ipv6-gateway fd01::1\nserver-ipv6 fd00::/64", "route-ipv6-gateway", Refused, "not in the tunnel's network"},
		{"keepalive 10 15", "keepalive", Refused, "twice"},
		{"keepalive 10 60\nping 5", "ping", Refused, "keepalive already"},
		{"keepalive 0 60", "keepalive", Refused, "seconds"},
		{"keepalive 10 50000", "keepalive", Refused, "43200"},
		{"reneg-sec 60 120", "reneg-sec", Refused, "smaller"},
		{"reneg-sec 0", "reneg-sec", Honoured, "run out"},
		{"hand-window 0", "hand-window", Refused, "from 1 on"},
		{"explicit-exit-notify 5", "explicit-exit-notify", Honoured, "means 1"},
		{"proto tcp\nexplicit-exit-notify", "explicit-exit-notify", Ignored, "TCP"},
		{"proto tcp\nxdp-nic eth0", "xdp-nic", Honoured, "AF_XDP"},
		{"max-clients 0", "max-clients", Refused, "1 to"},
		{"max-clients 16777215", "max-clients", Refused, "16777214"},
		{"ccd-exclusive", "ccd-exclusive", Refused, "nobody could connect"},
		{"client-to-client\nxdp-block-client-to-client", "xdp-block-client-to-client", Refused, "opposite"},

		{"tls-version-min 1.0", "tls-version-min", Honoured, "1.2 is used"},
		{"tls-version-min 1.4", "tls-version-min", Refused, "1.2 or 1.3"},
		{"tls-version-max 1.1", "tls-version-max", Refused, "1.2 or 1.3"},
		{"tls-version-min 1.3\ntls-version-max 1.2", "tls-version-max", Refused, "below"},
		{"tls-cipher TLS-DHE-RSA-WITH-AES-256-GCM-SHA384", "tls-cipher", Refused, "ECDHE"},
		{"tls-cipher TLS-DHE-RSA-WITH-AES-256-GCM-SHA384:TLS-ECDHE-RSA-WITH-AES-256-GCM-SHA384", "tls-cipher", Honoured, "left out: TLS-DHE"},
		{"tls-cipher DEFAULT:!aNULL", "tls-cipher", Ignored, "expression"},
		{"tls-ciphersuites TLS_AES_256_GCM_SHA384", "tls-ciphersuites", Ignored, "fixed"},
		{"tls-groups X448:brainpoolP256r1", "tls-groups", Refused, "none of these groups"},
		{"tls-groups X448:x25519", "tls-groups", Honoured, "left out: X448"},
		{"ecdh-curve prime256v1", "ecdh-curve", Honoured, ""},
		{"tls-cert-profile best", "tls-cert-profile", Refused, "suiteb"},
		{"dh dh2048.pem", "dh", Ignored, "ECDHE"},
		{"dh none", "dh", Ignored, "ECDHE"},
		{"remote-cert-tls server", "remote-cert-tls", Honoured, "usual"},
		{"remote-cert-tls peer", "remote-cert-tls", Refused, "client"},
		{"remote-cert-ku 80 zz", "remote-cert-ku", Refused, "no key usage"},
		{"verify-x509-name x type", "verify-x509-name", Refused, "name-prefix"},
		{"peer-fingerprint 00:11", "peer-fingerprint", Refused, "openssl x509"},
		{"<peer-fingerprint>\n# none\n</peer-fingerprint>", "peer-fingerprint", Refused, "no certificate"},
		{"x509-username-field ou", "x509-username-field", Honoured, "read as OU"},
		{"x509-username-field ext:foo", "x509-username-field", Refused, "subjectAltName"},
		{"crl-verify crl.pem file", "crl-verify", Refused, "DIR dir"},
		{"<ca>\n\n</ca>", "ca", Refused, "block is empty"},
		{"askpass", "askpass", Refused, "no console"},
		{"verify-client-cert none", "verify-client-cert", Refused, "anybody could"},
		{"verify-client-cert optional", "verify-client-cert", Refused, "auth-user-pass-verify"},
		{"verify-client-cert no", "verify-client-cert", Refused, "optional"},
		{"username-as-common-name", "username-as-common-name", Refused, "auth-user-pass-verify"},
		{"auth-user-pass-optional", "auth-user-pass-optional", Refused, "auth-user-pass-verify"},
		{"script-security 2\nauth-user-pass-verify /bin/x via-file\nverify-client-cert none", "verify-client-cert", Honoured, ""},
		{"auth-user-pass-verify /bin/x via-file", "auth-user-pass-verify", Refused, "add script-security 2"},
		{"script-security 2\nauth-user-pass-verify /bin/x via-env", "auth-user-pass-verify", Refused, "script-security 3"},
		{"script-security 3\nauth-user-pass-verify /bin/x via-env", "auth-user-pass-verify", Honoured, ""},
		{"script-security 2\nauth-user-pass-verify /bin/x via-pipe", "auth-user-pass-verify", Refused, "via-file"},
		{"auth-user-pass-verify /bin/x", "auth-user-pass-verify", Refused, "takes 2"},
		{"script-security 2\nup \"/bin/x 'a\"", "up", Refused, "quote"},
		{"script-security 2\nup /bin/a\nup /bin/b", "up", Honoured, "replaces"},
		{"learn-address /bin/x", "learn-address", Refused, "script-security is 1"},
		{"script-security 4", "script-security", Refused, "0 to 3"},
		{"auth-gen-token 0 30\nscript-security 2\nauth-user-pass-verify /bin/x via-file", "auth-gen-token", Refused, "twice hand-window"},
		{"auth-gen-token\nreneg-sec 0", "auth-gen-token", Refused, "reneg-sec"},
		{"auth-gen-token", "auth-gen-token", Honoured, "no client gets a token"},
		{"auth-gen-token a", "auth-gen-token", Refused, "LIFETIME"},
		{"auth-gen-token 1 2 3", "auth-gen-token", Refused, "LIFETIME"},
		{"auth-gen-token-secret f", "auth-gen-token-secret", Ignored, "no auth-gen-token"},

		{"tls-auth ta.key 2", "tls-auth", Refused, "no direction"},
		{"tls-auth ta.key 0\ntls-crypt tc.key", "tls-crypt", Refused, "tls-auth is given too"},
		{"tls-auth ta.key 0\nauth none", "auth", Refused, "needs a digest"},
		{"tls-auth ta.key 0\nauth WHIRLPOOL", "auth", Refused, "needs a digest"},
		{"auth WHIRLPOOL", "auth", Ignored, "tls-auth only"},
		{"key-direction 0", "key-direction", Ignored, "no tls-auth"},
		{"tls-crypt-v2 v2.key always", "tls-crypt-v2", Refused, "force-cookie"},
		{"tls-crypt-v2-verify x", "tls-crypt-v2-verify", Refused, "no client would be checked"},
		{"tls-crypt-v2-max-age 30", "tls-crypt-v2-max-age", Refused, "no client would be checked"},
		{"tls-crypt-v2 v2.key\ntls-crypt-v2-max-age 0", "tls-crypt-v2-max-age", Refused, "days"},

		{"data-ciphers AES-256-GCM:AES-256-CBC", "data-ciphers", Honoured, "left out: AES-256-CBC"},
		{"data-ciphers AES-256-CBC:BF-CBC", "data-ciphers", Refused, "none of these"},
		{"ncp-ciphers AES-128-GCM", "ncp-ciphers", Honoured, ""},
		{"data-ciphers-fallback BF-CBC", "data-ciphers-fallback", Refused, "not spoken"},

		{"push \"dhcp-option DNS 10.8.0.1, 10.8.0.2\"", "push", Refused, "comma"},
		{"push \"\"", "push", Refused, "nothing is pushed"},
		{"push \"comp-lzo no\"", "push", Refused, "not spoken"},
		{"push \"compress stub-v2\"", "push", Refused, "changes every packet"},
		{"push \"topology net30\"", "push", Refused, "pushed by itself"},
		{"push \"topology subnet\"", "push", Honoured, ""},
		{"push \"cipher AES-256-CBC\"", "push", Refused, "decided for each session"},
		{"push \"route 10.1.0.0 10.1.0.255\"", "push", Honoured, "not a netmask"},
		{"push \"something-new with words\"", "push", Honoured, ""},
		{"push \"xdp-nic eth0\"", "push", Refused, "for the gateway"},

		{"management 127.0.0.1 7505", "management", Honoured, "whoever reaches that port"},
		{"management 127.0.0.1 7505 /etc/pw", "management", Honoured, ""},
		{"management 127.0.0.1 7505 stdin", "management", Refused, "console"},
		{"management /run/m.sock unix", "management", Honoured, ""},
		{"management gw.example 7505", "management", Refused, "not an address"},
		{"management 127.0.0.1 port", "management", Refused, "unix behind a path"},
		{"management-client-user root", "management-client-user", Refused, "Unix socket"},
		{"management-log-cache 10", "management-log-cache", Ignored, "no management"},
		{"status s.log x", "status", Refused, "seconds"},
		{"status-version 4", "status-version", Refused, "1 to 3"},
		{"verb 12", "verb", Refused, "0 to 11"},
		{"mode p2p", "mode", Refused, "many clients"},

		{"setenv opt frobnicate 1", "frobnicate", Ignored, "setenv opt"},
		{"setenv opt port 1195", "port", Honoured, ""},
		{"setenv opt", "setenv", Refused, "names no option"},
		{"setenv FORWARD_COMPATIBLE 1\nfrobnicate", "frobnicate", Ignored, "FORWARD_COMPATIBLE"},
		{"setenv LD_PRELOAD= x", "setenv", Refused, "no name of a variable"},
		{"setenv A b c", "setenv", Refused, "double quotes"},
		{"setenv GENERIC_CONFIG", "setenv", Refused, "generic"},
		{"frobnicate 1\nignore-unknown-option frobnicate", "frobnicate", Refused, "no such option"},
		{"ignore-unknown-option --frobnicate x\nfrobnicate 1", "frobnicate", Ignored, "named by ignore-unknown-option"},
		{"ignore-unknown-option xdp-nic xdp-mode\nxdp-nic eth0", "xdp-nic", Honoured, ""},

		{"xdp-mode dpdk", "xdp-mode", Refused, "one of: auto, xdp-zerocopy"},
		{"xdp-queues 3-1", "xdp-queues", Refused, "0,2-3"},
		{"xdp-ring-size 1", "xdp-ring-size", Refused, "64 to 32768"},
		{"xdp-prefetch 65", "xdp-prefetch", Refused, "0 to 64"},
		{"xdp-nic eth0 eth0", "xdp-nic", Honoured, ""},
		{"xdp-nic a/b", "xdp-nic", Refused, "not a name the kernel takes"},
		{"xdp-name ../x", "xdp-name", Refused, "letters"},
	})
}

func TestWhatIsMissing(t *testing.T) {
	for _, tc := range []struct{ text, option, why string }{
		{"", "server", "no server's configuration"},
		{"", "dev", "add dev tun"},
		{"", "ca", "peer-fingerprint"},
		{"", "cert", "pkcs12"},
		{"", "key", "pkcs12"},
		{bare, "mode", "no address"},
		{bare + "ifconfig 10.8.0.1 10.8.0.2", "ifconfig", "pair of addresses for topology net30"},
		{bare + "ifconfig 10.8.0.x 255.255.255.0", "ifconfig", "not an IPv4"},
		{bare + "ifconfig 10.8.0.1 255.255.255.0\nifconfig-pool 10.9.0.4 10.9.0.20", "ifconfig-pool", "not inside"},
		{bare + "ifconfig 10.8.0.1 255.255.255.0\nifconfig-pool 10.8.0.1 10.8.0.20", "ifconfig-pool", "own address"},
		{bare + "ifconfig 10.8.0.1 255.255.255.0\nifconfig-pool 10.8.0.2 10.8.0.255", "ifconfig-pool", "first or last"},
		{bare + "ifconfig 10.8.0.1 255.255.255.0\nifconfig-pool 10.8.0.9 10.8.0.4", "ifconfig-pool", "ends before"},
		{bare + "ifconfig 10.8.0.1 255.255.255.0\nifconfig-pool-persist x", "ifconfig-pool-persist", "no pool"},
		{bare + "ifconfig-ipv6-pool fd00::1000/64", "ifconfig-ipv6-pool", "no IPv6 address"},
		{bare + "ifconfig-pool 10.8.0.9 10.8.0.14", "mode", "no address"},
		{minimal + "pkcs12 all.p12", "cert", "pkcs12 is given too"},
		{minimal + "server 10.8.0.0 255.255.255.0 nopool\nserver-ipv6 fd00::/64", "server-ipv6", "nopool"},
		{minimal + "server-ipv6 fd00::/64\nifconfig-ipv6-pool fd00::9/64", "ifconfig-ipv6-pool", "already makes a pool"},
	} {
		_, findings := checkText(t, tc.text)
		f := find(findings, tc.option)
		if f.Verdict != Refused || !strings.Contains(f.Why+"; "+f.Remedy, tc.why) {
			t.Errorf("%q: %v, want %q", tc.text, f, tc.why)
		}
	}
	_, findings := Check(nil)
	if len(findings) == 0 || Usable(findings) {
		t.Error("nothing at all is taken for a configuration")
	}
}

func TestFindingsStandInOrder(t *testing.T) {
	text := minimal + "push \"a\"\nverb 3\nfrobnicate\npush \"b,c\"\n"
	_, findings := checkText(t, text)
	for i, f := range findings {
		if f.Line.Number != i+1 {
			t.Errorf("finding %d is about line %d", i, f.Line.Number)
		}
	}
	if got, want := findings[8].String(), "server.conf:9: frobnicate is refused: there is no such option; remove it, or name it in ignore-unknown-option above"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// FuzzParseClient: whatever a client-connect command writes, nothing of it breaks a
// PUSH_REPLY or a route.
func FuzzParseClient(f *testing.F) {
	s, findings := Check(Parse("server.conf", minimal))
	if !Usable(findings) {
		f.Fatal("the minimal configuration is not usable")
	}
	for _, seed := range []string{"ifconfig-push 10.8.0.9 255.255.255.0\niroute 10.9.0.0 255.255.0.0", "push-reset\npush \"route 1.2.3.4\"\npush-remove route",
		"ifconfig-ipv6-push fd00::9/64 fd00::1\niroute-ipv6 fd01::/48\ndisable", "ifconfig-push 10.8.0.9 10.8.0.10\npush-remove ifconfig", "inactive 1 2\ndata-ciphers x:AES-128-GCM\nkeepalive 1 2"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, findings := ParseClient("ccd", text, s)
		for _, f := range findings {
			if strings.ContainsAny(f.String(), "\n\r\x1b\x00") {
				t.Fatalf("control characters in %q", f.String())
			}
		}
		for _, p := range c.Pushes(s.Push) {
			if strings.ContainsAny(p.Text, ",\n\x00") || len(p.Text) > maxPush {
				t.Fatalf("push %q", p.Text)
			}
		}
		for _, r := range c.Routes {
			if r != r.Masked() {
				t.Fatalf("route %v", r)
			}
		}
		if a := c.Address4; a.IsValid() && (!a.Addr().Is4() || a.Addr() == s.Network4.Own) {
			t.Fatalf("address %v", a)
		}
		if a := c.Address6; a.IsValid() && !a.Addr().Is6() {
			t.Fatalf("address %v", a)
		}
	})
}

func FuzzCheck(f *testing.F) {
	f.Add(minimal)
	f.Add(bare + "ifconfig 10.8.0.1 255.255.255.0\nifconfig-pool 10.8.0.4 10.8.0.20 255.255.255.0\nkeepalive 10 60\n")
	f.Add("<ca>\nx\n</ca>\nserver-ipv6 ffff:ffff:ffff:ffff::/64\nsetenv opt x\n")
	f.Add("push \"route 10.0.0.0 255.0.0.0\"\nroute 10.0.0.0 255.0.0.0 default 5\nlocal ::\nproto udp6")
	f.Add("auth-gen-token 1 2 external-auth\nplugin x \"y\nmssfix 1400 fixed\n")
	f.Fuzz(func(t *testing.T, text string) {
		lines := Parse("f", text)
		s, findings := Check(lines)
		if len(findings) < len(lines) {
			t.Fatalf("%d lines, %d findings", len(lines), len(findings))
		}
		for i, l := range lines {
			if findings[i].Line.Number != l.Number {
				t.Fatalf("finding %d is about line %d, want %d", i, findings[i].Line.Number, l.Number)
			}
		}
		for _, f := range findings {
			if f.Verdict != Honoured && f.Why == "" || f.Verdict == Refused && f.Remedy == "" {
				t.Fatalf("no reason or way out: %+v", f)
			}
			if strings.ContainsAny(f.String(), "\n\r\x1b\x00") {
				t.Fatalf("control characters in %q", f.String())
			}
		}
		if !Usable(findings) {
			return
		}
		switch {
		case !s.Network4.Own.IsValid() && !s.Network6.Own.IsValid(), len(s.Listen) == 0, len(s.Data.Ciphers) == 0:
			t.Fatalf("incomplete: %+v", s)
		case s.RenegMin > s.RenegMax, s.HandWindow <= 0, s.TLSTimeout <= 0:
			t.Fatalf("timers: %+v", s.Timers)
		}
		for _, p := range s.Push {
			if strings.ContainsAny(p.Text, ",\n\x00") || len(p.Text) > maxPush {
				t.Fatalf("push %q", p.Text)
			}
		}
		c, _ := ParseClient("ccd", text, s)
		c.Pushes(s.Push)
	})
}
