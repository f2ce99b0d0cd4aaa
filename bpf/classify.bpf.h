/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which frames are records to steer. The order of the checks is the order in
 * which other traffic leaves: what is not for a listener costs one lookup. A
 * frame that is not one plain record (aggregate, several buffers) leaves before
 * its peer id is looked at, since one unknown peer must not take the others of
 * an aggregate with it.
 */
#ifndef OVPN_XDP_CLASSIFY_BPF_H
#define OVPN_XDP_CLASSIFY_BPF_H

#include "parse.bpf.h"

#define OPCODE_DATA_V2 9
#define KEY_ID_SHIFT 24
#define KEY_ID_MASK 0x7
#define PEER_ID_MASK 0xffffff
#define PEER_ID_UNDEF 0xffffff

/* Header word 4, packet id 4, tag 16 and at least one byte of ciphertext. */
#define RECORD_MIN 25

/*
 * Longest frame that is steered, in bytes from the Ethernet header. The default
 * is a 2,048-byte UMEM chunk less the 256 bytes the kernel keeps in front and 16
 * for the tag that moves behind the ciphertext.
 */
const volatile __u32 frame_limit = 2048 - 256 - 16;

/* Age of the heartbeat in `control` from which every record passes; 0: never. */
const volatile __u64 heartbeat_limit_ns = 0;

struct frame {
	void *data;
	void *end;      /* of what can be read directly */
	__u32 length;   /* of the whole frame */
	__u32 tags;     /* VLAN tags already taken off */
	bool aggregate; /* several datagrams that a segmentation offload merged */
	bool split;     /* over several buffers */
};

static __always_inline bool accepting(const struct control_state *c)
{
	if (!c->accepting)
		return false;
	/* Signed: a beat written after this program read the clock is not old. */
	if (heartbeat_limit_ns && (__s64)(bpf_ktime_get_ns() - c->heartbeat_ns) > (__s64)heartbeat_limit_ns)
		return false;
	return true;
}

/* Only a map that holds every peer proves that there is no such peer. */
static __always_inline enum reason unknown(const struct control_state *c)
{
	return c->incomplete ? REASON_UNKNOWN_PASSED : REASON_UNKNOWN_PEER;
}

static __always_inline bool same_endpoint(const struct endpoint *a, const struct endpoint *b)
{
	const __u32 *x = (const __u32 *)a, *y = (const __u32 *)b;

	/* Five words: family and port, then the address. */
	return x[0] == y[0] && x[1] == y[1] && x[2] == y[2] && x[3] == y[3] && x[4] == y[4];
}

static __always_inline enum reason check_datagram(const struct frame *f, const struct datagram *d)
{
	__u32 udp_length = bpf_ntohs(d->udp->len);

	if (f->aggregate || f->length > frame_limit)
		return REASON_OVERSIZE;
	if (f->split)
		return REASON_MULTI_BUFFER;
	if (d->source.family == FAMILY_INET) {
		if (!ipv4_checksum_ok(d->network))
			return REASON_IP_CHECKSUM;
		if (d->network_offset + sizeof(struct iphdr) + d->ip_payload > f->length)
			return REASON_UDP_LENGTH;
	} else if (d->network_offset + sizeof(struct ipv6hdr) + d->ip_payload > f->length) {
		return REASON_UDP_LENGTH;
	}
	/* Bytes behind the IP packet are Ethernet padding; between UDP and IP none may hide. */
	if (udp_length < sizeof(struct udphdr) || udp_length != d->ip_payload)
		return REASON_UDP_LENGTH;
	if (d->source.family == FAMILY_INET6 && d->udp->check == 0)
		return REASON_UDP_CSUM_ZERO6;
	return REASON_STEERED;
}

static __always_inline enum reason check_record(void *payload, void *end, __u32 length,
						const struct endpoint *source, __u32 *peer_id)
{
	struct control_state *c;
	struct peer *peer;
	__u32 zero = 0, word, id;

	if (length == 0)
		return REASON_NOT_DATA_V2;
	if (payload + 1 > end)
		return REASON_MALFORMED;
	if (*(__u8 *)payload >> 3 != OPCODE_DATA_V2)
		return REASON_NOT_DATA_V2;
	if (length < RECORD_MIN)
		return REASON_SHORT_RECORD;
	if (payload + 4 > end)
		return REASON_MALFORMED;
	c = bpf_map_lookup_elem(&control, &zero);
	if (!c || !accepting(c))
		return REASON_NOT_ACCEPTING;

	word = bpf_ntohl(*(__be32 *)payload);
	id = word & PEER_ID_MASK;
	if (id == PEER_ID_UNDEF)
		return bpf_map_lookup_elem(&endpoints, source) ? REASON_UNDEF_PEER : unknown(c);
	peer = bpf_map_lookup_elem(&peers, &id);
	if (!peer)
		return unknown(c);
	if (peer->state != PEER_STEER || !same_endpoint(&peer->remote, source))
		return REASON_OTHER_ENDPOINT;
	if (!(peer->key_ids >> (word >> KEY_ID_SHIFT & KEY_ID_MASK) & 1))
		return REASON_OTHER_KEY;
	*peer_id = id;
	return REASON_STEERED;
}

/* REASON_STEERED: a record to steer, and *peer_id is whose. */
static __always_inline enum reason classify(const struct frame *f, __u32 *peer_id)
{
	struct datagram d = {};
	enum reason why;

	why = parse_datagram(f->data, f->end, f->tags, &d);
	if (why != REASON_STEERED)
		return why;
	if (!bpf_map_lookup_elem(&listeners, &d.destination))
		return REASON_NOT_LISTENER;
	why = check_datagram(f, &d);
	if (why != REASON_STEERED)
		return why;
	return check_record(d.udp + 1, f->end, d.ip_payload - sizeof(struct udphdr), &d.source, peer_id);
}

#endif
