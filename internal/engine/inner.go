// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/packet"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/peer"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/reason"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/record"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/tun"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/tun/vnet"
)

// inner takes what an Opener accepted: it swallows keepalives, checks the
// packets, merges neighbours into super-packets and writes them to the TUN, or
// hands them to another peer's outward worker. It belongs to one worker.
type inner struct {
	c       *InCounters
	gro     *vnet.GRO
	out     *tun.Writer
	offload *offload
	mss     uint16 // largest MSS to let pass for IPv4, 20 less for IPv6; 0 any

	opts   *vnet.Options // the GRO was set up for
	pieces [][]byte
	cross  cross
}

// newInner returns an inner that writes through w.
func newInner(c *InCounters, w *tun.Writer, o *offload, mss uint16, x cross) *inner {
	opts := o.opts.Load()
	return &inner{c: c, out: w, offload: o, mss: mss, opts: opts, cross: x,
		gro: vnet.NewGRO(*opts), pieces: make([][]byte, 0, 2+vnet.MaxPackets)}
}

// Opened takes one batch of plaintext; the bytes must stay until flush.
func (s *inner) Opened(p *peer.Peer, plain [][]byte) {
	var allowed netip.Addr // a source this peer was just found to own
	var to netip.Addr      // the last destination, and the other peer that has it
	var other *peer.Peer
	n, bytes, keepalive := 0, 0, 0
	for _, b := range plain {
		ip, ok := packet.ParseIP(b)
		if !ok {
			switch {
			case record.IsKeepalive(b):
				keepalive++
			case record.IsOCCExit(b):
				s.c.drop(reason.OCCExit, 1)
				p.Exit()
			default:
				s.c.drop(reason.BadInner, 1)
			}
			continue
		}
		if src, _ := packet.Source(b); src != allowed {
			if !p.AllowsSource(src) {
				s.c.drop(reason.SpoofedSource, 1)
				continue
			}
			allowed = src
		}
		if s.mss != 0 && ip.Protocol == packet.ProtoTCP {
			packet.ClampMSS(b, s.mss, false)
		}
		if s.cross.policy != C2CHost {
			if dst, _ := packet.Destination(b); dst != to {
				to, other = dst, p.Other(dst)
			}
			if other != nil {
				if s.cross.policy == C2CBlock {
					s.c.drop(reason.C2CBlocked, 1)
					continue
				}
				s.cross.add(other, b[:ip.TotalLen])
				n++
				bytes += len(b)
				continue
			}
		}
		if !s.gro.Add(b) { // more than a burst can hold: cannot happen
			s.c.drop(reason.NoMemory, 1)
			continue
		}
		n++
		bytes += len(b)
	}
	if keepalive > 0 {
		s.c.Keepalive.Add(uint64(keepalive))
	}
	if n > 0 {
		p.In.Add(n, bytes)
	}
}

// held returns how many packets wait for flush; vnet.Capacity is the most.
func (s *inner) held() int { return s.gro.Len() + s.cross.held }

// flush writes what Opened collected and forgets it.
func (s *inner) flush() {
	s.cross.flush(s.c)
	for i := range s.gro.Units() {
		var packets int
		s.pieces, packets = s.gro.Unit(i, s.pieces[:0])
		err := s.out.Write(s.pieces)
		if err != nil && packets > 1 && errors.Is(err, unix.EINVAL) {
			s.singles(i)
			continue
		}
		s.wrote(s.pieces, packets, err)
	}
	s.gro.Reset()
	if opts := s.offload.opts.Load(); opts != s.opts {
		s.gro.SetOptions(*opts)
		s.opts = opts
	}
}

// singles writes the packets of a refused super-packet one by one. When the
// kernel takes them, it was the offload that it refused.
func (s *inner) singles(unit int) {
	h, _ := vnet.Parse(s.pieces[0])
	refused := true
	s.gro.Singles(unit, s.pieces, func(pieces [][]byte) {
		err := s.out.Write(pieces)
		refused = refused && err == nil
		s.wrote(pieces, 1, err)
	})
	if refused {
		s.offload.refuse(h.GSOType == vnet.GSOUDPL4)
	}
}

// wrote accounts for one TUN write of so many packets.
func (s *inner) wrote(pieces [][]byte, packets int, err error) {
	s.c.Writes.Add(1)
	if err != nil {
		s.c.drop(reason.TunWrite, packets)
		return
	}
	bytes := -vnet.HeaderLen
	for _, b := range pieces {
		bytes += len(b)
	}
	s.c.Delivered.Add(uint64(packets))
	s.c.DelBytes.Add(uint64(bytes))
}
