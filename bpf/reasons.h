/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The fates of a frame, record or packet: one list for the BPF programs and for
 * user space (pkg/reason holds the same names and numbers; a test compares both).
 * Entries are appended at the end of their list: the verdict numbers are indexes
 * of the pinned map `verdicts`.
 */
#ifndef OVPN_XDP_REASONS_H
#define OVPN_XDP_REASONS_H

/* Given by the BPF programs. Every one but STEERED and UNKNOWN_PEER passes the frame to the stack. */
#define OVPN_PROGRAM_REASONS(X)                                                                   \
	X(STEERED)        /* redirected to an AF_XDP socket */                                    \
	X(UNKNOWN_PEER)   /* DATA_V2 for a peer id that is not in `peers`: dropped */             \
	X(NOT_IP)         /* ARP, LLDP, anything that is neither IPv4 nor IPv6 */                 \
	X(VLAN_DEPTH)     /* more than one VLAN tag */                                            \
	X(IP_OPTIONS)     /* IPv4 UDP with options */                                             \
	X(EXT_HEADER)     /* IPv6 with an extension header */                                     \
	X(FRAGMENT)       /* IPv4 or IPv6 fragment, first ones included */                        \
	X(IP_CHECKSUM)    /* IPv4 header checksum is wrong */                                     \
	X(NOT_UDP)        /* another protocol */                                                  \
	X(NOT_LISTENER)   /* UDP to an address and port that is not in `listeners` */             \
	X(UDP_LENGTH)     /* UDP, IP and frame length contradict each other */                    \
	X(UDP_CSUM_ZERO6) /* IPv6 with UDP checksum 0 */                                          \
	X(NOT_DATA_V2)    /* control packet, DATA_V1, unknown opcode, empty datagram */           \
	X(SHORT_RECORD)   /* DATA_V2 below 25 bytes: no room for header, id, tag and a payload */ \
	X(OVERSIZE)       /* frame above frame_limit, or a segmentation aggregate */              \
	X(MULTI_BUFFER)   /* frame spread over several driver buffers */                          \
	X(OTHER_ENDPOINT) /* known peer, but another source address or port than its own */       \
	X(OTHER_KEY)      /* known peer, but a key id it does not hold */                         \
	X(UNDEF_PEER)     /* peer id 0xffffff from a configured endpoint */                       \
	X(NOT_ACCEPTING)  /* switched off in `control`, or its heartbeat is stale */              \
	X(NO_SOCKET)      /* no AF_XDP socket for this receive queue */                           \
	X(MALFORMED)      /* headers are cut off or contradict themselves */                      \
	X(UNKNOWN_PASSED) /* as UNKNOWN_PEER, but the maps are incomplete: passed */

/* Given by user space only. */
#define OVPN_USER_REASONS(X)                                                                      \
	X(BAD_FRAME)      /* a leased frame that does not parse */                                \
	X(BAD_RECORD)     /* datagram that is no record: wrong opcode or below 25 bytes */        \
	X(NO_KEY)         /* no key slot of the peer holds this key id */                         \
	X(AUTH)           /* authentication failed */                                             \
	X(REPLAY)         /* packet id zero, seen before, or behind the window */                 \
	X(SPOOFED_SOURCE) /* inner source address outside the peer's prefixes */                  \
	X(BAD_INNER)      /* plaintext is neither IP nor a known message */                       \
	X(OCC_EXIT)       /* OCC exit message: the peer says goodbye */                           \
	X(RING_FULL)      /* AF_XDP receive ring was full */                                      \
	X(FILL_EMPTY)     /* AF_XDP fill ring was empty */                                        \
	X(XSK_DROPPED)    /* dropped by the AF_XDP socket for another cause */                    \
	X(TUN_WRITE)      /* the TUN refused the packet */                                        \
	X(NO_MEMORY)      /* no buffer was free */                                                \
	X(NO_ROUTE)       /* outward: no peer has this destination */                             \
	X(NO_PEER_KEY)    /* outward: the peer has no primary key */                              \
	X(ID_EXHAUSTED)   /* outward: the key has no packet ids left */                           \
	X(BAD_GSO)        /* outward: vnet header and packet contradict each other */             \
	X(SEND_ERROR)     /* outward: the socket refused the record */                            \
	X(MESSAGE_SIZE)   /* outward: the record exceeds the path's MTU */                        \
	X(NO_ENDPOINT)    /* outward: the address of the peer is not known yet */                       \
	X(HANDOVER_LOST)  /* lost between the tc program and the ring behind its private pair */  \
	X(C2C_BLOCKED)    /* inner packet from one peer to another, which policy forbids */       \
	X(C2C_QUEUE)      /* inner packet from one peer to another whose worker has no room */    \
	X(OTHER_TRANSPORT) /* record by UDP of a TCP peer, or on TCP of another than its own */   \
	X(STREAM_FULL)    /* outward: the TCP connection takes no more, or is closed */

enum reason {
#define OVPN_REASON(name) REASON_##name,
	OVPN_PROGRAM_REASONS(OVPN_REASON)
	REASON_PROGRAM_COUNT,
	/* User space's reasons continue the numbering without a gap. */
	REASON_PROGRAM_LAST = REASON_PROGRAM_COUNT - 1,
	OVPN_USER_REASONS(OVPN_REASON)
	REASON_COUNT,
#undef OVPN_REASON
};

#endif
