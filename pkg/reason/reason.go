// SPDX-License-Identifier: Apache-2.0

// Package reason lists how a frame, record or packet may end, under the numbers
// and labels that the BPF programs use (bpf/reasons.h). It is a leaf: it imports
// nothing of this module.
package reason

// Reason is the fate of one frame, record or packet.
type Reason uint8

// Verdicts of the BPF programs, which index the map `verdicts`. All but Steered
// and UnknownPeer pass the frame to the kernel's stack, where the UDP socket may
// meet it again.
const (
	Steered       Reason = iota // redirected to an AF_XDP socket
	UnknownPeer                 // DATA_V2 of a peer id that nobody has: dropped
	NotIP                       // neither IPv4 nor IPv6
	VLANDepth                   // more than one VLAN tag
	IPOptions                   // IPv4 UDP with options
	ExtHeader                   // IPv6 with an extension header
	Fragment                    // IP fragment, first ones included
	IPChecksum                  // IPv4 header checksum is wrong
	NotUDP                      // another protocol
	NotListener                 // UDP to an address and port nobody listens on
	UDPLength                   // UDP, IP and frame length contradict each other
	UDPCsumZero6                // IPv6 with UDP checksum 0
	NotDataV2                   // control packet, DATA_V1, unknown opcode, empty datagram
	ShortRecord                 // DATA_V2 below 25 bytes
	Oversize                    // frame above the limit of a chunk, or a segmentation aggregate
	MultiBuffer                 // frame spread over several driver buffers
	OtherEndpoint               // known peer, but another source address or port
	OtherKey                    // known peer, but a key id it does not hold
	UndefPeer                   // peer id 0xffffff from a configured endpoint
	NotAccepting                // switched off, or the heartbeat is stale
	NoSocket                    // no AF_XDP socket for the receive queue
	Malformed                   // headers cut off or contradicting themselves
	UnknownPassed               // peer id not in the map, which lacks some: passed

	// ProgramCount is how many reasons the BPF programs have.
	ProgramCount = iota
)

// Reasons that only user space gives. The BPF programs' numbering goes on.
const (
	BadFrame       Reason = ProgramCount + iota // leased frame that does not parse
	BadRecord                                   // not a record, or below 25 bytes
	NoKey                                       // no key slot of the peer holds the key id
	Auth                                        // authentication failed
	Replay                                      // packet id zero, seen before, or behind the window
	SpoofedSource                               // inner source outside the peer's prefixes
	BadInner                                    // plaintext is neither IP nor a known message
	OCCExit                                     // OCC exit message: the peer says goodbye
	RingFull                                    // AF_XDP receive ring was full
	FillEmpty                                   // AF_XDP fill ring was empty
	XSKDropped                                  // dropped by the AF_XDP socket for another cause
	TunWrite                                    // the TUN refused the packet
	NoMemory                                    // no buffer was free
	NoRoute                                     // outward: no peer has this destination
	NoPeerKey                                   // outward: the peer has no primary key
	IDExhausted                                 // outward: the key has no packet ids left
	BadGSO                                      // outward: vnet header and packet contradict each other
	SendError                                   // outward: the socket refused the record
	MessageSize                                 // outward: the record exceeds the path's MTU
	NoEndpoint                                  // outward: the peer's address is not known yet
	HandoverLost                                // lost between the tc program and the ring behind its private pair
	C2CBlocked                                  // inner packet from one peer to another, which policy forbids
	C2CQueue                                    // inner packet from one peer to another whose worker has no room
	OtherTransport                              // record by UDP of a peer on TCP, or on TCP of another than its own peer
	StreamFull                                  // outward: the peer's TCP connection takes no more, or is closed

	// Count is how many reasons there are: 0 to Count-1.
	Count = ProgramCount + iota
)

var labels = [Count]string{
	Steered:        "steered",
	UnknownPeer:    "unknown_peer",
	NotIP:          "not_ip",
	VLANDepth:      "vlan_depth",
	IPOptions:      "ip_options",
	ExtHeader:      "ext_header",
	Fragment:       "fragment",
	IPChecksum:     "ip_checksum",
	NotUDP:         "not_udp",
	NotListener:    "not_listener",
	UDPLength:      "udp_length",
	UDPCsumZero6:   "udp_csum_zero6",
	NotDataV2:      "not_data_v2",
	ShortRecord:    "short_record",
	Oversize:       "oversize",
	MultiBuffer:    "multi_buffer",
	OtherEndpoint:  "other_endpoint",
	OtherKey:       "other_key",
	UndefPeer:      "undef_peer",
	NotAccepting:   "not_accepting",
	NoSocket:       "no_socket",
	Malformed:      "malformed",
	UnknownPassed:  "unknown_passed",
	BadFrame:       "bad_frame",
	BadRecord:      "bad_record",
	NoKey:          "no_key",
	Auth:           "auth",
	Replay:         "replay",
	SpoofedSource:  "spoofed_source",
	BadInner:       "bad_inner",
	OCCExit:        "occ_exit",
	RingFull:       "ring_full",
	FillEmpty:      "fill_empty",
	XSKDropped:     "xsk_dropped",
	TunWrite:       "tun_write",
	NoMemory:       "no_memory",
	NoRoute:        "no_route",
	NoPeerKey:      "no_peer_key",
	IDExhausted:    "id_exhausted",
	BadGSO:         "bad_gso",
	SendError:      "send_error",
	MessageSize:    "message_size",
	NoEndpoint:     "no_endpoint",
	HandoverLost:   "handover_lost",
	C2CBlocked:     "c2c_blocked",
	C2CQueue:       "c2c_queue",
	OtherTransport: "other_transport",
	StreamFull:     "stream_full",
}

// String is the label of the reason in `status` and its JSON: the enumerator of
// bpf/reasons.h in lower case, without its prefix. "unknown" for what is no reason.
func (r Reason) String() string {
	if int(r) < len(labels) {
		return labels[r]
	}
	return "unknown"
}

// Lookup returns the reason of that label.
func Lookup(label string) (Reason, bool) {
	for i, l := range labels {
		if l == label {
			return Reason(i), true
		}
	}
	return 0, false
}
