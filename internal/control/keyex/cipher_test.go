// SPDX-License-Identifier: Apache-2.0

package keyex

import (
	"slices"
	"strings"
	"testing"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/aead"
)

func TestNegotiateCipher(t *testing.T) {
	all := []aead.Cipher{aead.AES256GCM, aead.AES128GCM, aead.ChaCha20Poly1305}
	for name, v := range map[string]struct {
		server   []aead.Cipher
		fallback aead.Cipher
		info     string
		options  string
		want     aead.Cipher
		told     string
	}{
		"server's order":            {all, 0, "IV_PROTO=6\nIV_CIPHERS=CHACHA20-POLY1305:AES-128-GCM\n", "", aead.AES128GCM, ""},
		"any case":                  {all, 0, "IV_PROTO=6\nIV_CIPHERS=aes-128-gcm\n", "", aead.AES128GCM, ""},
		"OpenSSL's own name":        {all, 0, "IV_PROTO=6\nIV_CIPHERS=id-aes128-GCM\n", "", aead.AES128GCM, ""},
		"a real 2.5 --ncp-disable":  {all, 0, "IV_PROTO=6\nIV_COMP_STUB=1\n", "V4,dev-type tun,link-mtu 1549,tun-mtu 1500,proto UDPv4,cipher AES-256-GCM,auth [null-digest],keysize 256,key-method 2,tls-client", aead.AES256GCM, ""},
		"2.4 announces no list":     {all[1:], 0, "IV_PROTO=2\nIV_NCP=2\n", "cipher BF-CBC", aead.AES128GCM, ""},
		"2.4 with another cipher":   {[]aead.Cipher{aead.AES192GCM}, 0, "IV_PROTO=2\nIV_NCP=2\n", "V4,cipher AES-192-GCM", aead.AES192GCM, ""},
		"2.4 and no common one":     {[]aead.Cipher{aead.AES192GCM}, 0, "IV_PROTO=2\nIV_NCP=2\n", "V4,cipher BF-CBC", 0, noSharedCipher},
		"a list, and its own":       {all[:1], 0, "IV_PROTO=6\nIV_CIPHERS=AES-128-GCM\n", "V4,cipher AES-128-GCM", 0, noSharedCipher},
		"no negotiation at all":     {all, 0, "IV_PROTO=2\n", "cipher AES-128-GCM", aead.AES128GCM, ""},
		"fallback by name":          {all[2:], aead.AES256GCM, "IV_PROTO=2\n", "cipher AES-256-GCM", aead.AES256GCM, ""},
		"fallback without any":      {all, aead.AES256GCM, "IV_PROTO=2\n", "", aead.AES256GCM, ""},
		"only CBC":                  {all, 0, "IV_PROTO=6\nIV_CIPHERS=AES-256-CBC\n", "", 0, noSharedCipher},
		"CBC without negotiation":   {all, 0, "IV_PROTO=2\n", "cipher BF-CBC", 0, noSharedCipher},
		"nothing, no fallback":      {all, 0, "IV_PROTO=2\n", "", 0, noSharedCipher},
		"no DATA_V2":                {all, 0, "IV_CIPHERS=AES-256-GCM\n", "", 0, "This server needs DATA_V2 (OpenVPN 2.4 or later)"},
		"compression is configured": {all, 0, "IV_PROTO=6\nIV_CIPHERS=AES-256-GCM\n", "V4,comp-lzo,tls-client", 0, "Compression is not supported by this server, remove comp-lzo and compress from the client's configuration"},
		"dev tap":                   {all, 0, "IV_PROTO=6\nIV_CIPHERS=AES-256-GCM\n", "V4,dev-type tap,tls-client", 0, "This server routes IP packets, write dev tun into the client's configuration"},
		"able to compress only":     {all, 0, "IV_PROTO=6\nIV_CIPHERS=AES-256-GCM\nIV_LZO=1\nIV_COMP_STUB=1\n", "V4,tls-client", aead.AES256GCM, ""},
	} {
		p := ParsePeerInfo(v.info)
		got, err := NegotiateCipher(v.server, v.fallback, &p, v.options)
		if got != v.want || Told(err) != v.told || (err == nil) != (v.told == "") {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// TestStockOptions has options strings that OpenVPN 2.5 to 2.7 clients send, named by
// what stands in their configurations: who has compression set up in any form is
// turned away, and nobody else.
func TestStockOptions(t *testing.T) {
	const list = "IV_PROTO=990\nIV_CIPHERS=AES-256-GCM:AES-128-GCM:CHACHA20-POLY1305\nIV_LZO_STUB=1\nIV_COMP_STUB=1\nIV_COMP_STUBv2=1\n"
	for name, v := range map[string]struct {
		options string
		want    aead.Cipher
	}{
		"nothing, compress migrate or allow-compression no": {"V4,dev-type tun,link-mtu 1541,tun-mtu 1500,proto UDPv4,auth SHA1,keysize 128,key-method 2,tls-client", aead.AES256GCM},
		"comp-lzo, comp-lzo no, compress or compress stub":  {"V4,dev-type tun,link-mtu 1542,tun-mtu 1500,proto UDPv4,comp-lzo,auth SHA1,keysize 128,key-method 2,tls-client", 0},
		"compress stub-v2":   {"V4,dev-type tun,link-mtu 1541,tun-mtu 1500,proto UDPv4,comp-lzo,auth SHA1,keysize 128,key-method 2,tls-client", 0},
		"cipher AES-256-GCM": {"V4,dev-type tun,link-mtu 1549,tun-mtu 1500,proto UDPv4,cipher AES-256-GCM,auth [null-digest],keysize 256,key-method 2,tls-client", aead.AES256GCM},
	} {
		p := ParsePeerInfo(list)
		if got, err := NegotiateCipher([]aead.Cipher{aead.AES256GCM}, 0, &p, v.options); got != v.want || (err != nil) != (v.want == 0) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// TestNegotiationReasonIsOneLine: what a client sends does not swell or break
// the log.
func TestNegotiationReasonIsOneLine(t *testing.T) {
	for _, v := range []struct{ info, options string }{
		{"IV_PROTO=6\nIV_CIPHERS=\x1b[2J\r" + strings.Repeat("x", 60_000), ""},
		{"IV_PROTO=6\n", "V4,cipher \n\x00" + strings.Repeat("x", 500)},
	} {
		p := ParsePeerInfo(v.info)
		_, err := NegotiateCipher([]aead.Cipher{aead.AES256GCM}, 0, &p, v.options)
		if err == nil {
			t.Fatal("a cipher was found")
		}
		if text := err.Error(); len(text) > 300 || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("%d bytes: %.80q", len(text), text)
		}
	}
}

// FuzzNegotiateCipher: one of the server's ciphers or the fallback comes out, or a
// reason for both sides that is harmless in a log and in a control message.
func FuzzNegotiateCipher(f *testing.F) {
	f.Add("IV_PROTO=6\nIV_CIPHERS=AES-128-GCM:AES-256-GCM\n", "V4,cipher AES-256-GCM,tls-client")
	f.Add("IV_PROTO=2\nIV_NCP=2\n", "V4,cipher AES-192-GCM")
	f.Add("IV_PROTO=2\n", "cipher id-aes256-GCM")
	f.Add("IV_PROTO=2\n", "comp-lzo")
	server := []aead.Cipher{aead.AES128GCM, aead.ChaCha20Poly1305}
	f.Fuzz(func(t *testing.T, info, options string) {
		p := ParsePeerInfo(info)
		got, err := NegotiateCipher(server, aead.AES256GCM, &p, options)
		if (got == 0) != (err != nil) || got != 0 && got != aead.AES256GCM && !slices.Contains(server, got) {
			t.Fatalf("%v, %v", got, err)
		}
		if err != nil && (Told(err) == "" || strings.ContainsFunc(err.Error()+Told(err), func(r rune) bool { return r < ' ' || r > '~' })) {
			t.Fatalf("told %q, reason %q", Told(err), err)
		}
	})
}
