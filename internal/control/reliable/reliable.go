// SPDX-License-Identifier: Apache-2.0

// Package reliable is the reliability layer of the OpenVPN control channel: it
// makes an ordered stream of numbered messages out of datagrams that get lost,
// doubled and overtaken. A key state has one Sender and one Receiver; message
// ids start at 0 with the reset that opens the key state and go up by one.
//
// The package has no I/O and no clock; time comes in as time.Time. Its types
// are not safe for concurrent use. What they hold is bounded by the windows
// below.
package reliable

const (
	// SendWindow is how many ids a Sender uses from the oldest one that is not
	// acknowledged on; stock OpenVPN's TLS_RELIABLE_N_SEND_BUFFERS.
	SendWindow = 6
	// ReceiveWindow is how many ids a Receiver takes from the one that it waits
	// for on; stock OpenVPN's TLS_RELIABLE_N_REC_BUFFERS.
	ReceiveWindow = 12
	// MaxAcks is how many acknowledgements go into one packet. Stock OpenVPN
	// reads up to 8, but SoftEther drops packets with more than 4, and stock
	// itself puts no more than 4 into packets that carry a message.
	MaxAcks = 4
	// maxPending bounds acknowledgements that were not sent yet: a whole
	// receive window and a few repeats of older ids. What does not fit is
	// acknowledged when the peer sends it again.
	maxPending = 16
	// laterAcks is how many acknowledgements of later messages mark a message
	// as lost before its time is over; stock OpenVPN's N_ACK_RETRANSMIT.
	laterAcks = 3
)
