// SPDX-License-Identifier: Apache-2.0

// Bench compares the throughput and the processor time of ovpn-xdp, OpenVPN,
// wireguard-go and no tunnel at all on one machine.
//
// Every set-up is measured in every cell: a topology (the sender is the gateway
// itself, or a host behind it), a number of TCP flows and a direction. The
// set-ups take turns, one repetition of all before the next, so that a slow
// spell of the machine falls on all of them, and medians are reported with
// minimum and maximum.
//
// The links are veth pairs that carry frames of at most the MTU, as a wire
// does. Both ends, and iperf3, share the machine's cores: the figures tell
// programs apart, not what two machines would reach.
package main
