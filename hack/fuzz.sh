#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs every fuzz target of the module, one after the other.
#
#   hack/fuzz.sh [TIME]     for each target, as go test's -fuzztime (20s)
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-20s}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

fuzz() {
	local package=$1 target=$2
	echo "== ${package#github.com/*/*/} $target"
	go test -run '^$' -fuzz "^$target\$" -fuzzminimizetime 1x -fuzztime "$time" "$package" 2>&1 | tee "$log" && return
	# go test's own coordinator can lose a race with the end of the time and report just that.
	# A finding always comes with its input.
	if grep -qx ' *context deadline exceeded' "$log" && ! grep -q 'Failing input written to' "$log"; then
		echo "time was up; not a finding"
		return
	fi
	return 1
}

found=0 failed=0
while IFS=$'\t' read -r package dir; do
	targets=$(find "$dir" -maxdepth 1 -name '*_test.go' -exec sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' {} + | sort)
	for target in $targets; do
		found=$((found + 1))
		fuzz "$package" "$target" || failed=$((failed + 1))
	done
done < <(go list -f '{{.ImportPath}}{{"\t"}}{{.Dir}}' ./...)
[ $found -gt 0 ] || { echo "no fuzz target found" >&2; exit 1; }
echo "$((found - failed)) targets passed, $failed failed"
[ $failed = 0 ]
