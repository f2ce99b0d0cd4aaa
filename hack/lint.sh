#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# gofmt, go vet, staticcheck, dependency direction (.depguard.yml) and shellcheck.
# Runs all of them and fails if one found something.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
failed=0
check() {
	local name=$1 out
	shift
	if out=$("$@" 2>&1); then
		echo "ok    $name"
	else
		echo "FAIL  $name"
		printf '%s\n' "$out" | sed 's/^/      /'
		failed=1
	fi
}

formatted() {
	local files
	files=$(git ls-files -z --cached --others --exclude-standard '*.go' | xargs -0 -r gofmt -l)
	[ -z "$files" ] || { echo "run gofmt -w on:"; echo "$files"; return 1; }
}

# The other architecture compiles too; its assembly is checked against its Go declarations.
vet_arm64() { GOARCH=arm64 CGO_ENABLED=0 go vet ./...; }

licensed() {
	local file bad=0
	while IFS= read -r -d '' file; do
		case $file in
		*_bpfel.go) continue ;; # written by bpf2go
		bpf/*) want='SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause' ;;
		*) want='SPDX-License-Identifier: Apache-2.0' ;;
		esac
		[ -f "$file" ] || continue
		head -n 3 "$file" | grep -qF "$want" || { echo "$file: first lines lack \"$want\""; bad=1; }
	done < <(git ls-files -z --cached --others --exclude-standard '*.go' '*.s' '*.sh' '*.c' '*.h')
	return "$bad"
}

# depguard says nothing about a missing configuration file but falls back to its own rules.
direction() { [ -s .depguard.yml ] && go tool depguard ./...; }

shell() {
	local files
	mapfile -d '' files < <(
		git ls-files -z --cached --others --exclude-standard '*.sh'
		printf '%s\0' .ci/run
	)
	shellcheck -x -P SCRIPTDIR "${files[@]}"
}

check gofmt formatted
check "go vet" go vet ./...
check "go vet, arm64" vet_arm64
check "go vet, tests of guests" go vet -tags guest ./tests/... ./internal/... ./pkg/...
check "go vet, PAM helper" go vet -tags pam ./cmd/ovpn-xdp-auth-pam
check staticcheck go tool staticcheck ./...
check "dependency direction" direction
check "license headers" licensed
check shellcheck shell
exit $failed
