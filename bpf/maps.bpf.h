/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Maps shared by the NIC's programs. The layout is an ABI, described in
 * docs/bpf-maps.md: raise ABI_VERSION when a field changes its meaning or place, or
 * a value its size.
 * Sizes are what user space sets at load; the ones here are the defaults.
 */
#ifndef OVPN_XDP_MAPS_BPF_H
#define OVPN_XDP_MAPS_BPF_H

#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

#include "reasons.h"

#define ABI_VERSION 1

/* Read from the object by user space, which writes it into `control`. */
const volatile __u32 abi_version = ABI_VERSION;

/* An outer address and port. IPv4 takes the first 4 bytes of addr, the others are 0. */
struct endpoint {
	__u16 family; /* AF_INET (2) or AF_INET6 (10), host byte order */
	__be16 port;
	__u8 addr[16]; /* network byte order */
};

struct listener {
	__u32 flags; /* none defined: 0 */
};

enum peer_state {
	PEER_PASS = 0,  /* known, no endpoint yet: its records go to the UDP socket */
	PEER_STEER = 1, /* records from its endpoint, under its key ids, are steered */
};

struct peer {
	struct endpoint remote;
	enum peer_state state;
	__u8 key_ids; /* bit n: key id n is held for receiving */
	__u8 reserved[3];
};

struct peer_traffic {
	__u64 packets;
	__u64 bytes; /* whole frames, Ethernet header included */
};

struct tally {
	__u64 packets;
	__u64 bytes;        /* whole frames, Ethernet header included */
	enum reason reason; /* the map index by name, written once by user space for bpftool's sake */
	__u32 reserved;
};

struct control_state {
	__u32 abi;          /* ABI_VERSION */
	__u32 accepting;    /* 0: every record passes */
	__u64 heartbeat_ns; /* CLOCK_MONOTONIC when user space was last seen alive */
	__u32 incomplete;   /* 1: `peers` or `endpoints` lacks some: records of unknown peers pass */
	__u32 reserved;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct endpoint);
	__type(value, struct listener);
} listeners SEC(".maps");

/* Not preallocated: 16,384 entries would cost 2 MB on a gateway with three peers. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct peer);
} peers SEC(".maps");

/* User space makes the entries, so that counting never allocates. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct peer_traffic);
} peer_stats SEC(".maps");

/* endpoint -> peer id, for records that carry no peer id (0xffffff). */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct endpoint);
	__type(value, __u32);
} endpoints SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, REASON_PROGRAM_COUNT);
	__type(key, __u32);
	__type(value, struct tally);
} verdicts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct control_state);
} control SEC(".maps");

/* XDP and tc run with bottom halves off, so a CPU's own slot needs no atomic. */
static __always_inline void count_verdict(enum reason why, __u32 bytes)
{
	__u32 key = why;
	struct tally *t = bpf_map_lookup_elem(&verdicts, &key);

	if (t) {
		t->packets++;
		t->bytes += bytes;
	}
}

static __always_inline void count_peer(__u32 id, __u32 bytes)
{
	struct peer_traffic *s = bpf_map_lookup_elem(&peer_stats, &id);

	if (s) {
		s->packets++;
		s->bytes += bytes;
	}
}

#endif
