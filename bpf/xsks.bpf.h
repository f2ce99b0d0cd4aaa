/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef OVPN_XDP_XSKS_BPF_H
#define OVPN_XDP_XSKS_BPF_H

#include <stdbool.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

/*
 * Loaded with the frags flag: bpf_xdp_get_buff_len() exists from kernel 5.18 on,
 * like the flag. False makes the verifier remove the call before it is resolved.
 */
const volatile bool frags = false;

/* receive queue -> AF_XDP socket bound to that queue */
struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u32);
} xsks SEC(".maps");

static __always_inline __u32 frame_length(struct xdp_md *ctx)
{
	if (frags)
		return bpf_xdp_get_buff_len(ctx);
	return ctx->data_end - ctx->data;
}

#endif
