// SPDX-License-Identifier: Apache-2.0

package ovpnconf

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const minimalProfile = "client\ndev tun\nremote vpn.example 1194\nca ca.crt\ncert c.crt\nkey c.key\nremote-cert-tls server\n"

// profile reads a profile that is to be usable.
func profile(t *testing.T, text string) *Profile {
	t.Helper()
	p, findings := CheckProfile(Parse("client.ovpn", text))
	for _, f := range findings {
		if f.Verdict == Refused {
			t.Errorf("%v", f)
		}
	}
	return p
}

// refusals returns what is refused of a profile.
func refusals(text string) (out []string) {
	_, findings := CheckProfile(Parse("client.ovpn", text))
	for _, f := range findings {
		if f.Verdict == Refused {
			out = append(out, f.String())
		}
	}
	return out
}

func TestRoleOfConfiguration(t *testing.T) {
	for text, want := range map[string]bool{
		minimalProfile: true,
		minimal:        false,
		"tls-client\nremote x\nifconfig 10.0.0.1 10.0.0.2":         true,
		"tls-server\nifconfig 10.0.0.1 10.0.0.2":                   true,
		"mode server\ntls-server\nifconfig 10.0.0.1 255.255.255.0": false,
		"dev tun":                               false,
		"<connection>\nremote x\n</connection>": true,
	} {
		if got := IsProfile(Parse("x", text)); got != want {
			t.Errorf("%q: profile %v, want %v", text, got, want)
		}
	}
}

func TestProfileDefaults(t *testing.T) {
	p := profile(t, minimalProfile)
	if !p.Pull || p.TLSServer || p.LocalPort != 0 || p.Tunnel.MTU != 1500 {
		t.Errorf("%+v", p)
	}
	if want := (Retry{Wait: time.Second, WaitMax: 5 * time.Minute, Poll: 2 * time.Minute, Resolve: -1}); p.Retry != want {
		t.Errorf("retry %+v", p.Retry)
	}
	if p.PingRestart != 2*time.Minute || p.RenegMax != time.Hour || p.RenegMin != time.Hour {
		t.Errorf("timers %+v", p.Timers)
	}
	if p.Peers.RemoteCertTLS != "server" {
		t.Errorf("checks %+v", p.Peers)
	}
}

func TestRemotes(t *testing.T) {
	const head = "client\ndev tun\nca ca.crt\ncert c.crt\nkey c.key\n"
	for text, want := range map[string]string{
		"remote a":                                "a:1194 (udp)",
		"remote a 443 tcp":                        "a:443 (tcp-client) tcp",
		"remote a\nremote b 53 udp6\nport 7":      "a:7 (udp),b:53 (udp6) 6",
		"remote a\nproto tcp4\nrport 8":           "a:8 (tcp4-client) tcp 4",
		"<connection>\nremote a 1\n</connection>": "a:1 (udp)",
		"<connection>\nremote a\nproto tcp\nport 5\n</connection>\nremote b": "a:5 (tcp-client) tcp,b:1194 (udp)",
		"remote a 443 tcp-client\nproto udp":                                 "a:443 (tcp-client) tcp",
		"remote 2001:db8::1 1194 udp6":                                       "2001:db8::1:1194 (udp6) 6",
	} {
		p := profile(t, head+text+"\n")
		var got []string
		for _, m := range p.Remotes {
			s := m.String()
			if m.TCP {
				s += " tcp"
			}
			if m.Family != 0 {
				s += fmt.Sprint(" ", m.Family)
			}
			got = append(got, s)
		}
		if strings.Join(got, ",") != want {
			t.Errorf("%q: %v, want %s", text, got, want)
		}
	}
}

// What a client could not do, or what would let somebody else in, is refused.
func TestProfileRefusals(t *testing.T) {
	for text, want := range map[string]string{
		"client\ndev tun\nca ca.crt\ncert c\nkey k": "remote is refused",
		"http-proxy proxy 3128":                     "http-proxy is refused",
		"socks-proxy proxy":                         "socks-proxy is refused",
		"server 10.8.0.0 255.255.255.0":             "server is refused: it is for servers",
		"push \"route 10.0.0.0\"":                   "push is refused",
		"client-config-dir ccd":                     "client-config-dir is refused",
		"auth-user-pass-verify x via-file":          "auth-user-pass-verify is refused",
		"comp-lzo":                                  "comp-lzo is refused",
		"comp-lzo yes":                              "comp-lzo is refused",
		"compress lz4-v2":                           "compress is refused",
		"compress stub-v2":                          "compress is refused",
		"fragment 1300":                             "fragment is refused",
		"secret static.key":                         "secret is refused",
		"plugin x.so":                               "plugin is refused",
		"ns-cert-type server":                       "ns-cert-type is refused",
		"verify-hash 00":                            "verify-hash is refused",
		"peer-id 3":                                 "peer-id is refused: only a server says it",
		"redirect-gateway def2":                     "redirect-gateway is refused",
		"pull-filter drop route":                    "pull-filter is refused",
		"data-ciphers AES-256-CBC":                  "data-ciphers is refused",
		"dev tap0":                                  "dev is refused",
		"remote 192.0.2.1 1194 udp6":                "remote is refused",
		"<connection>\ntls-auth x\n</connection>":   "connection is refused",
		"no-such-thing":                             "no-such-thing is refused",
		"route vpn.example":                         "route is refused",
		"nobind\nlport 5":                           "nobind is refused",
		"up x":                                      "up is refused",
		"bind-dev eth0":                             "bind-dev is refused",
		"tls-verify x":                              "tls-verify is refused",
		"management-client-auth":                    "management-client-auth is refused",
	} {
		if !strings.HasPrefix(text, "client\n") {
			text = minimalProfile + text
		}
		if got := strings.Join(refusals(text+"\n"), "\n"); !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	for _, missing := range []string{"ca ca.crt\n", "cert c.crt\n", "dev tun\n"} {
		if len(refusals(strings.Replace(minimalProfile, missing, "", 1))) == 0 {
			t.Errorf("without %q nothing is refused", missing)
		}
	}
}

// Options that profiles of common tools have are no reason not to start.
func TestProfileOfTools(t *testing.T) {
	for name, text := range map[string]string{
		"easy-rsa":      "client\ndev tun\nproto udp\nremote my-server-1 1194\nresolv-retry infinite\nnobind\npersist-key\npersist-tun\nca ca.crt\ncert client.crt\nkey client.key\nremote-cert-tls server\ntls-auth ta.key 1\ncipher AES-256-CBC\nverb 3\n",
		"pfsense":       "dev tun\npersist-tun\npersist-key\ndata-ciphers AES-256-GCM:AES-128-GCM:CHACHA20-POLY1305\ndata-ciphers-fallback AES-256-GCM\nauth SHA256\ntls-client\nclient\nresolv-retry infinite\nremote 192.0.2.1 1194 udp4\nnobind\nverify-x509-name \"vpn\" name\nauth-user-pass\nca ca.crt\nremote-cert-tls server\nexplicit-exit-notify\n",
		"provider":      "client\ndev tun\nproto udp\nremote a.example 443\nremote b.example 443\nremote-random\nresolv-retry infinite\nnobind\ntun-mtu 1500\nmssfix 1450\npersist-key\npersist-tun\nping 15\nping-restart 0\nping-timer-rem\nreneg-sec 0\nremote-cert-tls server\nauth-user-pass login\nverb 3\npull\nfast-io\ncipher AES-256-GCM\nauth SHA512\n<ca>\nX\n</ca>\nkey-direction 1\n<tls-auth>\nX\n</tls-auth>\nsetenv CLIENT_CERT 0\ncomp-lzo no\nblock-outside-dns\nscript-security 2\n",
		"access server": "setenv FORWARD_COMPATIBLE 1\nclient\nserver-poll-timeout 4\nnobind\nremote x.example 1194 udp\nremote x.example 443 tcp\ndev tun\ndev-type tun\nremote-cert-tls server\ntls-version-min 1.2\nreneg-sec 604800\nsndbuf 100000\nrcvbuf 100000\nauth-user-pass\nverb 3\npush-peer-info\nsetenv PUSH_PEER_INFO\n<ca>\nX\n</ca>\n<cert>\nX\n</cert>\n<key>\nX\n</key>\n<tls-crypt-v2>\nX\n</tls-crypt-v2>\n",
	} {
		if got := refusals(text); got != nil {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestPulled(t *testing.T) {
	p := profile(t, minimalProfile+"route 192.168.7.0 255.255.255.0\n")
	got, findings := p.Pulled(strings.Split("route 10.1.0.0 255.255.0.0,route-gateway 10.8.0.1,topology subnet,ping 10,ping-restart 60,"+
		"ifconfig-ipv6 fd00:8::1000/64 fd00:8::1,ifconfig 10.8.0.2 255.255.255.0,peer-id 5,cipher AES-128-GCM,protocol-flags cc-exit tls-ekm dyn-tls-crypt,tun-mtu 1400,"+
		"redirect-gateway def1 ipv6,dhcp-option DNS 10.8.0.1,dhcp-option DOMAIN corp.example,dns server 1 address [fd00::53]:5353,dns server 1 resolve-domains corp.example,"+
		"route-ipv6 fd00:66::/64,auth-token SESS_ID_AT_x,explicit-exit-notify 2,unheard-of 1", ","))
	if f := Unusable(findings); f != nil {
		t.Fatal(f)
	}
	text := fmt.Sprint(got.Address4, " ", got.Address6, " ", got.Ping, " ", got.PingRestart, " ", *got.Pushed.PeerID, " ", got.Pushed.Cipher, " ", got.Pushed.EKM, got.Pushed.Dynamic, got.Pushed.CCExit,
		" ", got.Tunnel.MTU, " ", got.Redirect.V4, got.Redirect.V6, " ", got.DNS, " ", got.Pushed.Token, " ", got.ExitNotify)
	if want := "10.8.0.2/24 fd00:8::1000/64 10s 1m0s 5 AES-128-GCM true true true 1400 true true {[10.8.0.1:0 [fd00::53]:5353] [corp.example] [corp.example]} SESS_ID_AT_x 2"; text != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
	var routes []string
	for _, r := range got.Routes {
		routes = append(routes, fmt.Sprint(r.Prefix, " ", r.Gateway))
	}
	if text, want := strings.Join(routes, ","), "192.168.7.0/24 10.8.0.1,10.1.0.0/16 10.8.0.1,fd00:66::/64 invalid IP"; text != want {
		t.Errorf("routes %s, want %s", text, want)
	}
	if len(p.Routes) != 1 || p.Pushed.PeerID != nil || p.Address4.IsValid() {
		t.Errorf("the profile was changed: %+v", p)
	}
}

func TestPulledNet30(t *testing.T) {
	p := profile(t, minimalProfile)
	got, findings := p.Pulled([]string{"route 10.8.0.1", "topology net30", "ifconfig 10.8.0.6 10.8.0.5", "peer-id 0"})
	if f := Unusable(findings); f != nil {
		t.Fatal(f)
	}
	if got.Address4.String() != "10.8.0.6/32" || got.Remote4.String() != "10.8.0.5" {
		t.Errorf("%s, %s", got.Address4, got.Remote4)
	}
}

// What would be misunderstood makes a session unusable; what only misses something
// does not.
func TestUnusable(t *testing.T) {
	for text, bad := range map[string]bool{
		"comp-lzo no":               true,
		"comp-lzo":                  true,
		"compress stub-v2":          true,
		"compress":                  true,
		"fragment 1300":             true,
		"cipher AES-256-CBC":        true,
		"cipher AES-192-GCM":        true, // not among data-ciphers
		"tun-mtu 9000":              true,
		"protocol-flags aead-epoch": true,
		"ifconfig x y":              true,
		"peer-id 16777216":          true,
		"redirect-gateway nonsense": true,
		"route vpn.example":         false,
		"up /bin/sh":                false,
		"setenv X 1":                false,
		"script-security 3":         false,
		"plugin x":                  false,
		"dhcp-option DNS nowhere":   false,
		"nonsense":                  false,
		"cipher AES-256-GCM":        false,
	} {
		with, findings := profile(t, minimalProfile).Pulled([]string{text})
		if f := Unusable(findings); (f != nil) != bad {
			t.Errorf("%q: %v", text, findings)
		}
		if with.Scripts.Up != nil || with.Scripts.Security != 1 {
			t.Errorf("%q was taken from a server", text)
		}
	}
}

func TestPullFilter(t *testing.T) {
	p := profile(t, minimalProfile+"pull-filter accept \"route 10.1.\"\npull-filter ignore route\npull-filter reject \"dhcp-option DNS 1\"\n")
	got, findings := p.Pulled([]string{"route 10.1.0.0 255.255.0.0", "route 10.2.0.0 255.255.0.0", "route-gateway 10.8.0.1"})
	if len(got.Routes) != 1 || Unusable(findings) != nil {
		t.Errorf("%+v %v", got.Routes, findings)
	}
	if _, findings := p.Pulled([]string{"dhcp-option DNS 1.1.1.1"}); Unusable(findings) == nil {
		t.Errorf("not rejected: %v", findings)
	}
	got, _ = profile(t, minimalProfile+"route-nopull\nroute 10.3.0.0 255.255.0.0\n").Pulled([]string{"route 10.1.0.0 255.255.0.0", "redirect-gateway def1", "dhcp-option DNS 1.1.1.1", "ifconfig 10.8.0.2 255.255.255.0"})
	if len(got.Routes) != 1 || got.Redirect != (Redirect{}) || !got.DNS.Empty() || !got.Address4.IsValid() {
		t.Errorf("route-nopull: %+v", got)
	}
}

// What a hostile server pushes reaches nothing but its own session.
func FuzzPulled(f *testing.F) {
	f.Add("route 10.1.0.0 255.255.0.0,ifconfig 10.8.0.2 255.255.255.0,peer-id 3")
	f.Add(`setenv-safe a "b,dns server 1 address [::1]:53,redirect-gateway !ipv4`)
	p, _ := CheckProfile(Parse("client.ovpn", minimalProfile))
	f.Fuzz(func(t *testing.T, text string) {
		with, findings := p.Pulled(strings.Split(text, ","))
		if with.Scripts.Up != nil || with.TLS.Cert.Path != "c.crt" || len(with.Remotes) != 1 || with.Process != p.Process || with.Log != p.Log {
			t.Errorf("a push changed what is not a server's business: %+v", with)
		}
		for _, f := range findings {
			if strings.ContainsFunc(f.String(), func(c rune) bool { return c < ' ' }) {
				t.Errorf("control characters in %q", f.String())
			}
		}
	})
}
