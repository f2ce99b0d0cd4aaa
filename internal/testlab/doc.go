// SPDX-License-Identifier: Apache-2.0

// Package testlab lays networks of Linux namespaces for tests and benchmarks
// and removes them again.
//
// A test takes New, whose labs end with the test and whose failures fail it. A
// program takes Open and Close, and the methods that return errors. Namespaces
// are named ovx-<random>-<name> and bound to /run/netns, so that `ip netns` and
// `nsenter --net=` see them; several labs, also of other processes, stand side
// by side. Commands enter with nsenter and not with `ip netns exec`, which would
// hide the host's bpffs behind a fresh /sys.
package testlab
