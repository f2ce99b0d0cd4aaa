#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Boots one of Debian's kernels in QEMU and runs a shell line in it as root. For kernels other
# than this machine's, and for virtio-net's zero-copy AF_XDP. The processor is emulated,
# also where there is a /dev/kvm, since nested ones often fail: good for function, not for speed.
#
#   hack/vm.sh prepare KERNEL                                      fetch a kernel: 5.10 6.1 6.18 7
#   hack/vm.sh run KERNEL [--file HOST:GUEST]... -- 'SHELL LINE'   exit status is the line's
#
# The guest has this machine's command-line tools, no file system but memory, lo up, and two
# virtio-net NICs, eth0 and eth1, joined back to back.
#
# Environment: VM_MEMORY   MiB (1536)
#              VM_LIMIT    seconds until the guest is given up, 125 is returned then (600)
#              VM_ACCEL    QEMU's accelerator (tcg,thread=single; kvm where it works)
#              VM_CONSOLE  also print what the kernel said
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin
cache=${XDG_CACHE_HOME:-$HOME/.cache}/ovpn-xdp/vm

# Counts changes of what a prepared kernel holds, so that older ones are made anew.
layout=2

# What the guest can run, beside what --file brings.
TOOLS="bash sh cat chmod cp cut date dd df dmesg env false find grep head hostname id kill ln ls mkdir mknod mktemp mount
	mv nproc ps pgrep readlink realpath rm rmdir sed seq setsid sleep sort stat stty sysctl tail tee test timeout touch
	tr true umount uname uniq wc xargs awk jq kmod modprobe lsmod ip tc ss bridge nsenter unshare ethtool ping nft iperf3
	bpftool openvpn openssl tcpdump"

. "$(dirname "${BASH_SOURCE[0]}")/mirror.sh"

die() { echo "vm.sh: $*" >&2; exit 1; }

# suite_of KERNEL: Debian suite and a pattern for the package.
suite_of() {
	case $1 in
	5.10) echo 'bullseye linux-image-5\.10\.[-.0-9]*-cloud-amd64' ;;
	6.1) echo 'bookworm linux-image-6\.1\.[-.0-9]*-cloud-amd64' ;;
	6.18) echo 'trixie-backports linux-image-6\.18\.[^ ]*-cloud-amd64' ;;
	7) echo 'sid linux-image-[7-9]\.[^ ]*-cloud-amd64' ;;
	*) die "kernel \"$1\": want 5.10, 6.1, 6.18 or 7" ;;
	esac
}

# fetch_kernel KERNEL DIR: newest package of the suite, unpacked below DIR/unpacked.
fetch_kernel() {
	local suite pattern dir=$2 package part
	read -r suite pattern < <(suite_of "$1")
	local apt=(-qq -o Dir::Etc::SourceList="$dir/sources.list" -o Dir::Etc::SourceParts=/dev/null
		-o Dir::State::Lists="$dir/lists" -o Dir::Cache="$dir/aptcache" -o APT::Architecture=amd64
		-o APT::Architectures=amd64 -o APT::Sandbox::User=root)
	mkdir -p "$dir/lists/partial" "$dir/aptcache/archives/partial" "$dir/debs"
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(mirror) $suite main" >"$dir/sources.list"
	# A suite that is no longer updated is as good as ever for this.
	apt-get "${apt[@]}" -o Acquire::Check-Valid-Until=false update
	package=$(apt-cache "${apt[@]}" search --names-only "^$pattern\$" | awk '{print $1}' | sort -V | tail -n 1)
	[ -n "$package" ] || die "$suite has no package like $pattern"
	# Newer packages leave image and modules to packages of their own.
	part=$(apt-cache "${apt[@]}" show "$package" | sed -n 's/^Depends: //p' | sed -n 1p | tr ',' '\n' |
		awk '$1 ~ /^linux-(binary|modules|image)-/{print $1}')
	# shellcheck disable=SC2086 # one word a package
	(cd "$dir/debs" && apt-get "${apt[@]}" download "$package" $part)
	for part in "$dir"/debs/*.deb; do dpkg-deb -x "$part" "$dir/unpacked"; done
	rm -rf "$dir/debs" "$dir/lists" "$dir/aptcache" "$dir/sources.list"
}

# pack_modules DIR: vmlinuz and an archive of the modules that networking needs.
pack_modules() {
	local dir=$1 image tree version
	image=$(find "$dir/unpacked" -type f -name 'vmlinuz*' | sed -n 1p)
	[ -n "$image" ] || die "no kernel image in the package"
	tree=$(find "$dir/unpacked" -type d -path '*/lib/modules/*' -name kernel | sed -n 1p)
	version=$(basename "$(dirname "$tree")")
	mkdir -p "$dir/tree/usr/lib/modules/$version/kernel/drivers/net"
	(
		cd "$tree"
		local part
		for part in net lib crypto arch drivers/virtio drivers/net/bonding drivers/net/ovpn; do
			[ ! -e "$part" ] || cp -a --parents "$part" "$dir/tree/usr/lib/modules/$version/kernel/"
		done
		find drivers/net -maxdepth 1 -type f -exec cp -a --parents {} "$dir/tree/usr/lib/modules/$version/kernel/" \;
		# Newer packages leave them out; depmod wants to see them.
		touch ../modules.builtin ../modules.builtin.modinfo ../modules.order
		cp -a ../modules.builtin ../modules.builtin.modinfo ../modules.order "$dir/tree/usr/lib/modules/$version/"
	)
	# Their dependencies, read where the guest will find them.
	ln -s usr/lib "$dir/tree/lib"
	depmod -b "$dir/tree" "$version"
	rm "$dir/tree/lib"
	(cd "$dir/tree" && find . -print0 | cpio --null -o -H newc --quiet) >"$dir/modules.cpio"
	cp "$image" "$dir/vmlinuz"
	echo "$version" >"$dir/version"
	echo $layout >"$dir/layout"
	rm -rf "$dir/unpacked" "$dir/tree"
}

# pack_tools FILE: this machine's tools and the libraries they load, as an archive.
pack_tools() {
	local tree tool path lib
	tree=$(mktemp -d)
	mkdir -p "$tree"/usr/{bin,lib,lib64} "$tree"/{dev,proc,sys,run,tmp,root,etc,var/lib,var/run}
	ln -s bin "$tree/usr/sbin" # where the kernel looks for modprobe
	for lib in bin sbin lib lib64; do ln -s "usr/$lib" "$tree/$lib"; done
	for tool in $TOOLS; do
		path=$(type -P "$tool") || continue
		cp -aL --remove-destination "$(readlink -f "$path")" "$tree/usr/bin/$tool"
		# "libx.so => /path (address)" or the loader's "/path (address)".
		while read -r lib; do
			[ -e "$tree$lib" ] || { mkdir -p "$tree$(dirname "$lib")"; cp -L "$lib" "$tree$lib"; }
		done < <(ldd "$path" 2>/dev/null | grep -o '/[^ ]*')
	done
	# Loaded by name at run time, so ldd does not list them: cipher providers, tc's distributions.
	for path in /usr/lib/*-linux-gnu/ossl-modules /usr/lib/tc /etc/iproute2 /etc/protocols /etc/services /etc/ssl/openssl.cnf; do
		[ -e "$path" ] || continue
		mkdir -p "$tree$(dirname "$path")"
		cp -RL "$path" "$tree$path"
	done
	echo 'root:x:0:0:root:/root:/bin/sh' >"$tree/etc/passwd"
	echo '127.0.0.1 localhost' >"$tree/etc/hosts"
	(cd "$tree" && find . -print0 | cpio --null -o -H newc --quiet) >"$1"
	rm -rf "$tree"
}

prepare() {
	local kernel=$1 dir=$cache/$1
	suite_of "$kernel" >/dev/null
	[ "$(uname -m)" = x86_64 ] || die "written for amd64 machines"
	mkdir -p "$cache"
	# Two checkouts share the cache.
	exec 9>"$cache/$kernel.lock"
	flock 9
	if [ "$(cat "$dir/layout" 2>/dev/null)" != $layout ]; then
		rm -rf "$dir"
		mkdir -p "$dir"
		fetch_kernel "$kernel" "$dir" >&2
		pack_modules "$dir"
	fi
	flock -u 9
}

write_init() {
	cat >"$1" <<-'END'
		#!/bin/sh
		export PATH=/usr/bin HOME=/root TERM=dumb
		mount -t proc proc /proc
		mount -t sysfs sys /sys
		mount -t devtmpfs dev /dev 2>/dev/null
		mkdir -p /dev/pts /dev/shm /dev/net
		mount -t devpts pts /dev/pts
		mount -t tmpfs tmp /run
		mount -t tmpfs tmp /tmp
		mount -t bpf bpf /sys/fs/bpf
		mount -t cgroup2 cgroup /sys/fs/cgroup 2>/dev/null
		ln -s /proc/self/fd /dev/fd 2>/dev/null
		for m in virtio_pci virtio_net tun veth; do modprobe -q $m; done
		[ -e /dev/net/tun ] || mknod /dev/net/tun c 10 200
		hostname guest
		ip link set lo up
		# The command's line, apart from the console: no kernel message falls in between.
		stty -F /dev/ttyS1 raw -echo
		cd /root
		setsid sh /vm-command </dev/null >/dev/ttyS1 2>&1
		echo "vm-exit $?" >/dev/ttyS1
		stty -F /dev/ttyS1 -clocal 2>/dev/null
		sleep 0.2
		# With -no-reboot this ends the emulator.
		echo b >/proc/sysrq-trigger
	END
	chmod +x "$1"
}

run() {
	local kernel=$1 dir=$cache/$1 host guest rc=0
	shift
	prepare "$kernel"
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	mkdir "$work/tree"
	while [ "${1:-}" = --file ]; do
		host=${2%:*} guest=${2##*:}
		mkdir -p "$work/tree/$(dirname "$guest")"
		cp -aL "$host" "$work/tree/$guest"
		shift 2
	done
	[[ $# = 2 && $1 = -- ]] || die "usage: run KERNEL [--file HOST:GUEST]... -- 'SHELL LINE'"
	printf '%s\n' "$2" >"$work/tree/vm-command"
	write_init "$work/tree/init"
	pack_tools "$work/initrd"
	cat "$dir/modules.cpio" >>"$work/initrd"
	(cd "$work/tree" && find . -print0 | cpio --null -o -H newc --quiet) >>"$work/initrd"

	local nic=virtio-net-pci,romfile=,disable-legacy=on,queue_reset=on
	# Zero-copy needs the driver to use the DMA API, which it does for a device behind an IOMMU.
	nic+=,iommu_platform=on
	# One thread for all processors: with one each, a processor may still run an instruction that
	# the other has just patched (static keys, as XDP and qdiscs flip them), which ends in a panic.
	# shellcheck disable=SC2054 # QEMU's own commas
	local arguments=(-accel "${VM_ACCEL:-tcg,thread=single}" -machine q35 -cpu max -smp 2 -m "${VM_MEMORY:-1536}"
		-nodefaults -no-user-config -display none -no-reboot -monitor none
		-serial "file:$work/console" -serial stdio
		-kernel "$dir/vmlinuz" -initrd "$work/initrd"
		-append 'console=ttyS0 quiet panic=-1 net.ifnames=0 mitigations=off'
		-netdev hubport,id=h0,hubid=1 -device "$nic,netdev=h0,mac=52:54:00:00:00:01"
		-netdev hubport,id=h1,hubid=1 -device "$nic,netdev=h1,mac=52:54:00:00:00:02")
	timeout "${VM_LIMIT:-600}" qemu-system-x86_64 "${arguments[@]}" </dev/null 2>"$work/errors" |
		awk '/^vm-exit [0-9]+$/ {rc = $2; seen = 1; next} {print; fflush()} END {exit seen ? rc : 125}' || rc=$?
	if [ $rc = 125 ] || [ -n "${VM_CONSOLE:-}" ]; then
		tail -n 100 "$work/console" | tr -d '\r' >&2
		cat "$work/errors" >&2
		[ $rc != 125 ] || echo "vm.sh: the guest did not finish" >&2
	fi
	return $rc
}

case ${1:-} in
prepare) [ $# = 2 ] || die "usage: prepare KERNEL"; prepare "$2"; echo "$2: $(<"$cache/$2/version")" ;;
run) shift; run "$@" ;;
*) sed -n '4,17s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
