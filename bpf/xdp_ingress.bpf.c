// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* XDP ingress of a NIC: records of known peers go to the AF_XDP socket of their receive queue. */
#include "classify.bpf.h"
#include "xsks.bpf.h"

/* User space takes the frags flag off for generic mode and for kernels that lack it. */
SEC("xdp.frags")
int ovpn_xdp(struct xdp_md *ctx)
{
	struct frame f = {
		.data = (void *)(long)ctx->data,
		.end = (void *)(long)ctx->data_end,
	};
	enum xdp_action action = XDP_PASS;
	__u32 peer_id = 0;
	enum reason why;

	f.length = frame_length(ctx);
	f.split = f.length > (__u32)(f.end - f.data);
	why = classify(&f, &peer_id);
	if (why == REASON_STEERED) {
		action = bpf_redirect_map(&xsks, ctx->rx_queue_index, XDP_PASS);
		if (action == XDP_REDIRECT)
			count_peer(peer_id, f.length);
		else
			why = REASON_NO_SOCKET;
	} else if (why == REASON_UNKNOWN_PEER) {
		action = XDP_DROP;
	}
	count_verdict(why, f.length);
	return action;
}

char _license[] SEC("license") = "Dual BSD/GPL";
