#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes a stock OpenVPN of another release runnable on this Debian machine, for tests with
# real peers, and prints the path of a command that runs it.
#
#   hack/stock-openvpn.sh RELEASE [DIR]     RELEASE: 2.5 2.6 2.7
#
# 2.5 is Debian 11's, 2.6 Debian 12's, 2.7 unstable's. The package and all it depends on, down
# to the C library, are unpacked into DIR and started through that release's own loader, so
# that it sees the machine's files and runs in any network namespace. Nothing is installed.
#
# DIR is made once (15 MB download, 5 s) and kept: CACHE/stock/RELEASE unless it is given. Two
# runs may go on at once, and one that was interrupted goes on with what it had fetched.
#
# Environment: OVPN_XDP_CACHE  folder for what is fetched once (XDG_CACHE_HOME/ovpn-xdp)
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin

. "$(dirname "${BASH_SOURCE[0]}")/mirror.sh"

die() { echo "stock-openvpn.sh: $*" >&2; exit 1; }

suite_of() {
	case $1 in
	2.5) echo bullseye ;;
	2.6) echo bookworm ;;
	2.7) echo sid ;;
	*) die "release \"$1\": want 2.5, 2.6 or 2.7" ;;
	esac
}

# fetch SUITE DIR ARCHITECTURE: the package and its dependencies, as for a machine that has nothing.
fetch() {
	local suite=$1 dir=$2 arch=$3
	local apt=(-qq -o Dir::Etc::SourceList="$dir/sources.list" -o Dir::Etc::SourceParts=/dev/null
		-o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null
		-o Dir::State="$dir/state" -o Dir::State::Status="$dir/state/status" -o Dir::Cache="$dir/cache"
		-o APT::Architecture="$arch" -o APT::Architectures="$arch" -o APT::Sandbox::User=root)
	mkdir -p "$dir/state/lists/partial" "$dir/cache/archives/partial"
	: >"$dir/state/status"
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(mirror) $suite main" >"$dir/sources.list"
	# A suite that is no longer updated is as good as ever for this.
	apt-get "${apt[@]}" -o Acquire::Check-Valid-Until=false update
	apt-get "${apt[@]}" -y --download-only --no-install-recommends install openvpn </dev/null
}

# command_in DIR: a command that runs DIR's openvpn with DIR's libraries. The machine's
# configuration of OpenSSL is for another release of it and stays out.
command_in() {
	local dir=$1 loader libraries modules
	loader=$(find "$dir/" -path '*-linux-gnu/*' -name 'ld-linux-*.so.*' | sed -n 1p)
	[ -n "$loader" ] || die "no loader in $dir"
	libraries=$(find "$dir/" -type d -path '*/lib/*-linux-gnu' -printf '%p:')
	modules=$(find "$dir/" -type d -name ossl-modules) # OpenSSL 1.1 has none
	cat >"$dir/openvpn.new" <<-END
		#!/bin/sh
		export OPENSSL_CONF=/dev/null OPENSSL_MODULES='$modules'
		exec '$loader' --library-path '${libraries%:}' '$dir/usr/sbin/openvpn' "\$@"
	END
	chmod +x "$dir/openvpn.new"
	mv "$dir/openvpn.new" "$dir/openvpn"
}

# is RELEASE DIR: whether DIR's command runs and is of the release.
# --version exits with 1 in all of them.
is() { [ -x "$2/openvpn" ] && [[ $("$2/openvpn" --version 2>&1 | sed -n 1p) == "OpenVPN $1."* ]]; }

case $# in 1 | 2) ;; *) sed -n '4,18s/^# \{0,1\}//p' "$0"; exit 2 ;; esac
release=$1
suite=$(suite_of "$release")
cache=${OVPN_XDP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ovpn-xdp}
dir=$(realpath -m "${2:-$cache/stock/$release}")
mkdir -p "$(dirname "$dir")"

exec 9>"$dir.lock"
flock 9
if ! is "$release" "$dir"; then
	for tool in apt-get dpkg-deb; do
		command -v $tool >/dev/null || die "needs Debian's $tool"
	done
	# Made anew below, so it must not be somebody's folder of something else.
	[ -e "$dir/usr/sbin/openvpn" ] || [ -z "$(ls -A "$dir" 2>/dev/null)" ] || die "$dir is not empty"
	fetch "$suite" "$dir.part" "$(dpkg --print-architecture)" >&2
	rm -rf "$dir"
	mkdir -p "$dir/usr/sbin"
	# The test above knows an unpacking that was cut short by it.
	touch "$dir/usr/sbin/openvpn"
	for package in "$dir.part"/cache/archives/*.deb; do dpkg-deb -x "$package" "$dir"; done
	command_in "$dir"
	is "$release" "$dir" || die "$dir/openvpn is not of release $release: $("$dir/openvpn" --version 2>&1 | sed -n 1p)"
	rm -rf "$dir.part"
fi
echo "$dir/openvpn"
