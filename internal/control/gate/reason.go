// SPDX-License-Identifier: Apache-2.0

package gate

// Reasons of Drop, as operators read them.
const (
	ReasonRate      = "more resets than connect-freq-initial allows from one prefix"
	ReasonAuth      = "wrong key: the client's tls-auth or tls-crypt key, key-direction or auth is not the server's"
	ReasonWKC       = "wrong key: the client's tls-crypt-v2 key was not made with the server's"
	ReasonMalformed = "malformed control packet"
	ReasonPlain     = "malformed control packet: truncated, or of a client with tls-auth or tls-crypt, which the server does not use"
	ReasonShort     = "control packet too short: truncated, or of a client without the tls-auth or tls-crypt that the server uses"
	ReasonNoSession = "no session: the packet belongs to one that has ended, or its cookie is too old"
	ReasonWrapping  = "unwrapped or tls-auth/tls-crypt client, but the server takes tls-crypt-v2 only"
	ReasonNoV2      = "tls-crypt-v2 client, but the server has no tls-crypt-v2 key"
	ReasonCookie    = "tls-crypt-v2 client without cookie support (before 2.6), which force-cookie refuses"
	ReasonNonCookie = "too many half-open tls-crypt-v2 clients without cookie support in one prefix"
)
