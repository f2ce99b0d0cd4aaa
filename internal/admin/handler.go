// SPDX-License-Identifier: Apache-2.0

package admin

import "context"

// Handler is the gateway behind an admin socket. Every method may be called
// from several connections at once. An error that wraps *Error keeps its
// code; any other is sent with the code CodeFailed. ctx ends when the
// server closes, not when the client goes: what was asked for is finished. Requests have passed their own Validate.
type Handler interface {
	Status(ctx context.Context) (*Status, error)

	PeerAdd(ctx context.Context, p PeerAdd) error
	PeerSet(ctx context.Context, p PeerSet) error
	PeerDel(ctx context.Context, id uint32) error
	PeerGet(ctx context.Context, id uint32) (*Peer, error)
	// PeerList returns the peers in ascending order of id.
	PeerList(ctx context.Context) ([]Peer, error)

	// KeyAdd installs a key. k.Block is the caller's: copy what is kept, the
	// server clears it when KeyAdd returns.
	KeyAdd(ctx context.Context, k *KeyAdd) error
	KeySwap(ctx context.Context, peer uint32) error
	KeyDel(ctx context.Context, peer uint32, slot Slot) error
	// KeyShow returns the keys of the filled slots, primary first.
	KeyShow(ctx context.Context, peer uint32) ([]Key, error)

	// Attach moves the gateway onto a NIC's fast path and returns once
	// records take it. mode is a rung, "auto", or "": what the gateway was
	// started with.
	Attach(ctx context.Context, nic, mode string) (*NIC, error)
	// Detach returns once the NIC carries no program of the gateway.
	Detach(ctx context.Context, nic string) error

	// Subscribe starts a stream of events; the server closes it. A gateway
	// answers with Hub.Subscribe.
	Subscribe() *Subscription
}
