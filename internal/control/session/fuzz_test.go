// SPDX-License-Identifier: Apache-2.0

package session

import (
	"crypto/tls"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wire"
)

// phases are states of a server session that FuzzDatagram starts from.
var phases = []func(p *pair){
	func(p *pair) {}, // nothing came so far
	func(p *pair) { // reset answered
		p.server.Datagram(forge(7, 0, wire.Body{}), p.now)
		p.server.Outgoing()
	},
	func(p *pair) { // ClientHello answered
		p.drop = func(fromClient bool, b []byte) bool { return !fromClient && b[0]>>3 == wire.ControlV1 }
		p.exchange()
	},
	func(p *pair) { // waits for Answer
		p.server.hold = true
		p.exchange()
	},
	func(p *pair) { p.exchange() }, // established
	func(p *pair) { // soft reset sent
		p.exchange()
		p.server.Renegotiate(p.now)
		p.server.Outgoing()
	},
	func(p *pair) { // renegotiation waits for Answer
		p.exchange()
		p.server.hold = true
		p.client.Renegotiate(p.now)
		p.exchange()
	},
}

// FuzzDatagram feeds a server session datagrams after each phase. The input is
// a row of datagrams, each behind a byte with its length; session ids are put
// in where they belong, since no fuzzer would guess them.
func FuzzDatagram(f *testing.F) {
	row := func(packets ...[]byte) (b []byte) {
		for _, p := range packets {
			b = append(append(b, byte(len(p))), p...)
		}
		return b
	}
	hello := []byte{22, 3, 1, 0, 5, 1, 0, 0, 1, 0}
	for phase := range phases {
		f.Add(uint8(phase), row(forge(7, 0, wire.Body{}), forge(4, 0, wire.Body{ID: 1, Payload: hello})))
		f.Add(uint8(phase), row(forge(3, 1, wire.Body{}), forge(4, 1, wire.Body{ID: 1, Payload: hello})))
		f.Add(uint8(phase), row(forge(4, 0, wire.Body{ID: 5, Payload: []byte{21, 3, 3, 0, 2, 1, 0}}),
			forge(5, 0, wire.Body{NAcks: 4, Acks: [8]uint32{3, 2, 1, 0}})))
		f.Add(uint8(phase), row(forge(10, 0, wire.Body{}), forge(11, 0, wire.Body{ID: 1}), forge(8, 0, wire.Body{})))
	}
	f.Fuzz(func(t *testing.T, phase uint8, input []byte) {
		p := newPair(t, options{version: []uint16{tls.VersionTLS13, tls.VersionTLS12}[phase>>7]})
		phases[int(phase&0x7f)%len(phases)](p)
		for len(input) > 0 {
			n := min(1+int(input[0]), len(input))
			b := append([]byte(nil), input[1:n]...)
			input = input[n:]
			if len(b) > wire.HeaderLen {
				copy(b[1:], clientID[:])
				if acks := int(b[wire.HeaderLen]); acks > 0 && len(b) >= wire.HeaderLen+1+4*acks+8 {
					copy(b[wire.HeaderLen+1+4*acks:], serverID[:])
				}
			}
			p.server.Datagram(b, p.now)
			p.server.act(p.now)
			if got := p.server.keeps(); got > 4*maxHandshake {
				t.Fatalf("keeps %d bytes", got)
			}
			if next := p.server.Next(); !next.IsZero() && !next.After(p.now) {
				t.Fatalf("busy loop: %v at %v", next, p.now)
			}
			p.now = p.now.Add(time.Second)
			p.server.Tick(p.now)
			p.server.act(p.now)
		}
		p.server.Close()
		p.client.Close()
	})
}
