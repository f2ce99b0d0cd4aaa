// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
)

// opensslSuites are OpenSSL's names of the TLS 1.2 suites that crypto/tls has.
var opensslSuites = map[string]uint16{
	"ECDHE-ECDSA-AES128-GCM-SHA256": tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
	"ECDHE-ECDSA-AES256-GCM-SHA384": tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
	"ECDHE-ECDSA-CHACHA20-POLY1305": tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
	"ECDHE-RSA-AES128-GCM-SHA256":   tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	"ECDHE-RSA-AES256-GCM-SHA384":   tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	"ECDHE-RSA-CHACHA20-POLY1305":   tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
	"ECDHE-ECDSA-AES128-SHA":        tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA,
	"ECDHE-ECDSA-AES256-SHA":        tls.TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA,
	"ECDHE-RSA-AES128-SHA":          tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA,
	"ECDHE-RSA-AES256-SHA":          tls.TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA,
}

// cipherSuites finds suites by OpenSSL's, OpenVPN's or IANA's names. Names that
// crypto/tls doesn't have are left out; if none remains it is an error.
func cipherSuites(names []string) (ids []uint16, err error) {
	for _, name := range names {
		if strings.ContainsAny(name, "!+@") || name == "DEFAULT" || name == "HIGH" {
			continue // classes and exclusions of OpenSSL: the default has neither weak nor anonymous suites
		}
		if id, ok := suite(name); ok && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if plain := slices.ContainsFunc(names, func(n string) bool { return n == "DEFAULT" || n == "HIGH" }); plain {
		return nil, nil
	}
	if len(names) > 0 && len(ids) == 0 {
		return nil, fmt.Errorf("tls-cipher: none of %s is to be had; suites need ECDHE", strings.Join(names, ":"))
	}
	return ids, nil
}

func suite(name string) (uint16, bool) {
	if id, ok := opensslSuites[strings.TrimPrefix(name, "TLS-")]; ok {
		return id, true
	}
	iana := strings.ReplaceAll(name, "-", "_")
	for _, s := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
		if s.Name == iana || strings.TrimSuffix(s.Name, "_SHA256") == iana {
			return s.ID, true
		}
	}
	return 0, false
}

var groupNames = map[string]tls.CurveID{
	"X25519": tls.X25519, "secp256r1": tls.CurveP256, "prime256v1": tls.CurveP256, "P-256": tls.CurveP256,
	"secp384r1": tls.CurveP384, "P-384": tls.CurveP384, "secp521r1": tls.CurveP521, "P-521": tls.CurveP521, "X25519MLKEM768": tls.X25519MLKEM768,
}

// groups finds key exchange groups by name; unknown ones are left out.
func groups(names []string) (ids []tls.CurveID, err error) {
	for _, n := range names {
		for known, id := range groupNames {
			if strings.EqualFold(known, n) && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	if len(names) > 0 && len(ids) == 0 {
		return nil, fmt.Errorf("tls-groups: none of %s is to be had", strings.Join(names, ":"))
	}
	return ids, nil
}
