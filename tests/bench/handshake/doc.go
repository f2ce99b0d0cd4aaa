// SPDX-License-Identifier: Apache-2.0

// Command handshake measures what a new client costs a server: this gateway and
// stock OpenVPN with the same server.conf, PKI and clients, in turns. The
// clients are made by this program, with the gateway's own client side of the
// control channel, and go through everything up to PUSH_REPLY.
//
//	go run ./tests/bench/handshake --binary bin/ovpn-xdp
//
// It reports handshakes per second, the server's processor time per
// handshake, and its resident memory per connected idle client. Server and clients
// share the machine's cores, so that the rates are what one machine does in all.
package main
