// SPDX-License-Identifier: Apache-2.0

// Package vnet turns super-packets into packets and packets into super-packets:
// it reads and writes the virtio-net header that a TUN device with IFF_VNET_HDR
// puts in front of every packet, segments what was read (Super), and merges what
// will be written (GRO). It has no file descriptors and allocates nothing on the
// way of a packet.
package vnet

import "encoding/binary"

// HeaderLen is the length in bytes of the legacy virtio-net header (struct
// virtio_net_hdr), the one that a TUN device uses unless told otherwise.
const HeaderLen = 10

// Header flags (VIRTIO_NET_HDR_F_*).
const (
	NeedsCsum = 1 // the checksum field holds only the pseudo header's sum
	DataValid = 2 // the checksum has been verified
)

// GSO types (VIRTIO_NET_HDR_GSO_*).
const (
	GSONone  = 0
	GSOTCPv4 = 1
	GSOTCPv6 = 4
	GSOUDPL4 = 5
	GSOECN   = 0x80 // with a TCP type: the first segment carries CWR
)

// Header is a virtio-net header. On the TUN its integers are little endian, which
// the device has to be told with TUNSETVNETLE: the default is the machine's order.
type Header struct {
	Flags      uint8
	GSOType    uint8
	HdrLen     uint16 // bytes of all headers; a hint, never to be trusted
	GSOSize    uint16 // payload bytes of every segment but the last
	CsumStart  uint16 // offset of the transport header
	CsumOffset uint16 // offset of the checksum field in the transport header
}

// Put writes the header to the first HeaderLen bytes of b, which must be there.
func (h Header) Put(b []byte) {
	_ = b[HeaderLen-1]
	b[0], b[1] = h.Flags, h.GSOType
	binary.LittleEndian.PutUint16(b[2:], h.HdrLen)
	binary.LittleEndian.PutUint16(b[4:], h.GSOSize)
	binary.LittleEndian.PutUint16(b[6:], h.CsumStart)
	binary.LittleEndian.PutUint16(b[8:], h.CsumOffset)
}

// Parse reads the header from the start of b. ok is false if b has fewer than
// HeaderLen bytes; the values are not judged.
func Parse(b []byte) (h Header, ok bool) {
	if len(b) < HeaderLen {
		return Header{}, false
	}
	return Header{
		Flags:      b[0],
		GSOType:    b[1],
		HdrLen:     binary.LittleEndian.Uint16(b[2:]),
		GSOSize:    binary.LittleEndian.Uint16(b[4:]),
		CsumStart:  binary.LittleEndian.Uint16(b[6:]),
		CsumOffset: binary.LittleEndian.Uint16(b[8:]),
	}, true
}
