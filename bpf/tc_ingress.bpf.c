// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* tc ingress of a NIC: records of known peers go into a private veth pair, whose far end runs ovpn_handover. */
#include <linux/pkt_cls.h>

#include "classify.bpf.h"

/* The near end of the private pair. */
const volatile __u32 handover_ifindex = 0;

SEC("tc")
int ovpn_tc(struct __sk_buff *skb)
{
	struct frame f = {};
	__u32 length = skb->len;
	__u32 want = length < HEADERS_MAX ? length : HEADERS_MAX;
	__u32 peer_id = 0;
	enum reason why;

	/* A driver that builds skbs from pages may leave the headers outside the linear part. */
	if (skb->data_end - skb->data < want && bpf_skb_pull_data(skb, want)) {
		count_verdict(REASON_MALFORMED, length);
		return TC_ACT_UNSPEC;
	}
	f.data = (void *)(long)skb->data;
	f.end = (void *)(long)skb->data_end;
	f.length = length;
	f.tags = skb->vlan_present ? 1 : 0;
	f.aggregate = skb->gso_size != 0;

	why = classify(&f, &peer_id);
	count_verdict(why, length);
	if (why == REASON_STEERED) {
		count_peer(peer_id, length);
		return bpf_redirect(handover_ifindex, 0);
	}
	if (why == REASON_UNKNOWN_PEER)
		return TC_ACT_SHOT;
	return TC_ACT_UNSPEC;
}

char _license[] SEC("license") = "Dual BSD/GPL";
