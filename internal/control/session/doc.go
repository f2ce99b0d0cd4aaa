// SPDX-License-Identifier: Apache-2.0

// Package session is one OpenVPN control channel session, server or client: the
// reliability layer, a TLS connection for each key, the exchange of key method
// 2 messages over it, soft resets, and control messages.
//
// It is a pure machine without I/O and without a clock. The owner hands it
// datagrams and the time; it hands back datagrams, events and the time at which
// it wants to be called again. One exception is hidden inside: crypto/tls
// cannot go on with a handshake that met the end of its input, so each
// handshake that is under way runs in a coroutine of its own (iter.Pull), which
// ends with the handshake or with Close. Nothing runs while no method of the
// session does.
//
// A session has at most two key states: the established one, and a newer one
// that is being negotiated. When the newer one is established the older one is
// freed, so an idle session keeps one TLS connection. The owner keeps data
// channel keys for as long as it likes.
//
// What a peer can make a session keep is bounded: 12 messages that came early,
// maxHandshake bytes of a handshake, one TLS record, one key method message,
// MaxText bytes of an unfinished control message, and maxMessages control
// messages that the owner has not fetched.
package session
