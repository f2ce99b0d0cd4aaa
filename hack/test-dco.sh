#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The kernel's own ovpn driver as a peer: an OpenVPN 2.7 client with data channel offload and this
# gateway in two namespaces of one guest, on Debian's kernel 6.18 in QEMU, through
# renegotiations and a float, with nothing lost.
#
#   hack/test-dco.sh [BINARY]
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$(realpath "${1:-bin/ovpn-xdp}")
kernel=6.18

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
hack/vm.sh prepare $kernel >/dev/null
openvpn27=$(hack/stock-openvpn.sh 2.7 | tail -n 1)

mkdir "$work/lab"
(
	cd "$work/lab"
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.crt -subj /CN=dco-ca -days 2
	for who in "server serverAuth" "client clientAuth"; do
		read -r cn use <<<"$who"
		openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$cn.key" -out "$cn.csr" -subj "/CN=$cn"
		openssl x509 -req -in "$cn.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -out "$cn.crt" -days 2 \
			-extfile <(echo "keyUsage=digitalSignature"; echo "extendedKeyUsage=$use")
	done
	openvpn --genkey secret tc.key
) >"$work/pki.log" 2>&1 || { cat "$work/pki.log" >&2; exit 1; }
cp "$bin" "$work/lab/ovpn-xdp"
cp hack/dco-guest.sh "$work/lab/run"

VM_LIMIT=${VM_LIMIT:-600} VM_MEMORY=${VM_MEMORY:-2048} hack/vm.sh run $kernel \
	--file "$work/lab:/lab" --file "$(dirname "$openvpn27"):$(dirname "$openvpn27")" -- "OPENVPN=$openvpn27 bash /lab/run"
