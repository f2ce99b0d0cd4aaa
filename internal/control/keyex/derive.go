// SPDX-License-Identifier: Apache-2.0

package keyex

import (
	"crypto/hmac"
	"crypto/md5"
	"crypto/sha1"
	"crypto/subtle"
	"hash"
)

// Labels of RFC 5705 exporters, without context, of 256 bytes each.
const (
	// LabelDataKeys exports the data channel's keys.
	LabelDataKeys = "EXPORTER-OpenVPN-datakeys"
	// LabelDynamicTLSCrypt exports the key that wraps renegotiations.
	LabelDynamicTLSCrypt = "EXPORTER-OpenVPN-dynamic-tls-crypt"
	// LabelPeerID exports the peer id of point-to-point sessions, 3 bytes.
	LabelPeerID = "EXPORTER-OpenVPN-p2p-peerid"
)

// KeyBlockPRF derives the data channel's keys from both ends' messages and
// session ids, for peers without TLS exporters. It is the PRF of TLS 1.0.
func KeyBlockPRF(client, server *Message, clientID, serverID [8]byte) (block [256]byte) {
	master := make([]byte, preMasterLen)
	prf(master, client.PreMaster[:], "OpenVPN master secret", client.Random1[:], server.Random1[:])
	prf(block[:], master, "OpenVPN key expansion", client.Random2[:], server.Random2[:], clientID[:], serverID[:])
	clear(master)
	return block
}

// prf is P_MD5 of the first half of the secret XORed with P_SHA1 of the second
// (RFC 2246, section 5).
func prf(out, secret []byte, label string, seeds ...[]byte) {
	seed := []byte(label)
	for _, s := range seeds {
		seed = append(seed, s...)
	}
	half := (len(secret) + 1) / 2
	expand(out, secret[:half], seed, md5.New)
	other := make([]byte, len(out))
	expand(other, secret[len(secret)-half:], seed, sha1.New)
	subtle.XORBytes(out, out, other)
	clear(other)
}

// expand is P_hash.
func expand(out, secret, seed []byte, h func() hash.Hash) {
	mac := hmac.New(h, secret)
	next := func(parts ...[]byte) []byte {
		mac.Reset()
		for _, p := range parts {
			mac.Write(p)
		}
		return mac.Sum(nil)
	}
	for a := next(seed); len(out) > 0; a = next(a) {
		out = out[copy(out, next(a, seed)):]
	}
}
