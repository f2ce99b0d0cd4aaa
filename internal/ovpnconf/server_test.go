// SPDX-License-Identifier: Apache-2.0

package ovpnconf

import (
	"crypto/tls"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/config"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/aead"
)

// usable checks a configuration that has to be usable.
func usable(t *testing.T, text string) *Server {
	t.Helper()
	s, findings := checkText(t, text)
	for _, f := range findings {
		if f.Verdict == Refused {
			t.Errorf("%v", f)
		}
	}
	return s
}

func pushed(s *Server) string {
	var out []string
	for _, p := range s.Push {
		out = append(out, p.Text)
	}
	return strings.Join(out, ",")
}

func TestDefaults(t *testing.T) {
	s := usable(t, minimal)
	want := Server{
		Common: Common{
			Tunnel: Tunnel{MTU: 1500, MTUMax: 1600, MaxPacket: 1250, MSSFix: MSSFix{MSSFixMTU, 1492}},
			TLS:    TLS{Cert: s.TLS.Cert, Key: s.TLS.Key, MinVersion: tls.VersionTLS12},
			Peers:  PeerChecks{CA: s.Peers.CA, UsernameFields: []string{"CN"}},
			Wrap:   Wrapping{Digest: "SHA1"},
			Data:   Data{Ciphers: []aead.Cipher{aead.AES256GCM, aead.AES128GCM, aead.ChaCha20Poly1305}},
			Timers: Timers{RenegMax: time.Hour, RenegMin: 54 * time.Minute, HandWindow: time.Minute,
				TranWindow: time.Hour, TLSTimeout: 2 * time.Second},
			Scripts:    Scripts{Security: 1},
			Management: Management{LogCache: 250},
			Status:     Status{Every: time.Minute, Version: 1},
			Log:        Log{Verb: 1},
			lines:      s.lines,
		},
		Listen:      []Listen{{Addr: netip.IPv4Unspecified(), Port: 1194, Proto: "udp", Line: s.Listen[0].Line}},
		Network4:    Network{netip.MustParsePrefix("10.8.0.0/24"), netip.MustParseAddr("10.8.0.1")},
		Pool4:       Pool4{netip.MustParseAddr("10.8.0.2"), netip.MustParseAddr("10.8.0.254"), 24},
		PoolPersist: PoolPersist{Every: 10 * time.Minute},
		Push:        s.Push,
		Clients:     Clients{Max: 1024, MaxRoutes: 256, Initial: Frequency{100, 10 * time.Second}},
	}
	if !reflect.DeepEqual(*s, want) {
		t.Errorf("got  %+v\nwant %+v", *s, want)
	}
	if got, want := pushed(s), "route-gateway 10.8.0.1,topology subnet"; got != want {
		t.Errorf("pushed %q, want %q", got, want)
	}
}

// remote-cert-tls is more than the default: the usages have to be there at all.
func TestRemoteCertTLS(t *testing.T) {
	for text, want := range map[string]PeerChecks{
		"remote-cert-tls client":                        {RemoteCertTLS: "client", RemoteKUAny: true, RemoteEKU: "1.3.6.1.5.5.7.3.2"},
		"remote-cert-tls server":                        {RemoteCertTLS: "server", RemoteKUAny: true, RemoteEKU: "1.3.6.1.5.5.7.3.1"},
		"remote-cert-tls client\nremote-cert-ku 80":     {RemoteCertTLS: "client", RemoteKU: []uint16{0x80}, RemoteEKU: "1.3.6.1.5.5.7.3.2"},
		"remote-cert-tls client\nremote-cert-eku 1.2.3": {RemoteCertTLS: "client", RemoteKUAny: true, RemoteEKU: "1.2.3"},
	} {
		s := usable(t, minimal+text+"\n")
		if got := s.Peers; got.RemoteCertTLS != want.RemoteCertTLS || got.RemoteKUAny != want.RemoteKUAny || got.RemoteEKU != want.RemoteEKU || !slices.Equal(got.RemoteKU, want.RemoteKU) {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func TestListen(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "0.0.0.0:1194 udp",
		"port 443":                  "0.0.0.0:443 udp",
		"lport 443":                 "0.0.0.0:443 udp",
		"proto udp4":                "0.0.0.0:1194 udp4",
		"proto udp6":                "[::]:1194 udp6,0.0.0.0:1194 udp6",
		"proto udp6\nbind ipv6only": "[::]:1194 udp6",
		"proto tcp":                 "0.0.0.0:1194 tcp-server tcp",
		"proto tcp6":                "[::]:1194 tcp6-server tcp,0.0.0.0:1194 tcp6-server tcp",
		"local 192.0.2.1":           "192.0.2.1:1194 udp",
		"local 2001:db8::1":         "[2001:db8::1]:1194 udp",
		"local ::ffff:192.0.2.1":    "192.0.2.1:1194 udp",
		"local ::\nproto udp6":      "[::]:1194 udp6,0.0.0.0:1194 udp6",
		"local *\nport 53":          "0.0.0.0:53 udp",
		"local 192.0.2.1 443 tcp\nlocal 192.0.2.1\nport 1195": "192.0.2.1:443 tcp-server tcp,192.0.2.1:1195 udp",
		"local vpn.example 443 tcp-server":                    "vpn.example:443 tcp-server tcp",
	} {
		s := usable(t, minimal+text+"\n")
		var got []string
		for _, l := range s.Listen {
			e := fmt.Sprintf("%s:%d %s", l.Host, l.Port, l.Proto)
			if l.Addr.IsValid() {
				e = netip.AddrPortFrom(l.Addr, l.Port).String() + " " + l.Proto
			}
			if l.TCP {
				e += " tcp"
			}
			got = append(got, e)
		}
		if strings.Join(got, ",") != want {
			t.Errorf("%q: %v, want %s", text, got, want)
		}
	}
}

func TestNetworks(t *testing.T) {
	for text, want := range map[string]string{
		"server 10.8.0.0 255.255.255.248":                                           "10.8.0.1 in 10.8.0.0/29, 10.8.0.2-10.8.0.6/29; push route-gateway 10.8.0.1,topology subnet",
		"server 10.8.0.0 255.255.0.0":                                               "10.8.0.1 in 10.8.0.0/16, 10.8.0.2-10.8.255.254/16; push route-gateway 10.8.0.1,topology subnet",
		"server 10.8.0.0 255.255.255.0 nopool":                                      "10.8.0.1 in 10.8.0.0/24; push route-gateway 10.8.0.1,topology subnet",
		"server 10.8.0.0 255.255.255.0 nopool\nifconfig-pool 10.8.0.100 10.8.0.200": "10.8.0.1 in 10.8.0.0/24, 10.8.0.100-10.8.0.200/24; push route-gateway 10.8.0.1,topology subnet",
		"mode server\ntls-server\nifconfig 10.8.0.1 255.255.255.0\nifconfig-pool 10.8.0.4 10.8.0.9 255.255.255.0\npush \"route-gateway 10.8.0.1\"\npush \"topology subnet\"": "10.8.0.1 in 10.8.0.0/24, 10.8.0.4-10.8.0.9/24; push route-gateway 10.8.0.1,topology subnet",
		"mode server\nifconfig 10.8.0.7 255.255.255.0": "10.8.0.7 in 10.8.0.0/24; push route-gateway 10.8.0.7,topology subnet",
		"server-ipv6 fd00::/64":                        "; fd00::1 in fd00::/64, fd00::1000; push tun-ipv6",
		"server-ipv6 fd00::/112":                       "; fd00::1 in fd00::/112, fd00::2; push tun-ipv6",
		"server-ipv6 fd00::/111":                       "; fd00::1 in fd00::/111, fd00::1000; push tun-ipv6",
		"mode server\nifconfig-ipv6 fd00::5/64 fd00::6\nifconfig-ipv6-pool fd00::100/64": "; fd00::5 in fd00::/64, fd00::100",
	} {
		s := usable(t, "dev tun\nca a\ncert b\nkey c\n"+text+"\n")
		got := ""
		if s.Network4.Prefix.IsValid() {
			got += fmt.Sprintf("%s in %s", s.Network4.Own, s.Network4.Prefix)
		}
		if s.Pool4.Start.IsValid() {
			got += fmt.Sprintf(", %s-%s/%d", s.Pool4.Start, s.Pool4.End, s.Pool4.Mask)
		}
		if s.Network6.Prefix.IsValid() {
			got += fmt.Sprintf("; %s in %s", s.Network6.Own, s.Network6.Prefix)
		}
		if s.Pool6.Base.IsValid() {
			got += fmt.Sprintf(", %s", s.Pool6.Base)
		}
		if len(s.Push) > 0 {
			got += "; push " + pushed(s)
		}
		if got != want {
			t.Errorf("%q:\n got %s\nwant %s", text, got, want)
		}
	}
}

func TestTopologyIsSaid(t *testing.T) {
	_, findings := checkText(t, "dev tun\nca a\ncert b\nkey c\nserver 10.8.0.0 255.255.255.0\n")
	if f := find(findings, "server"); f.Verdict != Honoured || !strings.Contains(f.Why, "net30") {
		t.Errorf("%v", f)
	}
}

func TestRoutes(t *testing.T) {
	s := usable(t, minimal+`server-ipv6 fd00::/64
route-metric 50
route 10.1.0.0 255.255.0.0
route 192.0.2.7
route 10.2.0.0 255.255.0.0 10.8.0.9 7
route 10.3.0.0 255.255.0.0 vpn_gateway default
route 10.4.0.0 default net_gateway
route-ipv6 fd01::/48
route-ipv6 fd02::/48 fd00::7 9
`)
	want := "10.1.0.0/16 invalid IP 50 false|192.0.2.7/32 invalid IP 50 false|10.2.0.0/16 10.8.0.9 7 false|10.3.0.0/16 invalid IP 50 false|" +
		"10.4.0.0/32 invalid IP 50 true|fd01::/48 invalid IP 50 false|fd02::/48 fd00::7 9 false"
	var got []string
	for _, r := range s.Routes {
		got = append(got, fmt.Sprint(r.Prefix, " ", r.Gateway, " ", r.Metric, " ", r.Direct))
	}
	if strings.Join(got, "|") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "|"), want)
	}
	s = usable(t, minimal+"route-gateway 10.8.0.9\nroute 10.1.0.0 255.255.0.0\nroute-noexec\n")
	if r := s.Routes[0]; r.Gateway != netip.MustParseAddr("10.8.0.9") || r.Metric != -1 || !s.Tunnel.RoutesNoExec {
		t.Errorf("%+v", r)
	}
}

func TestSettings(t *testing.T) {
	s := usable(t, minimal+`push "route 192.168.10.0 255.255.255.0"
push "redirect-gateway def1 bypass-dhcp"
keepalive 10 60
tcp-nodelay
multihome
mark 0x10
sndbuf 1000
rcvbuf 2000
tun-mtu 1400
max-clients 9
max-routes-per-client 3
client-config-dir ccd
ccd-exclusive
client-to-client
duplicate-cn
connect-freq 3 10
connect-freq-initial 5 7
explicit-exit-notify 2
ifconfig-pool-persist ipp.txt 0
tls-auth ta.key 0
auth sha256
tls-crypt-v2 v2.key force-cookie
tls-crypt-v2-max-age 30
data-ciphers ?AES-128-GCM:BF-CBC:DEFAULT
data-ciphers-fallback aes-256-gcm
reneg-sec 1000 500
reneg-bytes 9
reneg-pkts 8
hand-window 30
tran-window 40
tls-timeout 3
inactive 600 1000000
session-timeout 7200
crl-verify crls dir
remote-cert-tls client
remote-cert-ku 80 a0
remote-cert-eku 1.3.6.1.5.5.7.3.2
verify-x509-name client- name-prefix
x509-username-field serialNumber ext:subjectAltName
x509-track +SHA1
tls-version-min 1.2 or-highest
tls-version-max 1.3
tls-cipher TLS-ECDHE-RSA-WITH-AES-256-GCM-SHA384
tls-groups X25519:secp256r1
tls-cert-profile preferred
script-security 3
auth-user-pass-verify "/bin/check 'a b'" via-env
auth-user-pass-optional
username-as-common-name
verify-client-cert optional
auth-gen-token 3600 600 external-auth
auth-gen-token-secret token.key
tls-verify "/bin/v,x"
tls-crypt-v2-verify "/bin/v2"
client-connect "/bin/cc 1"
learn-address /bin/la
up "/bin/up x"
down-pre
setenv A "b c"
setenv-safe B d
management /run/m.sock unix pw
management-client-group adm
status s.log 10
status-version 3
log-append l.log
verb 4
mute 20
suppress-timestamps
writepid p.pid
cd /etc/ovpn
`)
	for name, pair := range map[string][2]any{
		"push":           {pushed(s), "route 192.168.10.0 255.255.255.0,redirect-gateway def1 bypass-dhcp,route-gateway 10.8.0.1,topology subnet,ping 10,ping-restart 60,socket-flags TCP_NODELAY"},
		"ping":           {[]time.Duration{s.Ping, s.PingRestart}, []time.Duration{10 * time.Second, 120 * time.Second}},
		"socket":         {s.Socket, Socket{true, 16, 1000, 2000}},
		"tunnel":         {s.Tunnel, Tunnel{MTU: 1400, MTUMax: 1600, MaxPacket: 1250, MSSFix: MSSFix{MSSFixFixed, 1400}}},
		"clients":        {s.Clients, Clients{Max: 9, MaxRoutes: 3, ConfigDir: "/etc/ovpn/ccd", ConfigExclusive: true, ToClient: true, DuplicateCN: true, Connect: Frequency{3, 10 * time.Second}, Initial: Frequency{5, 7 * time.Second}, ExitNotify: 2}},
		"persist off":    {s.PoolPersist.File, ""}, // duplicate-cn
		"wrap":           {[]any{s.Wrap.Mode, s.Wrap.Key.Path, s.Wrap.Direction, s.Wrap.Digest, s.Wrap.V2.Path, s.Wrap.V2ForceCookie, s.Wrap.V2MaxAge, s.Wrap.V2Verify}, []any{WrapTLSAuth, "/etc/ovpn/ta.key", Normal, "SHA256", "/etc/ovpn/v2.key", true, 30 * 24 * time.Hour, Command{"/bin/v2"}}},
		"data":           {s.Data, Data{[]aead.Cipher{aead.AES128GCM, aead.AES256GCM, aead.ChaCha20Poly1305}, aead.AES256GCM}},
		"reneg":          {[]any{s.RenegMax, s.RenegMin, s.RenegBytes, s.RenegPackets}, []any{1000 * time.Second, 500 * time.Second, int64(9), int64(8)}},
		"windows":        {[]any{s.HandWindow, s.TranWindow, s.TLSTimeout}, []any{30 * time.Second, 40 * time.Second, 3 * time.Second}},
		"ends":           {[]any{s.Inactive, s.InactiveBytes, s.SessionTimeout}, []any{600 * time.Second, int64(1000000), 7200 * time.Second}},
		"crl":            {[]any{s.Peers.CRL.Path, s.Peers.CRLDir}, []any{"/etc/ovpn/crls", true}},
		"purpose":        {[]any{s.Peers.RemoteCertTLS, s.Peers.RemoteKU, s.Peers.RemoteEKU}, []any{"client", []uint16{0x80, 0xa0}, "1.3.6.1.5.5.7.3.2"}},
		"name":           {[]any{s.Peers.Name, s.Peers.NameType}, []any{"client-", NameWithPrefix}},
		"fields":         {s.Peers.UsernameFields, []string{"serialNumber", "ext:subjectAltName"}},
		"track":          {s.Peers.Track, []X509Track{{"SHA1", true}}},
		"tls":            {[]any{s.TLS.MinVersion, s.TLS.MaxVersion, s.TLS.Ciphers, s.TLS.Groups, s.TLS.CertProfile}, []any{uint16(tls.VersionTLS12), uint16(tls.VersionTLS13), []string{"TLS-ECDHE-RSA-WITH-AES-256-GCM-SHA384"}, []string{"X25519", "secp256r1"}, "preferred"}},
		"auth":           {[]any{s.Auth.Verify, s.Auth.ViaFile, s.Auth.Optional, s.Auth.UsernameAsCN, s.Peers.ClientCert}, []any{Command{"/bin/check", "a b"}, false, true, true, CertOptional}},
		"token":          {[]any{s.Auth.Token.Enabled, s.Auth.Token.Lifetime, s.Auth.Token.Renewal, s.Auth.Token.External, s.Auth.Token.Secret.Path}, []any{true, time.Hour, 10 * time.Minute, true, "/etc/ovpn/token.key"}},
		"commands":       {[]Command{s.Peers.Verify, s.Scripts.ClientConnect, s.Scripts.LearnAddress, s.Scripts.Up}, []Command{{"/bin/v", "x"}, {"/bin/cc", "1"}, {"/bin/la"}, {"/bin/up", "x"}}},
		"down-pre":       {s.Scripts.DownPre, true},
		"env":            {s.Scripts.Env, []EnvVar{{"A", "b c"}, {"OPENVPN_B", "d"}}},
		"management":     {[]any{s.Management.Enabled, s.Management.Unix, s.Management.Password, s.Management.Group}, []any{true, "/run/m.sock", "/etc/ovpn/pw", "adm"}},
		"status":         {s.Status, Status{"/etc/ovpn/s.log", 10 * time.Second, 3}},
		"log":            {s.Log, Log{File: "/etc/ovpn/l.log", Append: true, Verb: 4, Mute: 20, SuppressTimestamps: true}},
		"process":        {s.Process, Process{WritePID: "/etc/ovpn/p.pid", Cd: "/etc/ovpn"}},
		"paths with cd":  {[]string{s.Peers.CA.Path, s.TLS.Cert.Path, s.TLS.Key.Path}, []string{"/etc/ovpn/ca.crt", "/etc/ovpn/s.crt", "/etc/ovpn/s.key"}},
		"line of option": {s.Line("verb").Position(), "server.conf:72"},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("%s: %+v, want %+v", name, pair[0], pair[1])
		}
	}
}

func TestInline(t *testing.T) {
	s := usable(t, `dev tun
server 10.8.0.0 255.255.255.0
<ca>
CA 1
</ca>
<cert>
CERT
</cert>
<key>
KEY
</key>
key-direction 0
<tls-auth>
TA
</tls-auth>
<crl-verify>
CRL
</crl-verify>
<peer-fingerprint>
# two of them

`+strings.Repeat("AB:", 31)+`cd
`+strings.Repeat("00", 32)+`
</peer-fingerprint>
`)
	for name, pair := range map[string][2]string{
		"ca": {string(s.Peers.CA.Inline), "CA 1\n"}, "cert": {string(s.TLS.Cert.Inline), "CERT\n"}, "key": {string(s.TLS.Key.Inline), "KEY\n"},
		"tls-auth": {string(s.Wrap.Key.Inline), "TA\n"}, "crl": {string(s.Peers.CRL.Inline), "CRL\n"},
		"direction":    {fmt.Sprint(s.Wrap.Mode, s.Wrap.Direction), fmt.Sprint(WrapTLSAuth, Normal)},
		"fingerprints": {fmt.Sprintf("%d %x", len(s.Peers.Fingerprints), s.Peers.Fingerprints[0][30:]), "2 abcd"},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: %q, want %q", name, pair[0], pair[1])
		}
	}
	if b, err := s.TLS.Key.Load(); err != nil || string(b) != "KEY\n" {
		t.Errorf("load: %q, %v", b, err)
	}
	if s.TLS.Key.Line.Inline != nil {
		t.Error("the key is kept a second time with its line")
	}
}

func TestInlineReplacesFile(t *testing.T) {
	s := usable(t, minimal+"tls-auth [inline] 0\n<tls-auth>\nTA\n</tls-auth>\n")
	if s.Wrap.Key.Path != "" || string(s.Wrap.Key.Inline) != "TA\n" || s.Wrap.Direction != Normal {
		t.Errorf("%+v", s.Wrap)
	}
}

func TestXDPOptions(t *testing.T) {
	s := usable(t, minimal+`ignore-unknown-option xdp-nic xdp-mode xdp-queues xdp-block-client-to-client
xdp-nic eth0 eth1
xdp-nic eth2
xdp-mode xdp
xdp-queues 0,2-3
xdp-ring-size 512
xdp-prefetch 0
xdp-name gw
xdp-no-udp-gro
xdp-block-client-to-client
`)
	run, err := s.Gateway(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := config.Defaults()
	if !slices.Equal(run.NICs, []string{"eth0", "eth1", "eth2"}) || !slices.Equal(run.Queues, []int{0, 2, 3}) {
		t.Errorf("NICs %q, queues %v", run.NICs, run.Queues)
	}
	if run.Mode != config.ModeXDP || run.RingSize != 512 || run.Prefetch != 0 || run.Name != "gw" || !run.NoUDPGRO || run.NoUDPGSO {
		t.Errorf("%+v", run)
	}
	if run.Batch != want.Batch || run.Workers != want.Workers || run.StateDir != want.StateDir || run.RunDir != want.RunDir || run.PinDir != want.PinDir {
		t.Errorf("what is not given differs from the defaults: %+v", run)
	}
	if !s.Clients.BlockToClient {
		t.Error("xdp-block-client-to-client has no effect")
	}
}

// The options of Debian's units in front of a file, one of them also in it.
func TestCommandLineOfUnits(t *testing.T) {
	dir := write(t, map[string]string{"i.conf": minimal + "status other.log\nverb 3\n"})
	lines, err := FromArgs([]string{"--cd", dir, "--status", "/run/openvpn-server/status-i.log", "10", "--status-version", "2", "--suppress-timestamps", "--config", "i.conf"})
	if err != nil {
		t.Fatal(err)
	}
	s, findings := Check(lines)
	if !Usable(findings) {
		t.Errorf("%v", findings)
	}
	// The last one wins, as with OpenVPN.
	if want := (Status{dir + "/other.log", 10 * time.Second, 2}); s.Status != want {
		t.Errorf("status %+v, want %+v", s.Status, want)
	}
	if !s.Log.SuppressTimestamps || s.Log.Verb != 3 {
		t.Errorf("log %+v", s.Log)
	}
}
