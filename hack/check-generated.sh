#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Deletes the generated BPF objects and bindings, generates them again from a
# copy of the sources in another folder and compares: what is committed must be
# what bpf/ gives, wherever it is built. The checkout itself is not touched.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

for tool in clang-19 llvm-strip-19; do
	command -v "$tool" >/dev/null || { echo "check-generated: $tool is missing; hack/deps.sh generate installs it" >&2; exit 1; }
done

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
mkdir -p "$copy/internal"
cp -R bpf go.mod go.sum "$copy/"
cp -R internal/steer "$copy/internal/"
rm -f "$copy"/internal/steer/*_bpfel.go "$copy"/internal/steer/*_bpfel.o
(cd "$copy" && go generate ./internal/steer)

failed=0
# Names of both sides: a file that is no longer generated is a difference too.
while IFS= read -r name; do
	have=$root/internal/steer/$name
	want=$copy/internal/steer/$name
	if [ ! -f "$have" ]; then
		echo "internal/steer/$name: not in the checkout"
		failed=1
	elif [ ! -f "$want" ]; then
		echo "internal/steer/$name: no longer generated"
		failed=1
	elif ! cmp -s "$have" "$want"; then
		echo "internal/steer/$name: differs from what bpf/ gives"
		case $name in
		*.go) diff -u "$have" "$want" | head -n 60 || true ;;
		*.o)
			# The sections that differ say whether code, maps or only BTF changed.
			if command -v llvm-objdump-19 >/dev/null; then
				diff <(llvm-objdump-19 -h -d --no-show-raw-insn "$have" | tail -n +3) \
					<(llvm-objdump-19 -h -d --no-show-raw-insn "$want" | tail -n +3) | head -n 60 || true
			fi
			;;
		esac
		failed=1
	fi
done < <(find "$root/internal/steer" "$copy/internal/steer" -maxdepth 1 -name '*_bpfel.*' -printf '%f\n' | sort -u)

# What compares equal but was never added would be missing from a clone.
if git rev-parse --git-dir >/dev/null 2>&1 && [ "${CI:-}" ]; then
	git diff --exit-code --stat -- bpf internal/steer || failed=1
	untracked=$(git ls-files --others -- internal/steer | grep '_bpfel\.' || true)
	[ -z "$untracked" ] || { echo "not committed: $untracked"; failed=1; }
fi

if [ "$failed" -ne 0 ]; then
	echo "run make generate and commit the result" >&2
	exit 1
fi
echo "generated code is up to date"
