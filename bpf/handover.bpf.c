// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * XDP on the far end of the tc rung's private veth pair. What arrives here was
 * classified and counted by ovpn_tc, so it has counters of its own: their sum
 * against ovpn_tc's STEERED says what is still in the pair, or was lost there.
 */
#include "xsks.bpf.h"

enum handover_fate {
	HANDOVER_DELIVERED, /* to an AF_XDP socket */
	HANDOVER_NO_SOCKET, /* dropped: nothing behind the pair could take it */
	HANDOVER_COUNT,
};

struct handover_tally {
	__u64 packets;
	__u64 bytes;
	enum handover_fate fate; /* the map index by name, written once by user space */
	__u32 reserved;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, HANDOVER_COUNT);
	__type(key, __u32);
	__type(value, struct handover_tally);
} handover SEC(".maps");

SEC("xdp.frags")
int ovpn_handover(struct xdp_md *ctx)
{
	enum xdp_action action = bpf_redirect_map(&xsks, ctx->rx_queue_index, XDP_DROP);
	__u32 key = action == XDP_REDIRECT ? HANDOVER_DELIVERED : HANDOVER_NO_SOCKET;
	struct handover_tally *t = bpf_map_lookup_elem(&handover, &key);

	if (t) {
		t->packets++;
		t->bytes += frame_length(ctx);
	}
	return action;
}

char _license[] SEC("license") = "Dual BSD/GPL";
