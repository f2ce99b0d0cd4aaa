/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Ethernet, at most one VLAN tag, IPv4 or IPv6, UDP. Nothing here looks at maps.
 * Each function returns REASON_STEERED to go on, else why not.
 */
#ifndef OVPN_XDP_PARSE_BPF_H
#define OVPN_XDP_PARSE_BPF_H

#include <stdbool.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/types.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "maps.bpf.h"
#include "reasons.h"

#define FAMILY_INET 2
#define FAMILY_INET6 10

#define IPV4_MORE_FRAGMENTS 0x2000
#define IPV4_OFFSET_MASK 0x1fff

/* Next header values of RFC 8200 and IANA's extension header list; <linux/in6.h> has no MH, HIP and shim6. */
#define NEXTHDR_HOP_BY_HOP 0
#define NEXTHDR_ROUTING_HDR 43
#define NEXTHDR_FRAGMENT_HDR 44
#define NEXTHDR_AUTH_HDR 51
#define NEXTHDR_DEST_OPTIONS 60
#define NEXTHDR_MOBILITY_HDR 135
#define NEXTHDR_HIP_HDR 139
#define NEXTHDR_SHIM6_HDR 140

/* Ethernet, one tag, IPv6, UDP and the record's header word: what has to be linear in an skb. */
#define HEADERS_MAX (ETH_HLEN + 4 + 40 + 8 + 4)

struct vlan_tag {
	__be16 tci;
	__be16 proto;
};

struct datagram {
	struct endpoint source;
	struct endpoint destination;
	void *network;        /* IP header, both families at least 20 bytes readable */
	struct udphdr *udp;   /* 8 bytes readable */
	__u32 network_offset; /* of the IP header in the frame */
	__u32 ip_payload;     /* bytes behind the IP header, as that header says */
};

static __always_inline bool is_vlan(__be16 proto)
{
	return proto == bpf_htons(ETH_P_8021Q) || proto == bpf_htons(ETH_P_8021AD);
}

static __always_inline bool is_extension(__u8 next)
{
	switch (next) {
	case NEXTHDR_HOP_BY_HOP:
	case NEXTHDR_ROUTING_HDR:
	case NEXTHDR_AUTH_HDR:
	case NEXTHDR_DEST_OPTIONS:
	case NEXTHDR_MOBILITY_HDR:
	case NEXTHDR_HIP_HDR:
	case NEXTHDR_SHIM6_HDR:
		return true;
	}
	return false;
}

/* A header with a right checksum sums up to all ones. */
static __always_inline bool ipv4_checksum_ok(const struct iphdr *ip)
{
	const __u16 *word = (const __u16 *)ip;
	__u32 sum = 0;

#pragma unroll
	for (int i = 0; i < (int)sizeof(*ip) / 2; i++)
		sum += word[i];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum == 0xffff;
}

static __always_inline enum reason parse_ipv4(void *network, void *end, struct datagram *d)
{
	struct iphdr *ip = network;
	__u32 total;

	if ((void *)(ip + 1) > end || ip->version != 4 || ip->ihl < 5)
		return REASON_MALFORMED;
	if (ip->protocol != IPPROTO_UDP)
		return REASON_NOT_UDP;
	if (ip->ihl > 5)
		return REASON_IP_OPTIONS;
	if (ip->frag_off & bpf_htons(IPV4_MORE_FRAGMENTS | IPV4_OFFSET_MASK))
		return REASON_FRAGMENT;
	total = bpf_ntohs(ip->tot_len);
	if (total < sizeof(*ip))
		return REASON_MALFORMED;
	d->ip_payload = total - sizeof(*ip);
	d->udp = (void *)(ip + 1);
	d->source.family = FAMILY_INET;
	d->destination.family = FAMILY_INET;
	__builtin_memcpy(d->source.addr, &ip->saddr, sizeof(ip->saddr));
	__builtin_memcpy(d->destination.addr, &ip->daddr, sizeof(ip->daddr));
	return REASON_STEERED;
}

static __always_inline enum reason parse_ipv6(void *network, void *end, struct datagram *d)
{
	struct ipv6hdr *ip = network;

	if ((void *)(ip + 1) > end || ip->version != 6)
		return REASON_MALFORMED;
	if (ip->nexthdr == NEXTHDR_FRAGMENT_HDR)
		return REASON_FRAGMENT;
	if (is_extension(ip->nexthdr))
		return REASON_EXT_HEADER;
	if (ip->nexthdr != IPPROTO_UDP)
		return REASON_NOT_UDP;
	d->ip_payload = bpf_ntohs(ip->payload_len);
	d->udp = (void *)(ip + 1);
	d->source.family = FAMILY_INET6;
	d->destination.family = FAMILY_INET6;
	__builtin_memcpy(d->source.addr, &ip->saddr, sizeof(ip->saddr));
	__builtin_memcpy(d->destination.addr, &ip->daddr, sizeof(ip->daddr));
	return REASON_STEERED;
}

/* tags: VLAN tags that were already taken off the frame. d comes zeroed. */
static __always_inline enum reason parse_datagram(void *data, void *end, __u32 tags, struct datagram *d)
{
	struct ethhdr *eth = data;
	void *network = eth + 1;
	enum reason why;
	__be16 proto;

	if (network > end)
		return REASON_MALFORMED;
	proto = eth->h_proto;
	if (is_vlan(proto)) {
		struct vlan_tag *tag = network;

		if ((void *)(tag + 1) > end)
			return REASON_MALFORMED;
		tags++;
		proto = tag->proto;
		network = tag + 1;
	}
	if (tags > 1 || is_vlan(proto))
		return REASON_VLAN_DEPTH;

	if (proto == bpf_htons(ETH_P_IP))
		why = parse_ipv4(network, end, d);
	else if (proto == bpf_htons(ETH_P_IPV6))
		why = parse_ipv6(network, end, d);
	else
		return REASON_NOT_IP;
	if (why != REASON_STEERED)
		return why;

	if ((void *)(d->udp + 1) > end)
		return REASON_MALFORMED;
	d->source.port = d->udp->source;
	d->destination.port = d->udp->dest;
	d->network = network;
	d->network_offset = network - data;
	return REASON_STEERED;
}

#endif
