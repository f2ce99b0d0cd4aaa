#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the short form of the tests that depend on the kernel inside QEMU, on Debian's kernels,
# and on those whose virtio-net grants it the zero-copy rung.
#
#   hack/test-kernels.sh [KERNEL...]     5.10 6.1 6.18 7
#
# Environment: PACKAGES  what to run, below the module's root
#              RUN       pattern of tests (all)
#
# Tests are built with the tag `guest`; TestZeroCopy* are those that need eth0 and eth1 of
# hack/vm.sh, and run with REQUIRE_ALL=1 where zero-copy has to be granted.
set -euo pipefail
cd "$(dirname "$0")/.."
packages=${PACKAGES:-internal/netdev internal/steer pkg/xsk pkg/tun pkg/udp tests/e2e}
kernels=("$@")
[ $# -gt 0 ] || kernels=(5.10 6.1 6.18 7)
zero_copy='6.18 7'

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CGO_ENABLED=0 GOARCH=amd64

# One folder that the guest gets as /src: what tests expect around them, and their binaries.
mkdir -p "$work/src/bin"
go build -trimpath -buildvcs=false -o "$work/src/bin/ovpn-xdp" ./cmd/ovpn-xdp
for package in $packages; do
	mkdir -p "$work/src/$package"
	go test -c -trimpath -tags guest -o "$work/src/$package/guest.test" "./$package"
	[ ! -d "$package/testdata" ] || cp -a "$package/testdata" "$work/src/$package/"
done

# Some tests compare what is documented or declared with what is loaded.
for folder in docs bpf; do [ ! -d $folder ] || cp -a $folder "$work/src/"; done

cat >"$work/src/run" <<'END'
#!/bin/bash
# run PACKAGE NAME ARGUMENTS: one test binary, reported in a line, with its output if it failed.
package=$1 name=$2
shift 2
cd "/src/$package" || exit
[ -x guest.test ] || { echo "FAIL  $name: not built"; exit 1; }
from=$SECONDS
# The limit of the test binary prints where everybody stood, which the one of vm.sh cannot.
PATH=/src/bin:$PATH OVPN_XDP_BIN=/src/bin/ovpn-xdp ./guest.test -test.v -test.short -test.timeout 540s "$@" >/tmp/out 2>&1
rc=$?
count() { grep -c "^--- $1" /tmp/out; }
if [ $rc = 0 ] && [ "$(count PASS)" = 0 ] && [ "$(count SKIP)" = 0 ] && [ -z "$EMPTY_OK" ]; then
	echo "FAIL  $name: ran no test"
	exit 1
fi
summary="$(count PASS) passed, $(count FAIL) failed, $(count SKIP) skipped, $((SECONDS - from)) s"
# With -test.v a test's messages stand before its result. What is only too long for here needs no mention.
awk '/^ *--- SKIP: / && before !~ /not part of the short suite/ {print "      skipped " $3 ":" before} {before = $0}' /tmp/out
if [ $rc = 0 ]; then
	echo "ok    $name: $summary"
else
	if grep -q '^panic: \|^fatal error: ' /tmp/out; then
		tail -n 150 /tmp/out
	else
		# All that a failed test said, and nothing of the others.
		awk '/^=== RUN +[^\/]+$/ {said = ""} {said = said $0 "\n"} /^--- FAIL: / {printf "%s", said}' /tmp/out | tail -n 300
	fi
	echo "FAIL  $name: $summary"
fi
exit $rc
END
chmod +x "$work/src/run"

passed=0 failed=0
for kernel in "${kernels[@]}"; do
	hack/vm.sh prepare "$kernel" >/dev/null
	echo "== kernel $kernel"
	line="rc=0; run=\"-test.run=${RUN:-.}\"; "
	for package in $packages; do
		line+="/src/run $package $package \"\$run\" '-test.skip=^TestZeroCopy' || rc=1; "
	done
	if [[ " $zero_copy " == *" $kernel "* && " $packages " == *" tests/e2e "* ]]; then
		line+="REQUIRE_ALL=1 /src/run tests/e2e 'zero-copy on virtio-net' '-test.run=^TestZeroCopy' || rc=1; "
	fi
	if VM_LIMIT=${VM_LIMIT:-1200} hack/vm.sh run "$kernel" --file "$work/src:/src" -- \
		"uname -r; export EMPTY_OK=${RUN:+1}; $line exit \$rc"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
	fi
done
echo "kernels: $passed passed, $failed failed"
[ $failed = 0 ]
