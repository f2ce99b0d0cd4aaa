// SPDX-License-Identifier: Apache-2.0

// Package engine moves packets. Inward, a source (an AF_XDP ring or a UDP
// socket) yields bursts of records; Opener coalesces, opens and commits them;
// inner checks what came out and writes super-packets to the TUN. Outward, a
// worker per TUN queue reads super-packets, routes, reserves ids, segments,
// seals and sends.
//
// Each source and each TUN queue has one goroutine locked to one thread, which
// does its direction from end to end: no channel, pool or second owner stands
// between network and TUN, and nothing is allocated per burst. Records on TCP
// connections go through the same code, called by the threads of pkg/tcp.
//
// Every record taken from a source ends in exactly one counter:
//
//	ring + socket + stream = delivered + keepalive + c2c + sum of inward drops + in flight
//
// where c2c are packets that one peer sent to another and that an outward worker
// took over without the TUN between; it seals or drops each of them.
//
//	opener.go   coalesce, open, commit: records in, plaintext out
//	inner.go    keepalive, source check, MSS, inner GRO, TUN write
//	ring.go     AF_XDP source
//	socket.go   UDP source, also for what the rings' programs passed
//	stream.go   TCP source
//	control.go  what is no record: to and from the control channel
//	c2c.go      packets from one peer to another
//	switch.go   moving between the two without loss
//	outward.go  TUN read to seal
//	area.go     sealed runs and their sending
package engine
