// SPDX-License-Identifier: Apache-2.0

// Package steer puts the BPF programs on a network device, so that the records
// of known peers reach AF_XDP sockets and everything else stays with the
// kernel's stack.
//
// Attach climbs down the ladder of rungs (zero-copy, native XDP, tc) until one
// works and returns an Attachment that steers nothing yet. Its owner fills in
// listeners and peers, starts readers on its sockets and then calls Accept. The
// way back is the mirror image: Accept(false), Settle, drain the sockets, Close.
//
// The package never evicts another program, and a killed process leaves no
// program running: XDP and tcx hold by links that end with the process, and a
// clsact filter, which does survive, passes everything once its heartbeat is
// stale. Map pins and the tc rung's veth pair may be left behind; the next
// Attach of the same gateway name and device replaces them.
//
// Everything acts in the network namespace of the calling thread. An Attachment
// must be closed in the namespace it was made in.
package steer
