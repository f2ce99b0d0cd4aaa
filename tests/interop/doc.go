// SPDX-License-Identifier: Apache-2.0

// Package interop tests the gateway against stock OpenVPN of several releases:
// unmodified clients in network namespaces of their own connect through a router
// to a server that reads an ordinary server.conf, and pass traffic that is counted
// and checked to the byte.
//
// The server is the binary under test (as tests/e2e finds or builds it), or a
// stock OpenVPN under the same configuration: OVPN_XDP_SERVER is one of ovpn-xdp,
// stock-2.6 and stock-2.7. What holds with a stock server and not with the gateway
// is a fault of the gateway; what fails with both is one of the test.
//
// With -short only a few combinations of the matrix run. Releases come from
// hack/stock-openvpn.sh. `go test -artifacts` keeps the whole logs of a failed test.
package interop
