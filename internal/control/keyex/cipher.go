// SPDX-License-Identifier: Apache-2.0

package keyex

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/aead"
)

// NegotiationError says why there can be no data channel with a client.
type NegotiationError struct {
	// Told is for the client, behind AUTH_FAILED.
	Told string
	// Reason is for the log.
	Reason string
}

func (e *NegotiationError) Error() string { return e.Reason }

// Told returns what a client is told about an error of NegotiateCipher.
func Told(err error) string {
	if n, ok := errors.AsType[*NegotiationError](err); ok {
		return n.Told
	}
	return ""
}

const noSharedCipher = "Data channel cipher negotiation failed (no shared cipher)"

// NegotiateCipher returns the first of the server's ciphers that the client
// can do. options is the client's options string; fallback is for a client that
// tells of no cipher at all, 0: none. The error is a *NegotiationError.
func NegotiateCipher(server []aead.Cipher, fallback aead.Cipher, p *PeerInfo, options string) (aead.Cipher, error) {
	if _, ok := Option(options, "comp-lzo"); ok {
		return 0, &NegotiationError{Told: "Compression is not supported by this server, remove comp-lzo and compress from the client's configuration",
			Reason: "the client has comp-lzo or compress in its configuration: its packets have a framing that nobody here reads; remove both there"}
	}
	if kind, ok := Option(options, "dev-type"); ok && kind == "tap" {
		return 0, &NegotiationError{Told: "This server routes IP packets, write dev tun into the client's configuration",
			Reason: "the client has dev tap in its configuration, whose Ethernet frames nobody here reads; write dev tun there"}
	}
	if !p.Has(ProtoDataV2) {
		return 0, &NegotiationError{Told: "This server needs DATA_V2 (OpenVPN 2.4 or later)",
			Reason: "the client does not announce DATA_V2: it is older than OpenVPN 2.4, or has no pull or client in its configuration"}
	}
	theirs := p.Ciphers
	if len(theirs) == 0 && p.NCP >= 2 {
		// OpenVPN 2.4 takes these and the cipher of its configuration.
		theirs = []string{"AES-256-GCM", "AES-128-GCM"}
		if name, ok := Option(options, "cipher"); ok {
			theirs = append(theirs, name)
		}
	}
	if len(theirs) > 0 {
		for _, c := range server {
			if slices.ContainsFunc(theirs, func(name string) bool { return is(c, name) }) {
				return c, nil
			}
		}
		return 0, &NegotiationError{noSharedCipher, fmt.Sprintf("the client offers %s, the server's data-ciphers are %s", readable(strings.Join(theirs, ":")), names(server))}
	}
	// No negotiation: a client has the cipher of its configuration.
	if name, ok := Option(options, "cipher"); ok {
		for _, c := range server {
			if is(c, name) {
				return c, nil
			}
		}
		if fallback != 0 && is(fallback, name) {
			return fallback, nil
		}
		return 0, &NegotiationError{noSharedCipher, fmt.Sprintf("the client negotiates no cipher and has `cipher %s`, the server's data-ciphers are %s", readable(name), names(server))}
	}
	if fallback != 0 {
		return fallback, nil
	}
	return 0, &NegotiationError{noSharedCipher, "the client negotiates no cipher and names none; data-ciphers-fallback would set one"}
}

// is compares with a name that a client gave, in any case. id-aes256-GCM is
// OpenSSL's own name for AES-256-GCM, and so on.
func is(c aead.Cipher, name string) bool {
	name = strings.TrimSpace(name)
	if bits, ok := strings.CutPrefix(strings.ToLower(name), "id-aes"); ok {
		name = "AES-" + bits
	}
	parsed, err := aead.ParseCipher(name)
	return err == nil && parsed == c
}

// readable cuts what a client sent to the length of a log line, and writes `_`
// for what is not printable.
func readable(s string) string {
	const enough = 128
	if len(s) > enough {
		s = s[:enough] + "..."
	}
	return envValue(s)
}

func names(ciphers []aead.Cipher) string {
	var all []string
	for _, c := range ciphers {
		all = append(all, c.String())
	}
	return strings.Join(all, ":")
}
