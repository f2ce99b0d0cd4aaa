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
	if len("UV_LONG="+env["UV_LONG"]) != 255 {
		t.Errorf("UV_LONG has %d bytes", len(env["UV_LONG"]))
	}
	for _, name := range []string{"X", "nonsense", "IV bad"} {
		if _, ok := env[name]; ok {
			t.Errorf("%q is in the environment", name)
		}
	}
}

// TestEnvAsStock has what OpenVPN 2.6.14 put into a script's environment for
// a client's UV_S.
func TestEnvAsStock(t *testing.T) {
	p := ParsePeerInfo("UV_S=a b$(c)`d`;e'f\"g&h|i<\u00e9>\\\nIV_SSL=OpenSSL 3.0.19 27 Jan 2026\n")
	if got := p.Env(); !slices.Equal(got, []Variable{{"UV_S", `a_b__c)_d_;e'f"g&h|i<__>\`}, {"IV_SSL", "OpenSSL_3.0.19_27_Jan_2026"}}) {
		t.Errorf("%q", got)
	}
}

// TestPeerInfoLies: numbers that are none count as 0, and lists end somewhere.
func TestPeerInfoLies(t *testing.T) {
	for _, bad := range []string{"-2", "99999999999999999999", "4294967296", "2x", ""} {
		p := ParsePeerInfo("IV_PROTO=" + bad + "\nIV_NCP=" + bad + "\nIV_MTU=" + bad)
		if p.Proto != 0 || p.NCP != 0 || p.MTU != 0 {
			t.Errorf("%q: %+v", bad, p)
		}
	}
	p := ParsePeerInfo("IV_CIPHERS=" + strings.Repeat("AES-256-GCM:", 5000) + "\nUV_" + strings.Repeat("X", 300) + "=1\n")
	if len(p.Ciphers) != maxAnnouncedCiphers || p.Ciphers[maxAnnouncedCiphers-1] != "AES-256-GCM" {
		t.Errorf("%d ciphers, the last is %.40q", len(p.Ciphers), p.Ciphers[len(p.Ciphers)-1])
	}
	if got := p.Env(); len(got) != 1 || got[0].Name != "IV_CIPHERS" {
		t.Errorf("a name of 303 bytes is in the environment: %d variables", len(got))
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
			if strings.ContainsFunc(v.Name+v.Value, func(r rune) bool { return r < '!' || r > '~' || r == '$' || r == '`' || r == '(' }) || len(v.Name+"="+v.Value) > maxEnvLine {
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
