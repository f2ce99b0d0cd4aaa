#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A lab of two gateways on this machine: two network namespaces, one veth pair, a gateway in
# each, one peer and one fresh key on both. Nothing outside the two namespaces is touched.
#
#   hack/lab.sh up [BINARY]     lay it and wait until both gateways are ready
#   hack/lab.sh shell [a|b]     a shell in one of the namespaces
#   hack/lab.sh env             names and addresses as shell variables
#   hack/lab.sh down            stop the gateways, remove the namespaces
#
# Environment: LAB_NAME  tells labs apart, at most 9 letters or digits (from the checkout's path)
#              LAB_MODE  --mode of both gateways (auto)
#              LAB_ARGS  more arguments for `ovpn-xdp run`
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
PATH=$PATH:/usr/sbin:/sbin

name=${LAB_NAME:-$(cksum <<<"$top" | awk '{printf "%x", $1}')}
[[ $name =~ ^[A-Za-z0-9]{1,9}$ ]] || { echo "lab.sh: LAB_NAME \"$name\": want 1 to 9 letters or digits" >&2; exit 2; }
state=/run/ovpn-xdp-lab/$name

PEER=7
declare -A NS=([a]=ovx-lab-$name-a [b]=ovx-lab-$name-b)
declare -A GW=([a]=lab-a-$name [b]=lab-b-$name) # gateway names have 15 characters at most
declare -A OTHER=([a]=b [b]=a)
declare -A MAC=([a]=02:00:5e:00:53:01 [b]=02:00:5e:00:53:02)
declare -A OUT4=([a]=192.0.2.1 [b]=192.0.2.2)
declare -A OUT6=([a]=2001:db8::1 [b]=2001:db8::2)
declare -A IN4=([a]=10.9.0.1 [b]=10.9.0.2)
declare -A IN6=([a]=fd00:9::1 [b]=fd00:9::2)
declare -A ROLE=([a]=server [b]=client)

# `ip netns exec` would mount a fresh /sys, which hides the bpffs that holds the pinned maps.
inside() { local side=$1; shift; nsenter --net=/run/netns/"${NS[$side]}" -- "$@"; }

lay_network() {
	local side o
	for side in a b; do
		ip netns add "${NS[$side]}"
		ip -n "${NS[$side]}" link set lo up
	done
	# Made inside the namespaces: the name eth0 never appears in ours.
	ip -n "${NS[a]}" link add eth0 address "${MAC[a]}" numtxqueues 2 numrxqueues 2 type veth \
		peer name eth0 address "${MAC[b]}" netns "${NS[b]}" numtxqueues 2 numrxqueues 2
	for side in a b; do
		o=${OTHER[$side]}
		# As on a wire, only frames of MTU size cross; a veth would else hand over 64 KiB aggregates.
		inside $side ethtool -K eth0 tso off gso off tx-udp-segmentation off gro on >/dev/null
		ip -n "${NS[$side]}" addr add "${OUT4[$side]}/24" dev eth0
		ip -n "${NS[$side]}" addr add "${OUT6[$side]}/64" dev eth0 nodad
		ip -n "${NS[$side]}" neigh add "${OUT4[$o]}" lladdr "${MAC[$o]}" dev eth0 nud permanent
		ip -n "${NS[$side]}" neigh add "${OUT6[$o]}" lladdr "${MAC[$o]}" dev eth0 nud permanent
		ip -n "${NS[$side]}" link set eth0 up
	done
}

start_gateway() {
	local side=$1 extra
	read -ra extra <<<"${LAB_ARGS:-}"
	# Its own session, so that ^C in the caller's terminal leaves the order of leaving to `down`.
	setsid nsenter --net=/run/netns/"${NS[$side]}" -- "$bin" run \
		--name "${GW[$side]}" --nic eth0 --listen "${OUT4[$side]}:1194" --dev tun0 \
		--address "${IN4[$side]}/24" --address "${IN6[$side]}/64" --mode "${LAB_MODE:-auto}" \
		--state-dir "$state/keys" --ready-file "$state/$side.ready" "${extra[@]}" \
		</dev/null >"$state/$side.log" 2>&1 &
	echo $! >"$state/$side.pid"
}

await_gateway() {
	local side=$1 tries
	for ((tries = 0; tries < 150; tries++)); do
		[ ! -e "$state/$side.ready" ] || return 0
		if ! kill -0 "$(<"$state/$side.pid")" 2>/dev/null; then break; fi
		sleep 0.1
	done
	echo "lab.sh: gateway ${GW[$side]} did not get ready; its log:" >&2
	tail -n 20 "$state/$side.log" >&2
	return 1
}

add_peer() {
	local side=$1 o=${OTHER[$1]}
	"$bin" peer add $PEER --name "${GW[$side]}" --remote "${OUT4[$o]}:1194" \
		--route "${IN4[$o]}/32" --route "${IN6[$o]}/128" >/dev/null
	"$bin" key add $PEER --name "${GW[$side]}" --slot primary --key-id 0 --cipher AES-128-GCM \
		--key-file "$state/key" --role "${ROLE[$side]}" >/dev/null
}

write_env() {
	local side
	{
		echo "LAB_STATE=$state LAB_BIN=$bin LAB_PEER=$PEER"
		for side in a b; do
			echo "NS_$side=${NS[$side]} GW_$side=${GW[$side]} LOG_$side=$state/$side.log"
			echo "OUT4_$side=${OUT4[$side]} OUT6_$side=${OUT6[$side]} IN4_$side=${IN4[$side]} IN6_$side=${IN6[$side]}"
		done
	} >"$state/env"
}

up() {
	bin=$(realpath "${1:-$top/bin/ovpn-xdp}")
	[ -x "$bin" ] || { echo "lab.sh: $bin is not there; run: make build" >&2; exit 1; }
	[ "$(id -u)" = 0 ] || { echo "lab.sh: needs root for network namespaces" >&2; exit 1; }
	mkdir -p "${state%/*}"
	mkdir -m 0700 "$state" 2>/dev/null || { echo "lab.sh: lab $name is up already; hack/lab.sh down removes it" >&2; exit 1; }
	trap 'trap - ERR; down >/dev/null; exit 1' ERR INT TERM
	set -E
	lay_network
	start_gateway a
	start_gateway b
	await_gateway a
	await_gateway b
	(umask 077 && "$bin" key generate >"$state/key")
	add_peer a
	add_peer b
	write_env
	trap - ERR INT TERM
}

# stop SECONDS PID...: asks, waits, then insists.
stop() {
	local tries=$(($1 * 10)) pid
	shift
	[ $# -gt 0 ] || return 0
	kill "$@" 2>/dev/null || true
	for pid in "$@"; do
		while kill -0 "$pid" 2>/dev/null && ((tries-- > 0)); do sleep 0.1; done
		kill -9 "$pid" 2>/dev/null || true
	done
}

down() {
	local side pids=()
	[ -d "$state" ] || { echo "no lab $name"; return 0; }
	for side in a b; do
		[ -s "$state/$side.pid" ] || continue
		local pid
		pid=$(<"$state/$side.pid")
		# The pid may have been reused since.
		if tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -q -- "--name ${GW[$side]} "; then pids+=("$pid"); fi
	done
	stop 10 ${pids[@]+"${pids[@]}"}
	for side in a b; do
		[ -e "/run/netns/${NS[$side]}" ] || continue
		# Servers and shells that somebody started in there.
		mapfile -t pids < <(ip netns pids "${NS[$side]}")
		stop 2 ${pids[@]+"${pids[@]}"}
		ip netns del "${NS[$side]}"
	done
	# What a gateway that was killed leaves: the next start under the same name would replace it.
	rm -f "/run/ovpn-xdp/${GW[a]}".* "/run/ovpn-xdp/${GW[b]}".*
	rm -rf "/sys/fs/bpf/ovpn-xdp/${GW[a]}" "/sys/fs/bpf/ovpn-xdp/${GW[b]}"
	rm -rf "$state"
	rmdir "${state%/*}" 2>/dev/null || true
	echo "lab $name removed"
}

lab_shell() {
	local side=${1:-a}
	[ -f "$state/env" ] || { echo "lab.sh: no lab $name; hack/lab.sh up lays it" >&2; exit 1; }
	[ -n "${NS[$side]:-}" ] || { echo "lab.sh: side \"$side\": want a or b" >&2; exit 2; }
	bin=$(sed -n 's/.*LAB_BIN=\([^ ]*\).*/\1/p' "$state/env")
	cat <<-END
		gateway a   ${GW[a]}   ${OUT4[a]}   tunnel ${IN4[a]} ${IN6[a]}   log $state/a.log
		gateway b   ${GW[b]}   ${OUT4[b]}   tunnel ${IN4[b]} ${IN6[b]}   log $state/b.log

		try         ping ${IN4[b]}
		            ovpn-xdp status --name ${GW[a]} --watch
		            bpftool map dump pinned /sys/fs/bpf/ovpn-xdp/${GW[a]}/eth0/peers
		enter       hack/lab.sh shell a     (or: nsenter --net=/run/netns/${NS[a]})
		remove      make lab-down
	END
	if [ -t 0 ] && [ -t 1 ]; then
		PATH=$(dirname "$bin"):$PATH PS1="[gateway $side] \\w \\$ " inside "$side" bash --norc -i || true
	fi
}

case ${1:-} in
up) up "${@:2}" ;;
down) down ;;
shell) lab_shell "${@:2}" ;;
env) cat "$state/env" ;;
*) sed -n '4,15s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
