// SPDX-License-Identifier: Apache-2.0

package keyex

import (
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
		"no negotiation at all":     {all, 0, "IV_PROTO=2\n", "cipher AES-128-GCM", aead.AES128GCM, ""},
		"fallback by name":          {all[2:], aead.AES256GCM, "IV_PROTO=2\n", "cipher AES-256-GCM", aead.AES256GCM, ""},
		"fallback without any":      {all, aead.AES256GCM, "IV_PROTO=2\n", "", aead.AES256GCM, ""},
		"only CBC":                  {all, 0, "IV_PROTO=6\nIV_CIPHERS=AES-256-CBC\n", "", 0, noSharedCipher},
		"CBC without negotiation":   {all, 0, "IV_PROTO=2\n", "cipher BF-CBC", 0, noSharedCipher},
		"nothing, no fallback":      {all, 0, "IV_PROTO=2\n", "", 0, noSharedCipher},
		"no DATA_V2":                {all, 0, "IV_CIPHERS=AES-256-GCM\n", "", 0, "This server needs DATA_V2 (OpenVPN 2.4 or later)"},
		"compression is configured": {all, 0, "IV_PROTO=6\nIV_CIPHERS=AES-256-GCM\n", "V4,comp-lzo,tls-client", 0, "Compression is not supported by this server, remove comp-lzo and compress from the client's configuration"},
		"able to compress only":     {all, 0, "IV_PROTO=6\nIV_CIPHERS=AES-256-GCM\nIV_LZO=1\nIV_COMP_STUB=1\n", "V4,tls-client", aead.AES256GCM, ""},
	} {
		p := ParsePeerInfo(v.info)
		got, err := NegotiateCipher(v.server, v.fallback, &p, v.options)
		if got != v.want || Told(err) != v.told || (err == nil) != (v.told == "") {
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
