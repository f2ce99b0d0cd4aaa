// SPDX-License-Identifier: Apache-2.0

// Package tcp carries OpenVPN packets over TCP, where each stands behind its
// length in 16 bits. A Listener accepts connections and serves any number of them
// with a few workers, one goroutine on one locked thread each, that wait in
// epoll(7): an idle connection costs neither goroutine nor buffer. Sending never
// waits for the other end: what the socket does not take goes into a bounded
// queue of the connection. The package knows nothing of what the packets carry.
package tcp
