#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What hack/test-dco.sh runs in the guest; /lab has the PKI and the gateway, OPENVPN is the
# command of an OpenVPN 2.7.
set -uo pipefail
cd /lab || exit 1
fail() {
	echo "FAIL  $*"
	for log in gateway client; do echo "--- $log"; tail -n 25 $log.log; done
	exit 1
}
modprobe ovpn || fail "the kernel has no ovpn driver"
S=/run/netns/s C=/run/netns/c
for ns in s c; do ip netns add $ns && ip -n $ns link set lo up; done
ip -n s link add eth0 type veth peer name eth0 netns c
ip -n s addr add 192.0.2.1/24 dev eth0
ip -n c addr add 192.0.2.2/24 dev eth0
for ns in s c; do ip -n $ns link set eth0 up; done

cat >server.conf <<-END
	port 1194
	proto udp
	dev tun0
	ca ca.crt
	cert server.crt
	key server.key
	dh none
	tls-crypt tc.key
	server 10.8.0.0 255.255.255.0
	keepalive 5 30
	reneg-sec 10
	verb 4
END
cat >client.conf <<-END
	client
	dev tun1
	proto udp
	remote 192.0.2.1 1194
	nobind
	ca ca.crt
	cert client.crt
	key client.key
	tls-crypt tc.key
	explicit-exit-notify 1
	verb 4
END
nsenter --net=$S ./ovpn-xdp run --config server.conf --nic eth0 --name dco --ready-file ready >gateway.log 2>&1 &
for ((i = 0; i < 300; i++)); do [ ! -e ready ] || break; sleep 0.1; done
[ -e ready ] || fail "the gateway did not start"
nsenter --net=$C "$OPENVPN" --config client.conf >client.log 2>&1 &
client=$!
for ((i = 0; i < 600; i++)); do grep -q "Initialization Sequence Completed" client.log && break; sleep 0.1; done
grep -q "Initialization Sequence Completed" client.log || fail "the client did not connect"
ip -n c -d link show tun1 | grep -q ovpn || fail "the client's device is not the driver's"
echo "ok    connected, $(grep -o 'version=[^ ]*' gateway.log | tail -n 1), the client's device is the kernel's ovpn"

# lossless LABEL COUNT: pings, none of which may be lost.
lossless() {
	local out
	nsenter --net=$C ping -c 1 -W 5 10.8.0.1 >/dev/null
	out=$(nsenter --net=$C ping -q -i 0.05 -c "$2" -W 5 10.8.0.1)
	grep -q " 0% packet loss" <<<"$out" || fail "$1: $(grep loss <<<"$out")"
	echo "ok    $1: $(grep loss <<<"$out")"
}
keys() { ./ovpn-xdp status --name dco --json | jq -r '.peers[0].keys[] | select(.slot == "primary").key_id'; }
before=$(grep -c "key renegotiated" gateway.log)
lossless "through renegotiations" 600
after=$(grep -c "key renegotiated" gateway.log)
((after - before >= 2)) || fail "only $((after - before)) renegotiations in that time"
echo "ok    $((after - before)) renegotiations, key id $(keys) in use"

# Else the second address would go with the first.
nsenter --net=$C sysctl -qw net.ipv4.conf.all.promote_secondaries=1
ip -n c addr add 192.0.2.3/24 dev eth0
ip -n c addr del 192.0.2.2/24 dev eth0
for ((i = 0; i < 30; i++)); do grep -q "client floated" gateway.log && break; nsenter --net=$C ping -c 1 -W 1 10.8.0.1 >/dev/null; done
grep -q "client floated" gateway.log || fail "the client did not float"
remote=$(./ovpn-xdp status --name dco --json | jq -r '.peers[0].remote')
[[ $remote == 192.0.2.3:* ]] || fail "after the float the peer is at $remote"
before=$(grep -c "key renegotiated" gateway.log)
lossless "after the float, through renegotiations" 500
after=$(grep -c "key renegotiated" gateway.log)
((after - before >= 1)) || fail "no renegotiation after the float"
steered=$(./ovpn-xdp status --name dco --json | jq '.totals.in.steered')
((steered > 1000)) || fail "only $steered records were steered into AF_XDP sockets"
echo "ok    floated to $remote, $((after - before)) renegotiations since, $steered records steered"
kill $client
for ((i = 0; i < 100; i++)); do grep -q "client exited" gateway.log && break; sleep 0.1; done
grep -q "client exited" gateway.log || fail "the client's goodbye was not heard"
echo "ok    the client's goodbye was heard"
