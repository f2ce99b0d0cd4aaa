// SPDX-License-Identifier: Apache-2.0

// Package packet reads and writes the headers that the data path meets: the
// outer Ethernet, IP and UDP headers of a record, and the IP and TCP headers of
// the packet inside. It has no file descriptors, keeps nothing between calls and
// allocates nothing; every function may be called from any number of goroutines
// at once as long as the bytes they are given differ.
package packet

// Protocol numbers (IANA "Protocol Numbers"), as in the IPv4 protocol field and
// the IPv6 next header field.
const (
	ProtoHopByHop = 0
	ProtoICMP     = 1
	ProtoTCP      = 6
	ProtoUDP      = 17
	ProtoRouting  = 43
	ProtoFragment = 44
	ProtoAH       = 51
	ProtoICMPv6   = 58
	ProtoNoNext   = 59
	ProtoDestOpts = 60
)

// TCP flags, byte 13 of the TCP header (RFC 9293, section 3.1).
const (
	TCPFin = 0x01
	TCPSyn = 0x02
	TCPRst = 0x04
	TCPPsh = 0x08
	TCPAck = 0x10
	TCPUrg = 0x20
	TCPEce = 0x40
	TCPCwr = 0x80
)

// Header lengths in bytes, without options and extension headers.
const (
	EthernetLen = 14
	VLANTagLen  = 4
	IPv4Len     = 20
	IPv6Len     = 40
	UDPLen      = 8
	TCPLen      = 20
)

// EtherTypes (IEEE 802 numbers).
const (
	etherIPv4 = 0x0800
	etherIPv6 = 0x86dd
	etherVLAN = 0x8100 // 802.1Q
	etherQinQ = 0x88a8 // 802.1ad service tag
)

// IPv4 flags and fragment offset, the 16 bits at offset 6.
const (
	ipv4DF         = 0x4000
	ipv4MF         = 0x2000
	ipv4OffsetMask = 0x1fff
)
