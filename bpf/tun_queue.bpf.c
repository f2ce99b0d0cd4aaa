// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * TUNSETSTEERINGEBPF: the inner destination picks the TUN queue, so that one
 * worker serves a peer and its records leave in packet id order. The kernel
 * takes the result modulo the number of queues; what no route covers goes to
 * queue 0, and so does everything while the maps are empty.
 */
#include <stddef.h>
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

struct route4_key {
	__u32 prefix_length; /* bits */
	__u8 addr[4];        /* network byte order */
};

struct route6_key {
	__u32 prefix_length; /* bits */
	__u8 addr[16];       /* network byte order */
};

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct route4_key);
	__type(value, __u32);
} tun_routes4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct route6_key);
	__type(value, __u32);
} tun_routes6 SEC(".maps");

#define IPV4_DESTINATION 16
#define IPV6_DESTINATION 24

SEC("socket")
int ovpn_tun_queue(struct __sk_buff *skb)
{
	__u32 *queue = NULL;
	__u8 first;

	/* A TUN (not TAP) packet starts with its IP header. */
	if (bpf_skb_load_bytes(skb, 0, &first, sizeof(first)))
		return 0;
	if (first >> 4 == 4) {
		struct route4_key key = { .prefix_length = 32 };

		if (bpf_skb_load_bytes(skb, IPV4_DESTINATION, key.addr, sizeof(key.addr)))
			return 0;
		queue = bpf_map_lookup_elem(&tun_routes4, &key);
	} else if (first >> 4 == 6) {
		struct route6_key key = { .prefix_length = 128 };

		if (bpf_skb_load_bytes(skb, IPV6_DESTINATION, key.addr, sizeof(key.addr)))
			return 0;
		queue = bpf_map_lookup_elem(&tun_routes6, &key);
	}
	return queue ? *queue : 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
