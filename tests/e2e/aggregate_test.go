// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/record"
)

// recordOf is a good record of n bytes: its payload makes up for the headers.
func (x *injector) recordOf(n int) []byte {
	headers := record.Overhead + 28
	if x.inner.Addr().Is6() {
		headers += 20
	}
	x.number++
	return x.record(udpPacket(x.inner, x.sink.addr, numbered(x.number-1, n-headers)))
}

// TestSmallAggregates sends records as segmentation aggregates that fit into
// one UMEM chunk, over a veth that carries them whole. With generic XDP such an
// aggregate looks like one frame, whose first record's length is not that of
// the datagram. Every record has to be found, on every rung.
func TestSmallAggregates(t *testing.T) {
	long(t)
	for _, rung := range []string{"xdp-generic", "xdp", "tc", "socket"} {
		t.Run(rung, func(t *testing.T) {
			d := newBed(t, testlab.Veth{})
			g := d.runA(rung).start()
			to := newSink(t, d.a, netip.AddrPortFrom(innerA4, sinkPort))
			x4 := d.inject(g, 7, outerB4, innerB4, to)
			x6 := d.inject(g, 8, outerB6, netip.MustParseAddr("10.9.0.8"), to)
			var sent uint64
			for _, x := range []*injector{x4, x6} {
				conn := listenUDP(t, d.b, x.src)
				for _, run := range []struct{ records, size, last int }{
					{2, 300, 300}, {3, 90, 90}, {10, 100, 100}, {2, 600, 600}, {2, 90, 90},
					// The last one may be shorter.
					{3, 300, 90}, {2, 600, 61}, {10, 100, 99},
					// One alone is no aggregate.
					{1, 300, 300},
				} {
					for range 8 {
						var aggregate []byte
						x.number = sent
						for i := range run.records {
							n := run.size
							if i == run.records-1 {
								n = run.last
							}
							aggregate = append(aggregate, x.recordOf(n)...)
						}
						sent = x.number
						if _, _, err := conn.WriteMsgUDPAddrPort(aggregate, segmentMessage(run.size), x.dst); err != nil {
							t.Fatal(fmt.Errorf("send %+v: %w", run, err))
						}
					}
				}
			}
			to.exactly(t, 0, sent)
			s := g.settled()
			in := &s.Totals.In
			if in.Delivered != sent || len(in.Drops) != 0 || in.Steered+in.Socket != sent {
				t.Errorf("sent %d records: %+v", sent, in)
			}
			for _, p := range s.Peers {
				if p.LinkIn.Records != sent/2 {
					t.Errorf("peer %d has %d records, want %d", p.ID, p.LinkIn.Records, sent/2)
				}
			}
			g.stop()
		})
	}
}
