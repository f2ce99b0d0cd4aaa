// SPDX-License-Identifier: Apache-2.0

package ovpnconf

import "slices"

func clientSideOptions() []OptionDoc {
	t := TopicClient
	const client = "the gateway is a server, and this is a client's option"
	return slices.Concat(
		refused(t, client, "use a server's configuration", "client", "pull", "remote", "nobind", "connection", "auth-user-pass", "http-proxy", "socks-proxy"),
		refused(t, "stock refuses it on a server too", `write push "redirect-gateway def1"`, "redirect-gateway"),
		refused(t, "stock refuses it on a server too", `write push "redirect-private"`, "redirect-private"),
		refused(t, "it would keep IPv6 of clients out of the tunnel, which the gateway does not do", `write push "block-ipv6" for clients, and use the host's firewall (nftables)`, "block-ipv6"),
		ignored(t, `it is for clients; push "..." tells them`, "dhcp-option", "dns", "register-dns", "block-outside-dns", "route-nopull", "pull-filter", "client-nat", "route-delay",
			"allow-recursive-routing", "allow-pull-fqdn"),
		ignored(t, "it is for clients", "remote-random", "remote-random-hostname", "proto-force", "rport", "resolv-retry", "preresolve", "ip-remote-hint", "connect-retry",
			"connect-retry-max", "connect-timeout", "server-poll-timeout", "http-proxy-option", "http-proxy-retry", "http-proxy-timeout", "http-proxy-user-pass",
			"http-proxy-override", "socks-proxy-retry", "auth-retry", "auth-nocache", "auth-token", "auth-token-user", "override-username", "static-challenge", "push-peer-info", "dns-updown",
			"foreign-option", "push-continuation", "protocol-flags", "key-derivation", "peer-id"),
	)
}

func platformOptions() []OptionDoc {
	t := TopicPlatform
	return slices.Concat(
		ignored(t, "it is for Windows", "ip-win32", "route-method", "tap-sleep", "dhcp-renew", "dhcp-release", "dhcp-pre-release", "show-net-up", "pause-exit", "service",
			"win-sys", "windows-driver", "msg-channel", "allow-nonadmin", "dhcp-internal", "rdns-internal"),
		ignored(t, "TLS and certificates are checked by Go's own code, without OpenSSL", "engine", "providers"),
		ignored(t, "it is for debugging OpenVPN", "gremlin", "memstats"),
		refused(t, "keys are read from files", "use cert and key", "cryptoapicert", "pkcs11-id", "pkcs11-id-management", "pkcs11-providers", "pkcs11-cert-private", "pkcs11-pin-cache",
			"pkcs11-private-mode", "pkcs11-protected-authentication"),
		refused(t, "OpenVPN removed it", "remove it", "compat-names", "no-name-remapping", "inetd", "mtu-dynamic"),
		refused(t, "it is a command of its own, not a setting", "run `openvpn --...` for it, or `ovpn-xdp --help`", "help", "version", "genkey", "mktun", "rmtun", "test-crypto",
			"show-adapters", "show-ciphers", "show-curves", "show-digests", "show-engines", "show-gateway", "show-groups", "show-net", "show-pkcs11-ids", "show-tls", "show-valid-subnets"),
	)
}
