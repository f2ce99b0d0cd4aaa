// SPDX-License-Identifier: Apache-2.0

package ovpnconf

import (
	"strings"
	"testing"
)

// Servers as they are found in the field, by the options of OpenVPN's sample
// configuration, of Debian's, and of common installers.
func TestSampleConfigurations(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		ignored    string // options, in order
		refused    string
	}{
		{name: "sample of 2.6", text: `
;local a.b.c.d
port 1194
;proto tcp
proto udp
;dev tap
dev tun
;dev-node MyTap
ca ca.crt
cert server.crt
key server.key  # This file should be kept secret
dh dh2048.pem
topology subnet
server 10.8.0.0 255.255.255.0
ifconfig-pool-persist ipp.txt
;server-bridge 10.8.0.4 255.255.255.0 10.8.0.50 10.8.0.100
;push "route 192.168.10.0 255.255.255.0"
;client-config-dir ccd
;route 192.168.40.128 255.255.255.248
;learn-address ./script
;push "redirect-gateway def1 bypass-dhcp"
;push "dhcp-option DNS 208.67.222.222"
;client-to-client
;duplicate-cn
keepalive 10 120
;tls-auth ta.key 0 # This file is secret
;max-clients 100
;user openvpn
;group openvpn
persist-key
persist-tun
status openvpn-status.log
;log         openvpn.log
;log-append  openvpn.log
verb 3
;mute 20
explicit-exit-notify 1
`, ignored: "dh persist-key persist-tun"},
		{name: "sample of 2.6 with every option taken", text: `
local 192.0.2.1
port 1194
proto udp
dev tun
ca ca.crt
cert server.crt
key server.key
dh none
topology subnet
server 10.8.0.0 255.255.255.0
ifconfig-pool-persist ipp.txt
push "route 192.168.10.0 255.255.255.0"
push "route 192.168.20.0 255.255.255.0"
client-config-dir ccd
route 192.168.40.128 255.255.255.248
route 10.9.0.0 255.255.255.252
script-security 2
learn-address ./script
push "redirect-gateway def1 bypass-dhcp"
push "dhcp-option DNS 208.67.222.222"
client-to-client
duplicate-cn
keepalive 10 120
tls-auth ta.key 0
auth SHA256
max-clients 100
user openvpn
group openvpn
persist-tun
status openvpn-status.log
log-append  openvpn.log
verb 3
mute 20
explicit-exit-notify 1
`, ignored: "dh ifconfig-pool-persist user group persist-tun mute"},
		{name: "sample of 2.4 with its compression", text: `
port 1194
proto udp
dev tun
ca ca.crt
cert server.crt
key server.key
dh dh2048.pem
server 10.8.0.0 255.255.255.0
ifconfig-pool-persist ipp.txt
keepalive 10 120
tls-auth ta.key 0
cipher AES-256-CBC
compress lz4-v2
push "compress lz4-v2"
comp-lzo
persist-key
persist-tun
status openvpn-status.log
verb 3
explicit-exit-notify 1
`, ignored: "dh cipher persist-key persist-tun", refused: "compress push comp-lzo"},
		{name: "tap sample", text: `
port 1194
proto tcp
dev tap
dev-node MyTap
ca ca.crt
cert server.crt
key server.key
dh dh2048.pem
server-bridge 10.8.0.4 255.255.255.0 10.8.0.50 10.8.0.100
keepalive 10 120
`, ignored: "dev-node dh", refused: "dev server-bridge"},
		{name: "installer script, EC keys and tls-crypt", text: `
port 1194
proto udp
dev tun
user nobody
group nogroup
persist-key
persist-tun
keepalive 10 120
topology subnet
server 10.8.0.0 255.255.255.0
ifconfig-pool-persist ipp.txt
push "dhcp-option DNS 94.140.14.14"
push "redirect-gateway def1 bypass-dhcp"
server-ipv6 fd42:42:42:42::/112
tun-ipv6
push tun-ipv6
push "route-ipv6 2000::/3"
push "redirect-gateway ipv6"
dh none
ecdh-curve prime256v1
tls-crypt tls-crypt.key
crl-verify crl.pem
ca ca.crt
cert server_x.crt
key server_x.key
auth SHA256
cipher AES-128-GCM
ncp-ciphers AES-128-GCM
tls-server
tls-version-min 1.2
tls-cipher TLS-ECDHE-ECDSA-WITH-AES-128-GCM-SHA256
client-config-dir /etc/openvpn/ccd
status /var/log/openvpn/status.log
verb 3
`, ignored: "user group persist-key persist-tun tun-ipv6 dh cipher"},
		{name: "PAM passwords without certificates", text: `
port 1194
proto udp
dev tun
ca ca.crt
cert s.crt
key s.key
dh none
server 10.8.0.0 255.255.255.0
verify-client-cert none
username-as-common-name
plugin /usr/lib/x86_64-linux-gnu/openvpn/plugins/openvpn-plugin-auth-pam.so openvpn
`, ignored: "dh", refused: "verify-client-cert username-as-common-name plugin"},
		{name: "the same, moved to the command", text: `
port 1194
proto udp
dev tun
ca ca.crt
cert s.crt
key s.key
server 10.8.0.0 255.255.255.0
verify-client-cert none
username-as-common-name
script-security 2
auth-user-pass-verify /usr/lib/ovpn-xdp/auth-pam via-file
`},
		{name: "net30 of old", text: `
dev tun
mode server
tls-server
topology net30
ifconfig 10.8.0.1 10.8.0.2
ifconfig-pool 10.8.0.4 10.8.0.251
route 10.8.0.0 255.255.255.0
push "route 10.8.0.1 255.255.255.255"
ca ca.crt
cert s.crt
key s.key
`, refused: "topology ifconfig"},
		{name: "one file for OpenVPN and this gateway", text: `
ignore-unknown-option xdp-nic xdp-mode xdp-queues
xdp-nic eth0
xdp-mode xdp
xdp-queues 0-3
dev tun
ca ca.crt
cert s.crt
key s.key
topology subnet
server 10.8.0.0 255.255.255.0
`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, findings := checkText(t, tc.text)
			var ignored, refused []string
			for _, f := range findings {
				switch f.Verdict {
				case Ignored:
					ignored = append(ignored, f.Line.Option)
				case Refused:
					refused = append(refused, f.Line.Option)
				}
			}
			if got := strings.Join(ignored, " "); got != tc.ignored {
				t.Errorf("ignored %q, want %q", got, tc.ignored)
			}
			if got := strings.Join(refused, " "); got != tc.refused {
				t.Errorf("refused %q, want %q", got, tc.refused)
			}
		})
	}
}
