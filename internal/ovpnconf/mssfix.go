// SPDX-License-Identifier: Apache-2.0

package ovpnconf

// MSSFixKind says what MSSFix.Bytes counts.
type MSSFixKind uint8

// The kinds of mssfix.
const (
	// MSSFixLink: an outer datagram without its IP and UDP headers (`mssfix N`).
	MSSFixLink MSSFixKind = iota
	// MSSFixMTU: an outer packet with all its headers (`mssfix N mtu`).
	MSSFixMTU
	// MSSFixFixed: the inner packet (`mssfix N fixed`).
	MSSFixFixed
)

// MSSFix bounds the MSS that passing SYNs agree on. The default is
// {MSSFixMTU, 1492} with a tun-mtu of 1500, else the tun-mtu itself.
type MSSFix struct {
	Kind MSSFixKind
	// Bytes is 0 when the MSS is left alone.
	Bytes int
}

// Overheads in bytes.
const (
	recordOverhead = 24 // DATA_V2 with AEAD: header 4, packet id 4, tag 16
	udpOverhead    = 8
	tcpOverhead    = 20 + 2 // with the frame's length
	ipv4Overhead   = 20
	ipv6Overhead   = 40
)

// InnerSize returns the most bytes of an inner TCP packet, IP header included,
// for an outer transport; 0: the MSS is left alone. The MSS itself is 40 less
// for inner IPv4 and 60 less for inner IPv6 (RFC 6691).
func (m MSSFix) InnerSize(outerIPv6, outerTCP bool) int {
	size := m.Bytes
	if size == 0 || m.Kind == MSSFixFixed {
		return size
	}
	size -= recordOverhead
	if m.Kind == MSSFixMTU {
		size -= ipv4Overhead
		if outerIPv6 {
			size -= ipv6Overhead - ipv4Overhead
		}
		if outerTCP {
			size -= tcpOverhead
		} else {
			size -= udpOverhead
		}
	} else if outerTCP {
		size -= 2
	}
	return max(size, 0)
}
