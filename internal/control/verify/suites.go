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
// crypto/tls doesn't have are left out. Of expressions such as HIGH or ECDHE+AESGCM
// only exclusions of single suites are understood: for the others the suites with
// AEAD ciphers stand. nil means the default. If no suite remains it is an error.
func cipherSuites(names []string) (ids []uint16, err error) {
	var without []uint16
	for _, name := range names {
		if rest := strings.TrimLeft(name, "!-"); rest != name {
			if id, ok := suite(rest); ok {
				without = append(without, id)
			}
			continue
		}
		switch id, ok := suite(name); {
		case ok:
			ids = append(ids, id)
		case name == "DEFAULT" || slices.Contains(classes, name) || strings.Contains(name, "+"):
			ids = append(ids, aead()...)
		}
	}
	slices.Sort(ids) // the order is crypto/tls's own
	ids = slices.DeleteFunc(slices.Compact(ids), func(id uint16) bool { return slices.Contains(without, id) })
	if len(names) > 0 && len(ids) == 0 {
		return nil, fmt.Errorf("tls-cipher: none of %s is to be had; suites need ECDHE", strings.Join(names, ":"))
	}
	return ids, nil
}

// classes are OpenSSL's words for groups of suites that contain what crypto/tls has.
var classes = []string{"ALL", "HIGH", "TLSv1.2", "ECDHE", "EECDH", "kECDHE", "kEECDH", "ECDSA", "aECDSA", "RSA", "aRSA",
	"AES", "AES128", "AES256", "AESGCM", "CHACHA20", "SHA256", "SHA384", "SUITEB128", "SUITEB192"}

// aead are the suites of TLS 1.2 with forward secrecy and an AEAD cipher.
func aead() (ids []uint16) {
	for name, id := range opensslSuites {
		if strings.Contains(name, "GCM") || strings.Contains(name, "CHACHA20") {
			ids = append(ids, id)
		}
	}
	return ids
}

// suite finds one suite. Those with RSA key exchange have to be named; what is broken
// (RC4, 3DES) cannot be.
func suite(name string) (uint16, bool) {
	if id, ok := opensslSuites[strings.TrimPrefix(name, "TLS-")]; ok {
		return id, true
	}
	iana := strings.ReplaceAll(name, "-", "_")
	for _, s := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
		if strings.Contains(s.Name, "RC4") || strings.Contains(s.Name, "3DES") || !slices.Contains(s.SupportedVersions, tls.VersionTLS12) {
			continue
		}
		// OpenVPN's names end before the hash of CHACHA20's.
		if s.Name == iana || strings.Contains(s.Name, "CHACHA20") && strings.TrimSuffix(s.Name, "_SHA256") == iana {
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
