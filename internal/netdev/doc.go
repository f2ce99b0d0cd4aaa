// SPDX-License-Identifier: Apache-2.0

// Package netdev reads and changes network devices: links, addresses, routes,
// neighbours, features, queues and classifiers. It speaks rtnetlink and the
// ethtool ioctls and never reads /sys, since /sys/class/net shows the
// namespace that mounted it and not the caller's.
//
// Every function acts in the network namespace of the calling thread, with a
// socket of its own, and may be called from any number of goroutines. A caller
// that has changed its thread's namespace must keep the thread locked across
// the call. A Watch stays in the namespace it was started in.
package netdev
