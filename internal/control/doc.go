// SPDX-License-Identifier: Apache-2.0

// Package control is the OpenVPN control channel of a server. Service takes
// what is no data record, finds or makes the client's session, and lets that decide:
//
//	service.go    goroutines, timers, queues: all of them are here
//	runqueue.go   which session's turn it is
//	sessions.go   which sessions there are, and how they are found
//	halfopen.go   which of them are not authenticated yet
//	instance.go   one client's session: its inbox and its turns
//	auth.go       who is it? (question.go: asking commands about it)
//	connect.go    what does it get? client files, client-connect
//	admit.go      its peer, its key, its PUSH_REPLY
//	life.go       timers, messages, its end
//	books.go      what two clients could both want: addresses, names, routes
//	reload.go     a new configuration
//	report.go     what operators see
//
// The protocol itself is in packages without I/O and clock: wire, wrap, gate,
// reliable, session, keyex. Results go into a peer table; the data path is not known
// here.
package control
