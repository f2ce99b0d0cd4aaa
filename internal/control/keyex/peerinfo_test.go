// SPDX-License-Identifier: Apache-2.0

package keyex

import (
	"slices"
	"strings"
	"testing"
)

func TestPeerInfo(t *testing.T) {
	p := ParsePeerInfo("IV_VER=2.6.14\nIV_PLAT=linux\nIV_NCP=2\nIV_CIPHERS=AES-256-GCM:AES-128-GCM\nIV_PROTO=990\nIV_MTU=1600\nUV_ID=$(reboot) `x`\x01\nnonsense\nX=1\nIV bad=2\nUV_LONG=" + strings.Repeat("a", 300) + "\n")
	if p.Version != "2.6.14" || p.Platform != "linux" || p.NCP != 2 || p.MTU != 1600 || !slices.Equal(p.Ciphers, []string{"AES-256-GCM", "AES-128-GCM"}) {
		t.Errorf("%+v", p)
	}
	// What 2.6 announces: all of these and neither epoch keys nor push updates.
	if !p.Has(ProtoDataV2|ProtoRequestPush|ProtoTLSKeyExport|ProtoAuthPendingKW|ProtoDNSOption|ProtoCCExit|ProtoAuthFailTemp|ProtoDynTLSCrypt) || p.Has(ProtoDataEpoch) || p.Has(ProtoPushUpdate) {
		t.Errorf("protocol bits %d", p.Proto)
	}
	env := map[string]string{}
	for _, v := range p.Env() {
		env[v.Name] = v.Value
	}
	if env["UV_ID"] != "__reboot)__x__" {
		t.Errorf("UV_ID is %q", env["UV_ID"])
	}
	if len(env["UV_LONG"]) != 255 {
		t.Errorf("UV_LONG has %d bytes", len(env["UV_LONG"]))
	}
	for _, name := range []string{"X", "nonsense", "IV bad"} {
		if _, ok := env[name]; ok {
			t.Errorf("%q is in the environment", name)
		}
	}
}

func TestLargePeerInfo(t *testing.T) {
	p := ParsePeerInfo("IV_PROTO=6\n" + strings.Repeat("UV_A=b\n", 100_000))
	if p.Proto != 6 || len(p.Env()) > maxPeerInfoLines {
		t.Errorf("protocol bits %d, %d variables", p.Proto, len(p.Env()))
	}
}

func FuzzPeerInfo(f *testing.F) {
	f.Add("IV_VER=2.5\nIV_PROTO=6\nIV_CIPHERS=:::\n")
	f.Fuzz(func(t *testing.T, s string) {
		p := ParsePeerInfo(s)
		for _, v := range p.Env() {
			if strings.ContainsFunc(v.Name+v.Value, func(r rune) bool { return r < '!' || r > '~' || r == '$' || r == '`' || r == '(' }) || len(v.Value) > maxEnvValue {
				t.Fatalf("variable %q=%q", v.Name, v.Value)
			}
		}
	})
}

func TestEchoOptions(t *testing.T) {
	for in, want := range map[string]string{
		"V4,dev-type tun,link-mtu 1541,proto UDPv4,keydir 1,auth SHA1,tls-auth,key-method 2,tls-client": "V4,dev-type tun,link-mtu 1541,proto UDPv4,keydir 0,auth SHA1,tls-auth,key-method 2,tls-server",
		"keydir 0,tls-server": "keydir 1,tls-client",
		"":                    "",
	} {
		if got := EchoOptions(in); got != want {
			t.Errorf("%q becomes %q", in, got)
		}
	}
}

func FuzzOptions(f *testing.F) {
	f.Add("V4,keydir 1,cipher AES-256-GCM,tls-client")
	f.Fuzz(func(t *testing.T, s string) {
		if got := EchoOptions(EchoOptions(s)); got != s {
			t.Fatalf("%q echoed twice is %q", s, got)
		}
		Option(s, "cipher")
	})
}
