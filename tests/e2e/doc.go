// SPDX-License-Identifier: Apache-2.0

// Package e2e tests the binary from outside: gateways run in network
// namespaces joined by veth pairs, are configured by their command line, and
// carry traffic that is counted and checked. A record injector stands in for
// a peer where what arrives has to be known to the byte.
//
// OVPN_XDP_BINARY names the binary to test; without it the module is built
// once per run, with the race detector when the tests have it. With -short, or
// the build tag `guest` for virtual machines, only what depends on the kernel
// runs: it needs ip, nsenter and ping.
package e2e
