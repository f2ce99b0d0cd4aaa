// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"net/netip"
	"time"
)

// EventType names what happened.
type EventType string

// The events.
const (
	// EventPeerGone: a peer was removed; Reason says why.
	EventPeerGone EventType = "peer_gone"
	// EventKeyWanted: a key nears its end or has reached it; Reason says
	// which limit, Key which key.
	EventKeyWanted EventType = "key_wanted"
	// EventKeyKilled: a key was taken out of use.
	EventKeyKilled EventType = "key_killed"
	// EventFloat: a peer moved from Previous to Remote.
	EventFloat EventType = "float"
	// EventOCCExit: the peer said goodbye (OCC_EXIT).
	EventOCCExit EventType = "occ_exit"
	// EventNIC: a NIC was attached, detached, lost or came back; Reason is
	// its new state, Rung the rung in use.
	EventNIC EventType = "nic"
	// EventOffload: an offload was switched off; Reason says which and why.
	EventOffload EventType = "offload"
)

// Reasons of EventPeerGone, with the names of the kernel's
// OVPN_DEL_PEER_REASON_*.
const (
	GoneTeardown  = "teardown"
	GoneUserspace = "userspace"
	GoneExpired   = "expired"
)

// Reasons of EventKeyWanted and EventKeyKilled.
const (
	// KeyPacketID: packet ids run out.
	KeyPacketID = "packet_id"
	// KeyUsage: the limit of blocks sealed or opened with one AES-GCM key.
	KeyUsage = "usage"
	// KeyFailures: too many records failed authentication.
	KeyFailures = "failures"
	// KeyStore: used packet ids could not be written down ahead of their use.
	KeyStore = "key_store"
	// KeySameRole: both ends send with the same half.
	KeySameRole = "same_role"
)

// Event is one line of the events stream. Fields that say nothing about a
// type are left out.
type Event struct {
	Version  int            `json:"version"`
	Time     time.Time      `json:"time"`
	Type     EventType      `json:"type"`
	Peer     *uint32        `json:"peer,omitempty"`
	Reason   string         `json:"reason,omitempty"`
	Remote   netip.AddrPort `json:"remote,omitzero"`
	Previous netip.AddrPort `json:"previous,omitzero"`
	Key      *EventKey      `json:"key,omitempty"`
	NIC      string         `json:"nic,omitempty"`
	Rung     string         `json:"rung,omitempty"`
	// Lost counts events dropped just before this one because this subscriber
	// did not read fast enough.
	Lost uint64 `json:"lost,omitempty"`
}

// EventKey names the key an event is about.
type EventKey struct {
	Slot  Slot  `json:"slot,omitempty"`
	KeyID uint8 `json:"key_id"`
}

// PeerEvent returns an event about a peer.
func PeerEvent(t EventType, peer uint32, reason string) Event {
	return Event{Type: t, Peer: &peer, Reason: reason}
}
