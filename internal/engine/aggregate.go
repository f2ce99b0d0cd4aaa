// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"encoding/binary"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/record"
)

// maxIDStep is how far apart the packet ids of neighbours in an aggregate may
// be: what a receive window spans.
const maxIDStep = 2048

// segmentSize finds the length of the first record in an aggregate whose
// segment size was lost, 0 when b is one record.
//
// When UDP_GRO is switched off, aggregates that wait in the receive buffer are
// delivered whole and without their size. Records of one aggregate are of one
// peer and have ids close to each other, so the next record's header shows
// where the first ends. Ciphertext looks like one by chance once in 2^38
// records of 1,400 bytes, and then that record fails to authenticate, no more.
func segmentSize(b []byte) int {
	if len(b) < 2*record.MinLen {
		return 0
	}
	opcode, peer := b[0]&0xf8, b[1:record.HeaderLen]
	id := binary.BigEndian.Uint32(b[record.HeaderLen:])
	for at := record.MinLen; at+record.MinLen <= len(b); at++ {
		i := bytes.Index(b[at+1:], peer)
		if i < 0 {
			return 0
		}
		at += i
		if at+record.MinLen > len(b) {
			return 0
		}
		step := int32(binary.BigEndian.Uint32(b[at+record.HeaderLen:]) - id)
		if b[at]&0xf8 == opcode && step > -maxIDStep && step < maxIDStep {
			return at
		}
	}
	return 0
}
