// SPDX-License-Identifier: Apache-2.0

// Package udp is a listener socket that moves many datagrams per system call:
// recvmmsg with UDP_GRO inwards, sendmmsg with UDP_SEGMENT outwards. It knows
// the local address of each datagram and sends from a chosen one, so that a
// wildcard listener answers from the address it was asked at. It knows nothing
// of what the datagrams carry.
package udp
