// SPDX-License-Identifier: Apache-2.0

package ovpnconf

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/aead"
)

func TestClientFile(t *testing.T) {
	s := usable(t, minimal+"server-ipv6 fd00::/64\n")
	c, findings := ParseClient("ccd/alice", `# Alice
ifconfig-push 10.8.0.77 255.255.255.0
ifconfig-ipv6-push fd00::77/64
iroute 192.168.7.0 255.255.255.0
iroute 192.168.8.9
iroute-ipv6 fd07::/48
push "route 10.1.0.0 255.255.0.0"
inactive 60 100
ping 5
ping-exit 25
session-timeout 99
data-ciphers AES-128-GCM
data-ciphers-fallback AES-128-GCM
disable
`, s)
	for _, f := range findings {
		if f.Verdict != Honoured || f.Why != "" {
			t.Errorf("%v", f)
		}
	}
	got := fmt.Sprint(c.Disable, c.Address4, c.Address6, c.Gateway6, c.Routes, *c.Inactive, c.InactiveBytes, *c.Ping, *c.PingRestart, *c.SessionTimeout, c.Ciphers, c.Fallback)
	want := fmt.Sprint("true10.8.0.77/24 fd00::77/64 invalid IP [192.168.7.0/24 192.168.8.9/32 fd07::/48] ",
		time.Minute, " 100 ", 5*time.Second, " ", 25*time.Second, " ", 99*time.Second, " ", []aead.Cipher{aead.AES128GCM}, " ", aead.AES128GCM)
	if strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(want, " ", "") {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestClientRules(t *testing.T) {
	s := usable(t, minimal+"max-routes-per-client 2\n")
	for _, tc := range []struct {
		text, option string
		verdict      Verdict
		why          string
		address      string
	}{
		{"ifconfig-push 10.8.0.5 10.8.0.6", "ifconfig-push", Honoured, "net30 pair; the client gets 10.8.0.5 with 255.255.255.0", "10.8.0.5/24"},
		{"ifconfig-push 10.9.0.5 10.9.0.6", "ifconfig-push", Refused, "not in the tunnel's network", "invalid Prefix"},
		{"ifconfig-push 10.9.0.5 255.255.255.0", "ifconfig-push", Honoured, "a `route` for it is needed", "10.9.0.5/24"},
		{"ifconfig-push 10.8.0.1 255.255.255.0", "ifconfig-push", Refused, "gateway's own", "invalid Prefix"},
		{"ifconfig-push 10.8.0.255 255.255.255.0", "ifconfig-push", Honoured, "first or last", "10.8.0.255/24"},
		{"ifconfig-push alice 255.255.255.0", "ifconfig-push", Refused, "not an IPv4", "invalid Prefix"},
		{"ifconfig-push 10.8.0.9 24", "ifconfig-push", Refused, "not an IPv4", "invalid Prefix"},
		{"ifconfig-push 10.8.0.9 255.255.255.0 192.0.2.1", "ifconfig-push", Honoured, "alias", "10.8.0.9/24"},
		{"ifconfig-ipv6-push fd00::5/64", "ifconfig-ipv6-push", Refused, "server-ipv6", "invalid Prefix"},
		{"ifconfig-ipv6-push fd00::5/64 fd00::1", "ifconfig-ipv6-push", Honoured, "", "invalid Prefix"},
		{"ifconfig-ipv6-push fd00::5", "ifconfig-ipv6-push", Refused, "prefix length", "invalid Prefix"},
		{"iroute 192.168.7.5 255.255.255.0", "iroute", Honoured, "192.168.7.0/24 is meant", "invalid Prefix"},
		{"iroute 192.168.7.0 192.168.7.255", "iroute", Refused, "not a netmask", "invalid Prefix"},
		{"iroute 1.0.0.0 255.0.0.0\niroute 2.0.0.0 255.0.0.0\niroute 2.0.0.0 255.0.0.0\niroute-ipv6 fd00::/48", "iroute-ipv6", Refused, "max-routes-per-client", "invalid Prefix"},
		{"push \"a,b\"", "push", Refused, "comma", "invalid Prefix"},
		{"push-reset", "push-reset", Honoured, "gone too", "invalid Prefix"},
		{"comp-lzo no", "comp-lzo", Ignored, "not spoken", "invalid Prefix"},
		{"compress lz4", "compress", Refused, "not spoken", "invalid Prefix"},
		{"cipher AES-256-CBC", "cipher", Ignored, "negotiated", "invalid Prefix"},
		{"data-ciphers BF-CBC", "data-ciphers", Refused, "none of these", "invalid Prefix"},
		{"vlan-pvid 5", "vlan-pvid", Refused, "tap", "invalid Prefix"},
		{"verb 5", "verb", Refused, "server's configuration", "invalid Prefix"},
		{"route 10.0.0.0 255.0.0.0", "route", Refused, "server's configuration", "invalid Prefix"},
		{"irout 10.0.0.0 255.0.0.0", "irout", Refused, "did you mean iroute?", "invalid Prefix"},
		{"push \"open", "push", Refused, "quote", "invalid Prefix"},
		{"disable 1", "disable", Refused, "takes none", "invalid Prefix"},
	} {
		c, findings := ParseClient("ccd/x", tc.text, s)
		f := findings[len(findings)-1]
		if f.Line.Option != tc.option || f.Verdict != tc.verdict || !strings.Contains(f.Why+"; "+f.Remedy, tc.why) || tc.why == "" && f.Why != "" {
			t.Errorf("%q: %v, want %v with %q", tc.text, f, tc.verdict, tc.why)
		}
		if c.Address4.String() != tc.address {
			t.Errorf("%q: address %v, want %s", tc.text, c.Address4, tc.address)
		}
	}
}

func TestPushes(t *testing.T) {
	global := []Push{{Text: "route 10.1.0.0"}, {Text: "route-gateway 10.8.0.1"}, {Text: "dns 1"}}
	for text, want := range map[string]string{
		"":                            "route 10.1.0.0,route-gateway 10.8.0.1,dns 1",
		"push x":                      "route 10.1.0.0,route-gateway 10.8.0.1,dns 1,x",
		"push a\npush-reset\npush b":  "b",
		"push-remove \"route 10\"":    "route-gateway 10.8.0.1,dns 1",
		"push-remove route":           "dns 1",
		"push dns2\npush-remove dns":  "route 10.1.0.0,route-gateway 10.8.0.1",
		"push-remove dns\npush dns3":  "route 10.1.0.0,route-gateway 10.8.0.1,dns3",
		"push-remove nothing\npush y": "route 10.1.0.0,route-gateway 10.8.0.1,dns 1,y",
	} {
		c, _ := ParseClient("x", text, nil)
		if got := pushed(&Server{Push: c.Pushes(global)}); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	if got := pushed(&Server{Push: global}); got != "route 10.1.0.0,route-gateway 10.8.0.1,dns 1" {
		t.Errorf("the list for all became %s", got)
	}
}

func TestReadClient(t *testing.T) {
	dir := write(t, map[string]string{"bob": "iroute 10.7.0.0 255.255.0.0\n"})
	s := usable(t, minimal)
	c, findings, err := ReadClient(filepath.Join(dir, "bob"), s)
	if err != nil || len(c.Routes) != 1 || findings[0].Line.Position() != filepath.Join(dir, "bob")+":1" {
		t.Errorf("%+v, %v, %v", c, findings, err)
	}
	if _, _, err := ReadClient(filepath.Join(dir, "carol"), s); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	if _, _, err := ReadClient(dir, s); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("folder: %v", err)
	}
}
