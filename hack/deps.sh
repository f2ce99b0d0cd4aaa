#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs the Debian packages that a make target needs and that are missing.
#
#   hack/deps.sh GROUP...     GROUP: demo test lint generate pam bench kernels
#
# On Debian as root it installs; anywhere else it prints what is missing and exits 1.
# Quiet and without network access when nothing is missing.
set -euo pipefail

# One package a line: name, and a command or file that shows it is there on systems
# without dpkg (a word with a slash is a file, "-" cannot be told).
packages_for() {
	case $1 in
	demo) cat <<-END ;;
		iproute2 ip
		iputils-ping ping
		iperf3 iperf3
		ethtool ethtool
		bpftool bpftool
		jq jq
		procps ps
		util-linux nsenter
		openvpn openvpn
		openssl openssl
	END
	test) packages_for demo; cat <<-END ;;
		gcc gcc
		libc6-dev /usr/include/stdlib.h
		nftables nft
		tcpdump tcpdump
		kmod modprobe
		debian-archive-keyring /usr/share/keyrings/debian-archive-keyring.gpg
	END
	lint) cat <<-END ;;
		shellcheck shellcheck
	END
	# Debian's clang-19 is the pinned compiler: the committed objects are its output, byte for byte.
	generate) cat <<-END ;;
		clang-19 clang-19
		llvm-19 llvm-strip-19
		libbpf-dev /usr/include/bpf/bpf_helpers.h
		linux-libc-dev /usr/include/linux/bpf.h
		gcc gcc
		git git
	END
	pam) cat <<-END ;;
		gcc gcc
		libc6-dev /usr/include/stdlib.h
		libpam0g-dev /usr/include/security/pam_appl.h
	END
	bench) packages_for demo; cat <<-END ;;
		wireguard-tools wg
	END
	kernels) cat <<-END ;;
		qemu-system-x86 qemu-system-x86_64
		debootstrap debootstrap
		cpio cpio
		xz-utils xz
		zstd zstd
		kmod depmod
		openvpn openvpn
		openssl openssl
		debian-archive-keyring /usr/share/keyrings/debian-archive-keyring.gpg
	END
	*) echo "deps.sh: unknown group \"$1\"; groups: demo test lint generate pam bench kernels" >&2; return 2 ;;
	esac
}

[ $# -gt 0 ] || { sed -n '4,9s/^# \{0,1\}//p' "$0"; exit 2; }
PATH=$PATH:/usr/sbin:/sbin
list=$(for group in "$@"; do packages_for "$group" || exit; done) || exit
list=$(sort -u <<<"$list")

# Debian's own package names hold on Debian only; its dpkg also exists on other systems.
debian=false
if [ -r /etc/os-release ] && grep -qx 'ID=debian' /etc/os-release && command -v dpkg-query >/dev/null; then
	debian=true
fi

missing=()
if $debian; then
	installed=$(dpkg-query -W -f='${db:Status-Abbrev}${Package}\n' 2>/dev/null | sed -n 's/^ii //p')
	while read -r package _; do
		grep -qx -- "$package" <<<"$installed" || missing+=("$package")
	done <<<"$list"
else
	while read -r package probe; do
		case $probe in
		*/*) [ -e "$probe" ] || missing+=("$package") ;;
		*) command -v "$probe" >/dev/null || missing+=("$package") ;;
		esac
	done <<<"$list"
fi

if ! command -v go >/dev/null; then
	echo "deps.sh: Go is not installed or not in PATH; go.mod names the version" >&2
	exit 1
fi
[ ${#missing[@]} -gt 0 ] || exit 0

if ! $debian || [ "$(id -u)" != 0 ]; then
	$debian && why="not root" || why="not Debian, names may differ here"
	echo "deps.sh: missing ($why): ${missing[*]}" >&2
	$debian && echo "as root: apt-get install --no-install-recommends ${missing[*]}" >&2
	exit 1
fi

echo "installing ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
# Another checkout may be installing too: wait for its lock.
apt=(apt-get -qq -y -o DPkg::Lock::Timeout=300)
# A foreign source that cannot be reached must not stand in the way of Debian's own.
"${apt[@]}" update >"$log" 2>&1 || { echo "apt-get update reports:"; tail -n 3 "$log"; } >&2
if ! "${apt[@]}" install --no-install-recommends "${missing[@]}" >"$log" 2>&1 </dev/null; then
	tail -n 20 "$log" >&2
	echo "deps.sh: could not install ${missing[*]}" >&2
	exit 1
fi
