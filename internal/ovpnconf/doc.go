// SPDX-License-Identifier: Apache-2.0

// Package ovpnconf reads OpenVPN's configuration files for a server and says of
// every line whether it is honoured, ignored or refused, why, and what to do
// about it. One table of options (Table) feeds the parser, the messages,
// `ovpn-xdp check` and docs/config.md.
//
// Read, FromArgs, ReadClient, Inspect, Server.Unreadable and Source.Load open files,
// and Server.Gateway resolves names and looks at devices; nothing else in
// here does I/O or looks at a clock. Values are safe for concurrent reading once
// they are returned.
package ovpnconf
