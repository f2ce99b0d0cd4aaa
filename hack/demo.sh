#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Shows two gateways at work and judges by their counters: exits 0 only if the traffic went
# through AF_XDP sockets on both sides. Leaves nothing behind.
#
#   hack/demo.sh [BINARY]
#
# NS_a, GW_a, ... come from `hack/lab.sh env`, which shellcheck does not see:
# shellcheck disable=SC2154
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin:/sbin
bin=$(realpath "${1:-bin/ovpn-xdp}")
export LAB_NAME=${LAB_NAME:-d$((BASHPID % 10000000))}

# Enough that neither handshakes nor keepalives could explain it.
AT_LEAST=5000

work=$(mktemp -d)
leave() {
	local rc=$?
	trap - EXIT
	if [ $rc != 0 ]; then
		for side in a b; do
			[ -s "/run/ovpn-xdp-lab/$LAB_NAME/$side.log" ] || continue
			echo "--- log of gateway $side" >&2
			tail -n 15 "/run/ovpn-xdp-lab/$LAB_NAME/$side.log" >&2
		done
	fi
	hack/lab.sh down >/dev/null || rc=1
	rm -rf "$work"
	exit $rc
}
trap leave EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

if [ -t 1 ]; then bold=$'\e[1m' plain=$'\e[0m'; else bold='' plain=''; fi
heading() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
row() { printf '  %-34s %s\n' "$1" "$2"; }
fail() { echo "demo: $*" >&2; exit 1; }

heading "Two gateways, one veth pair"
hack/lab.sh up "$bin"
eval "$(hack/lab.sh env)"
in_a() { nsenter --net=/run/netns/"$NS_a" -- "$@"; }
in_b() { nsenter --net=/run/netns/"$NS_b" -- "$@"; }
row "$GW_a" "$OUT4_a, tunnel $IN4_a $IN6_a"
row "$GW_b" "$OUT4_b, tunnel $IN4_b $IN6_b"
row "peer $LAB_PEER on both" "fresh key, AES-128-GCM"

heading "Ping"
pinged() {
	local side=$1 to=$2 out
	out=$("in_$side" ping -q -c 5 -i 0.1 -W 2 "$to") || fail "no answer from $to"
	row "from $side to $to" "$(sed -n 's/^\([0-9]*\) packets transmitted, \([0-9]*\) received.*/\2 of \1 answered/p' <<<"$out")$(sed -n 's#^rtt [^=]*= [^/]*/\([^/]*\)/.*#, \1 ms#p' <<<"$out")"
}
# The first packet of a fresh tunnel may meet a gateway that is still writing its tables.
in_a ping -q -c 1 -W 2 "$IN4_b" >/dev/null || true
pinged a "$IN4_b"
pinged b "$IN4_a"
pinged a "$IN6_b"
pinged b "$IN6_a"

heading "iperf3"
in_b iperf3 -s -B "$IN4_b" >"$work/server.log" 2>&1 &
for ((i = 0; i < 50; i++)); do
	[ -z "$(in_b ss -Hltn "sport = :5201")" ] || break
	sleep 0.1
done
# measured LABEL FILTER ARGUMENTS: one client run in a, reported through a jq filter.
measured() {
	local label=$1 filter=$2
	shift 2
	in_a timeout 20 iperf3 -c "$IN4_b" -J "$@" >"$work/iperf.json" ||
		fail "iperf3 $*: $(jq -r '.error // "no result"' "$work/iperf.json")"
	row "$label" "$(jq -r "$filter" "$work/iperf.json")"
	jq -e '[.end.sum_received.bytes // .end.sum.bytes] | .[0] > 1000000' "$work/iperf.json" >/dev/null ||
		fail "iperf3 $*: next to nothing arrived"
}
tcp='"\(.end.sum_received.bits_per_second/1e7|round/100) Gbit/s, \(.end.sum_sent.retransmits) retransmitted"'
udp='"\(.end.sum.bits_per_second/1e6|round) Mbit/s, \(.end.sum.lost_packets) of \(.end.sum.packets) lost"'
measured "TCP, a to b" "$tcp" -Z -C cubic -t 5
measured "TCP, b to a" "$tcp" -Z -C cubic -t 5 -R
measured "UDP, a to b" "$udp" -u -b 300M -l 1360 -t 3

for side in a b; do
	gw=GW_$side
	heading "ovpn-xdp status --name ${!gw}"
	"$bin" status --name "${!gw}" | sed 's/^/  /'
	"$bin" status --name "${!gw}" --json >"$work/$side.json"
done

pins=/sys/fs/bpf/ovpn-xdp/$GW_a/eth0
heading "bpftool, $pins"
about() { echo "  map $(bpftool map show pinned "$1" | sed -n 1p)${2:-}"; }
for pin in "$pins"/*; do
	map=${pin##*/}
	case $map in
	prog_*) continue ;;
	xsks) about "$pin" " (an XSKMAP cannot be dumped)" ;;
	verdicts | peer_stats)
		# One value per CPU: too long to print whole, so the sums that are not zero.
		about "$pin"
		bpftool -j map dump pinned "$pin" | jq -rc '.[].formatted
			| {key} + (.values[0].value | if has("reason") then {reason} else {} end)
				+ {packets: ([.values[].value.packets] | add), bytes: ([.values[].value.bytes] | add)}
			| select(.packets > 0)' | sed 's/^/      /'
		;;
	*)
		about "$pin"
		bpftool -j map dump pinned "$pin" | jq -c '.[].formatted' | sed 's/^/      /'
		;;
	esac
done

heading "Verdict"
for side in a b; do
	# Two witnesses: the program's own count of redirected records and what the sockets' rings handed out.
	read -r rung steered received < <(jq -r '[.nics[0].rung, .totals.in.steered, ([.nics[].rings[].received] | add)] | @tsv' "$work/$side.json")
	row "gateway $side" "rung $rung, $steered records steered, $received received from AF_XDP sockets"
	case $rung in
	xdp | xdp-zerocopy | tc | xdp-generic) ;;
	*) fail "gateway $side is on rung $rung, which has no AF_XDP socket" ;;
	esac
	((steered >= AT_LEAST && received >= AT_LEAST)) || fail "gateway $side: fewer than $AT_LEAST records went through AF_XDP"
done
echo
echo "  The traffic went through AF_XDP sockets on both sides. (${SECONDS} s)"
