// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// capture reads a pcap or pcapng file.
type capture struct {
	read     func() ([]byte, gopacket.CaptureInfo, error)
	linkType func(gopacket.CaptureInfo) layers.LinkType
}

// pcapngMagic is the type of a pcapng section header, the same in both byte
// orders.
const pcapngMagic = 0x0a0d0d0a

func openCapture(r io.Reader) (*capture, error) {
	b := bufio.NewReaderSize(r, 1<<20)
	magic, err := b.Peek(4)
	if err != nil {
		return nil, errors.New("read capture: too short for a pcap or pcapng file")
	}
	if binary.LittleEndian.Uint32(magic) == pcapngMagic {
		ng, err := pcapgo.NewNgReader(b, pcapgo.NgReaderOptions{WantMixedLinkType: true})
		if err != nil {
			return nil, fmt.Errorf("read capture: %w", err)
		}
		return &capture{
			read: ng.ZeroCopyReadPacketData,
			linkType: func(ci gopacket.CaptureInfo) layers.LinkType {
				i, err := ng.Interface(ci.InterfaceIndex)
				if err != nil {
					return layers.LinkTypeNull
				}
				return i.LinkType
			},
		}, nil
	}
	old, err := pcapgo.NewReader(b)
	if err != nil {
		return nil, fmt.Errorf("read capture: %w", err)
	}
	return &capture{
		read:     old.ZeroCopyReadPacketData,
		linkType: func(gopacket.CaptureInfo) layers.LinkType { return old.LinkType() },
	}, nil
}

// next returns the next packet, borrowed until the next call, without its
// link-layer header but with an EtherType: io.EOF at the end, errTruncated
// when the file breaks off inside a packet.
func (c *capture) next() (link layers.LinkType, data []byte, at time.Time, err error) {
	data, ci, err := c.read()
	switch {
	case errors.Is(err, io.EOF) && len(data) == 0:
		return 0, nil, time.Time{}, io.EOF
	case errors.Is(err, io.ErrUnexpectedEOF):
		return 0, nil, time.Time{}, errTruncated
	case err != nil:
		return 0, nil, time.Time{}, fmt.Errorf("read capture: %w", err)
	}
	return c.linkType(ci), data, ci.Timestamp, nil
}

var errTruncated = errors.New("the capture breaks off inside a packet, as when tcpdump was killed")

// Link types without a name in gopacket (tcpdump.org/linktypes.html).
const (
	linkTypeSLL2 = layers.LinkType(276)
)

const etherLen = 14

// appendEthernet appends the packet as an Ethernet frame, whatever the
// capture's link type: what reads live frames then reads it too. ok is false
// for link types that carry no IP that it could find.
func appendEthernet(dst []byte, link layers.LinkType, data []byte) (frame []byte, ok bool) {
	var etherType uint16
	switch link {
	case layers.LinkTypeEthernet:
		return append(dst, data...), true
	case layers.LinkTypeRaw, layers.LinkTypeIPv4, layers.LinkTypeIPv6, 12, 14:
		etherType = etherTypeOf(data)
	case layers.LinkTypeNull, layers.LinkTypeLoop:
		if len(data) < 4 {
			return dst, false
		}
		data = data[4:]
		etherType = etherTypeOf(data)
	case layers.LinkTypeLinuxSLL:
		if len(data) < 16 {
			return dst, false
		}
		etherType, data = binary.BigEndian.Uint16(data[14:]), data[16:]
	case linkTypeSLL2:
		if len(data) < 20 {
			return dst, false
		}
		etherType, data = binary.BigEndian.Uint16(data), data[20:]
	}
	if etherType == 0 {
		return dst, false
	}
	dst = append(dst, make([]byte, etherLen-2)...)
	dst = binary.BigEndian.AppendUint16(dst, etherType)
	return append(dst, data...), true
}

func etherTypeOf(ip []byte) uint16 {
	if len(ip) == 0 {
		return 0
	}
	switch ip[0] >> 4 {
	case 4:
		return 0x0800
	case 6:
		return 0x86dd
	}
	return 0
}
