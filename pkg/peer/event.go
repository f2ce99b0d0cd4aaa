// SPDX-License-Identifier: Apache-2.0

package peer

import "net/netip"

// EventType names what happened to a peer.
type EventType uint8

const (
	Gone      EventType = iota // the peer was removed
	KeyWanted                  // a new key is needed
	Floated                    // the peer's remote address moved
	Exited                     // the peer said goodbye (OCC_EXIT)
)

func (t EventType) String() string {
	return [...]string{"peer_gone", "key_wanted", "float", "occ_exit"}[t]
}

// Reasons of Gone, named as the kernel driver names them.
const (
	ReasonTeardown = "teardown"
	ReasonUser     = "userspace"
	ReasonExpired  = "expired"
)

// Reasons of KeyWanted.
const (
	WhyPacketID = "packet_id" // packet ids run out
	WhyUsage    = "usage"     // the AES-GCM usage limit
	WhyFailures = "failures"  // too many records did not authenticate
	WhyKeyStore = "key_store" // used ids could not be recorded ahead of their use
	WhySameRole = "same_role" // both ends seal with the same half of the key
)

// Event is something the control plane must hear of.
type Event struct {
	Type   EventType
	Peer   *Peer
	KeyID  uint8          // KeyWanted
	Killed bool           // KeyWanted: the key no longer works
	Reason string         // Gone, KeyWanted
	Remote netip.AddrPort // Floated: the new address

	Previous netip.AddrPort // Floated: the old one; may be invalid
}

// Observer hears of changes. Both methods are called without any lock held, from
// workers too, and must not block. PeerChanged may be called concurrently and
// reads the peer's state itself, so that the latest call leaves the latest
// state; the id of a peer that is gone may belong to a newer peer by then.
type Observer interface {
	// PeerChanged says that endpoint or key ids of a peer changed, or that it
	// is gone.
	PeerChanged(p *Peer)
	// PeerEvent delivers an event.
	PeerEvent(e Event)
}
