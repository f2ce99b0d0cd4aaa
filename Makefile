# SPDX-License-Identifier: Apache-2.0

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
BIN     ?= bin/ovpn-xdp
PREFIX  ?= /usr/local
DESTDIR ?=
IMAGE   ?= ovpn-xdp:$(VERSION)

# No absolute path and no build id of the checkout, so that a version builds to the same bytes anywhere.
GO_BUILD := CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$(VERSION)"

# The one end-to-end test that is run under the race detector; the others measure time-outs
# and loss, which the detector's slowness would only blur.
RACE_E2E     ?= TestMillionRecords
TEST_TIMEOUT ?= 20m
FUZZTIME     ?= 20s
KERNELS      ?= 5.10 6.1 6.18 7
BENCH_ARGS   ?=
BENCH_OUT    ?= docs/performance

.PHONY: help
help: ## This list
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Static binary in bin/
	@mkdir -p $(dir $(BIN))
	$(GO_BUILD) -o $(BIN) ./cmd/ovpn-xdp

.PHONY: auth-pam
auth-pam: ## PAM helper for auth-user-pass-verify, in bin/
	@hack/deps.sh pam
	CGO_ENABLED=1 go build -tags pam -trimpath -buildvcs=false -ldflags "-s -w" -o $(dir $(BIN))ovpn-xdp-auth-pam ./cmd/ovpn-xdp-auth-pam

.PHONY: demo
demo: ## A stock OpenVPN client at this gateway, and what the counters say
	@hack/deps.sh demo
	@$(MAKE) --no-print-directory build
	@hack/demo.sh $(BIN)

.PHONY: lab
lab: ## The demo's two gateways left standing, with a shell in the first one
	@hack/deps.sh demo
	@$(MAKE) --no-print-directory build
	@hack/lab.sh up $(BIN)
	@hack/lab.sh shell

.PHONY: lab-down
lab-down: ## Remove what `make lab` made
	@hack/lab.sh down

.PHONY: test
test: ## Everything that one kernel can test (REQUIRE_ALL=1: a skipped test fails)
	@hack/deps.sh test pam
	@$(MAKE) --no-print-directory build
	go vet ./...
	go test -race -timeout $(TEST_TIMEOUT) ./cmd/... ./pkg/... ./internal/...
	go test -race -tags pam -timeout $(TEST_TIMEOUT) ./cmd/ovpn-xdp-auth-pam
	go test -p 1 -timeout $(TEST_TIMEOUT) ./tests/...
	go test -race -timeout $(TEST_TIMEOUT) -run '^$(RACE_E2E)' ./tests/e2e/...

.PHONY: test-kernels
test-kernels: ## Short end-to-end suite on Debian's kernels in QEMU (KERNELS="5.10 6.18")
	@hack/deps.sh kernels
	@$(MAKE) --no-print-directory build
	@hack/test-kernels.sh $(KERNELS)

.PHONY: test-dco
test-dco: ## An OpenVPN 2.7 client on the kernel's ovpn driver, in QEMU
	@hack/deps.sh kernels
	@$(MAKE) --no-print-directory build
	@hack/test-dco.sh $(BIN)

.PHONY: fuzz
fuzz: ## Every fuzz target for FUZZTIME (20s)
	@hack/fuzz.sh $(FUZZTIME)

.PHONY: generate
generate: ## Compile bpf/ and write the Go bindings (clang-19)
	@hack/deps.sh generate
	go generate ./internal/steer

.PHONY: check-generated
check-generated: ## Regenerate and compare with what is committed
	@hack/deps.sh generate
	@hack/check-generated.sh

.PHONY: lint
lint: ## gofmt, vet, staticcheck, dependency direction, shellcheck
	@hack/deps.sh lint pam
	@hack/lint.sh

.PHONY: bench
bench: ## Speed beside OpenVPN and wireguard-go; BENCH_ARGS=--quick BENCH_OUT=
	@hack/deps.sh bench
	@$(MAKE) --no-print-directory build
	go run ./tests/bench --binary $(BIN) --out $(BENCH_OUT) $(BENCH_ARGS)
	go run ./tests/bench/handshake --binary $(BIN) --out $(BENCH_OUT)

.PHONY: bench-handshake
bench-handshake: ## Handshakes per second and memory per client beside OpenVPN
	@hack/deps.sh bench
	@$(MAKE) --no-print-directory build
	go run ./tests/bench/handshake --binary $(BIN) --out $(BENCH_OUT)

.PHONY: bench-stages
bench-stages: ## Go benchmarks of each stage
	go test -run '^$$' -bench . -benchmem ./pkg/... ./internal/engine/...

.PHONY: docker
docker: ## Container image
	docker build --build-arg VERSION=$(VERSION) -t $(IMAGE) .

.PHONY: install
install: build ## Binary to PREFIX/bin (/usr/local), completion for bash, systemd unit, PAM helper if built
	install -D -m 0755 $(BIN) $(DESTDIR)$(PREFIX)/bin/ovpn-xdp
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system
	sed 's#/usr/bin/ovpn-xdp#$(PREFIX)/bin/ovpn-xdp#' packaging/systemd/ovpn-xdp@.service > $(DESTDIR)$(PREFIX)/lib/systemd/system/ovpn-xdp@.service
	[ ! -x $(dir $(BIN))ovpn-xdp-auth-pam ] || install -D -m 0755 $(dir $(BIN))ovpn-xdp-auth-pam $(DESTDIR)/usr/lib/ovpn-xdp/auth-pam
	install -d $(DESTDIR)$(PREFIX)/share/bash-completion/completions
	$(BIN) completion bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/ovpn-xdp

.PHONY: clean
clean: ## Remove what was built here
	rm -rf bin
