#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Shows a stock OpenVPN client at this gateway, which runs with a plain server.conf, and judges by
# the gateway's counters: exits 0 only if the client's traffic went through AF_XDP sockets.
# Everything happens in two network namespaces of its own; nothing is left behind.
#
#   hack/demo.sh [BINARY]
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin:/sbin
bin=$(realpath "${1:-bin/ovpn-xdp}")
id=${LAB_NAME:-$((BASHPID % 10000000))}
name=demo-$id
server=ovx-demo-$id-s client=ovx-demo-$id-c

# Enough that neither handshakes nor keepalives could explain it.
AT_LEAST=5000

work=$(mktemp -d)
# Those of what runs beside us. Started without a function around: its shell, and not the
# program, would have the pid.
pids=()
leave() {
	local rc=$? pid
	trap - EXIT
	if [ $rc != 0 ]; then
		for log in gateway client; do
			[ -s "$work/$log.log" ] || continue
			echo "--- log of the $log" >&2
			tail -n 15 "$work/$log.log" >&2
		done
	fi
	for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
	for pid in "${pids[@]}"; do
		# SIGKILL after five seconds; a gateway detaches in far less.
		for ((i = 0; i < 50; i++)); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
		kill -9 "$pid" 2>/dev/null || true
	done
	wait 2>/dev/null || true
	ip netns del "$server" 2>/dev/null || true
	ip netns del "$client" 2>/dev/null || true
	rm -rf "$work" "/sys/fs/bpf/ovpn-xdp/$name"
	exit $rc
}
trap leave EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

if [ -t 1 ]; then bold=$'\e[1m' plain=$'\e[0m'; else bold='' plain=''; fi
heading() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
row() { printf '  %-34s %s\n' "$1" "$2"; }
fail() { echo "demo: $*" >&2; exit 1; }
# `ip netns exec` would mount a fresh /sys, which hides the bpffs that holds the pinned maps.
in_server() { nsenter --net=/run/netns/"$server" -- "$@"; }
in_client() { nsenter --net=/run/netns/"$client" -- "$@"; }

heading "A network, a PKI, and the server.conf of any OpenVPN server"
for ns in "$server" "$client"; do
	ip netns add "$ns"
	ip -n "$ns" link set lo up
done
# Made inside the namespaces: the name eth0 never appears in ours.
ip -n "$server" link add eth0 address 02:00:5e:00:53:01 type veth peer name eth0 address 02:00:5e:00:53:02 netns "$client"
at=1
for ns in "$server" "$client"; do
	# As on a wire, only frames of MTU size cross; a veth would else hand over 64 KiB aggregates.
	nsenter --net=/run/netns/"$ns" -- ethtool -K eth0 tso off gso off tx-udp-segmentation off gro on >/dev/null
	ip -n "$ns" addr add 192.0.2.$((at++))/24 dev eth0
	ip -n "$ns" link set eth0 up
done

(
	cd "$work"
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.crt -subj /CN=demo-ca -days 2
	for who in "server serverAuth" "laptop clientAuth"; do
		read -r cn use <<<"$who"
		openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$cn.key" -out "$cn.csr" -subj "/CN=$cn"
		openssl x509 -req -in "$cn.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -out "$cn.crt" -days 2 \
			-extfile <(echo "keyUsage=digitalSignature"; echo "extendedKeyUsage=$use")
	done
) >"$work/pki.log" 2>&1 || { cat "$work/pki.log" >&2; fail "the PKI could not be made"; }
openvpn --genkey secret "$work/tc.key"
cat >"$work/server.conf" <<-END
	port 1194
	proto udp
	dev tun
	ca ca.crt
	cert server.crt
	key server.key
	dh none
	tls-crypt tc.key
	topology subnet
	server 10.8.0.0 255.255.255.0
	server-ipv6 fd00:8::/64
	push "route 10.66.0.0 255.255.0.0"
	keepalive 10 120
	explicit-exit-notify 1
	verb 3
END
cat >"$work/client.conf" <<-END
	client
	dev tun
	proto udp
	remote 192.0.2.1 1194
	nobind
	ca ca.crt
	cert laptop.crt
	key laptop.key
	remote-cert-tls server
	tls-crypt tc.key
	verb 3
END
sed 's/^/  /' "$work/server.conf"

heading "ovpn-xdp check server.conf"
"$bin" check --cd "$work" server.conf | sed "s#$work/##; s/^/  /" || fail "check refused it"

heading "ovpn-xdp run --config server.conf --nic eth0"
cd "$work"
nsenter --net=/run/netns/"$server" -- "$bin" run --config server.conf --nic eth0 --name "$name" --ready-file "$work/ready" >"$work/gateway.log" 2>&1 &
gateway=$!
pids+=("$gateway")
for ((i = 0; i < 100; i++)); do
	[ ! -e "$work/ready" ] || break
	kill -0 "$gateway" 2>/dev/null || fail "the gateway did not start"
	sleep 0.1
done
row "rung" "$("$bin" status --name "$name" --json | jq -r '.nics[0] | "\(.rung), \(.xdp_mode)"')"

heading "openvpn --config client.conf ($(openvpn --version | awk 'NR==1 {print $1, $2}'))"
nsenter --net=/run/netns/"$client" -- openvpn --config client.conf >"$work/client.log" 2>&1 &
pids+=("$!")
for ((i = 0; i < 200; i++)); do
	! grep -q "Initialization Sequence Completed" client.log || break
	sleep 0.1
done
grep -q "Initialization Sequence Completed" client.log || fail "the client did not connect"
grep -o "Control Channel: TLS.*\|PUSH_REPLY.*\|Initialization Sequence Completed" client.log | sed 's/^/  /'

pinged() {
	local out
	out=$(in_client ping -q -c 5 -i 0.1 -W 2 "$1") || fail "no answer from $1"
	row "ping $1" "$(sed -n 's/^\([0-9]*\) packets transmitted, \([0-9]*\) received.*/\2 of \1 answered/p' <<<"$out")"
}
in_client ping -q -c 1 -W 2 10.8.0.1 >/dev/null || true
pinged 10.8.0.1
pinged fd00:8::1
nsenter --net=/run/netns/"$server" -- iperf3 -s -B 10.8.0.1 >"$work/iperf-server.log" 2>&1 &
pids+=("$!")
for ((i = 0; i < 50; i++)); do
	[ -z "$(in_server ss -Hltn "sport = :5201")" ] || break
	sleep 0.1
done
# measured LABEL FILTER ARGUMENTS: one client run, reported through a jq filter.
measured() {
	local label=$1 filter=$2
	shift 2
	in_client timeout 20 iperf3 -c 10.8.0.1 -J "$@" >"$work/iperf.json" ||
		fail "iperf3 $*: $(jq -r '.error // "no result"' "$work/iperf.json")"
	row "$label" "$(jq -r "$filter" "$work/iperf.json")"
	jq -e '[.end.sum_received.bytes // .end.sum.bytes] | .[0] > 1000000' "$work/iperf.json" >/dev/null ||
		fail "iperf3 $*: next to nothing arrived"
}
tcp='"\(.end.sum_received.bits_per_second/1e7|round/100) Gbit/s, \(.end.sum_sent.retransmits) retransmitted"'
measured "TCP, client to gateway" "$tcp" -Z -t 4
measured "TCP, gateway to client" "$tcp" -Z -t 4 -R

heading "ovpn-xdp status"
"$bin" status --name "$name" | sed 's/^/  /'
"$bin" status --name "$name" --json >"$work/status.json"

pins=/sys/fs/bpf/ovpn-xdp/$name/eth0
heading "bpftool, $pins"
for map in listeners peers control; do
	echo "  map $(bpftool map show pinned "$pins/$map" | sed -n 1p)"
	bpftool -j map dump pinned "$pins/$map" | jq -c '.[].formatted' | sed 's/^/      /'
done

heading "Verdict"
# Two witnesses: the program's own count of redirected records and what the sockets' rings handed out.
read -r rung steered received < <(jq -r '[.nics[0].rung, .totals.in.steered, ([.nics[].rings[].received] | add)] | @tsv' "$work/status.json")
row "gateway" "rung $rung, $steered records steered, $received received from AF_XDP sockets"
case $rung in
xdp | xdp-zerocopy | tc | xdp-generic) ;;
*) fail "the gateway is on rung $rung, which has no AF_XDP socket" ;;
esac
((steered >= AT_LEAST && received >= AT_LEAST)) || fail "fewer than $AT_LEAST records went through AF_XDP"
echo
echo "  A stock OpenVPN client's traffic went through AF_XDP sockets. (${SECONDS} s)"
