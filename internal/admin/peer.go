// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"net/netip"
	"time"
)

// MaxPeerID is the highest id a peer can have: 0xffffff on the wire means
// "no id" and is answered by address.
const MaxPeerID = 0xfffffe

// Keepalive is in whole seconds; both zero: off, and never only one.
type Keepalive struct {
	// Interval without sending after which a ping is sent.
	Interval int `json:"interval"`
	// Timeout without an authentic record after which the peer is removed.
	Timeout int `json:"timeout"`
}

// PeerAdd is the parameter of peer.add.
type PeerAdd struct {
	ID uint32 `json:"id"`
	// TxID is the peer id written into records sent to this peer, when it is
	// not ID.
	TxID *uint32 `json:"tx_id,omitempty"`
	// Remote is where records are sent; zero: learned from the first
	// authentic record.
	Remote netip.AddrPort `json:"remote,omitzero"`
	// Local is the address records leave from; zero: the one the peer used
	// last, else the routing table's choice.
	Local     netip.Addr     `json:"local,omitzero"`
	Routes    []netip.Prefix `json:"routes,omitempty"`
	Keepalive Keepalive      `json:"keepalive,omitzero"`
}

// PeerSet is the parameter of peer.set: nil leaves a setting as it is.
type PeerSet struct {
	ID     uint32          `json:"id"`
	Remote *netip.AddrPort `json:"remote,omitempty"`
	Local  *netip.Addr     `json:"local,omitempty"`
	// Routes replaces all routes of the peer.
	Routes *[]netip.Prefix `json:"routes,omitempty"`
	// Keepalive also restarts both timers.
	Keepalive *Keepalive `json:"keepalive,omitempty"`
}

// Traffic counts one direction of a peer.
type Traffic struct {
	Records uint64 `json:"records"`
	Bytes   uint64 `json:"bytes"`
}

// Peer is what peer.get, peer.list and status tell of a peer.
type Peer struct {
	ID uint32 `json:"id"`
	// Name is the client's common name or username; "" without a control channel.
	Name string `json:"name,omitempty"`
	// Transport is "udp" or "tcp". Records on TCP do not use AF_XDP.
	Transport string         `json:"transport"`
	TxID      *uint32        `json:"tx_id,omitempty"`
	Remote    netip.AddrPort `json:"remote"`
	Local     netip.Addr     `json:"local"`
	Routes    []netip.Prefix `json:"routes"`
	Keepalive Keepalive      `json:"keepalive"`
	Keys      []Key          `json:"keys"`
	// In and Out count inner packets and their bytes; LinkIn and LinkOut
	// whole records, keepalives included, without IP and UDP headers.
	In      Traffic `json:"in"`
	Out     Traffic `json:"out"`
	LinkIn  Traffic `json:"link_in"`
	LinkOut Traffic `json:"link_out"`
	// LastReceived is the time of the last authentic record; zero: none yet.
	LastReceived time.Time `json:"last_received,omitzero"`
	LastSent     time.Time `json:"last_sent,omitzero"`
}
