// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Method names. MethodEvents turns the connection into a stream.
const (
	MethodStatus   = "status"
	MethodPeerAdd  = "peer.add"
	MethodPeerSet  = "peer.set"
	MethodPeerDel  = "peer.del"
	MethodPeerGet  = "peer.get"
	MethodPeerList = "peer.list"
	MethodKeyAdd   = "key.add"
	MethodKeySwap  = "key.swap"
	MethodKeyDel   = "key.del"
	MethodKeyShow  = "key.show"
	MethodAttach   = "attach"
	MethodDetach   = "detach"
	MethodEvents   = "events"
)

// PeerRef is the parameter of peer.get and peer.del.
type PeerRef struct {
	ID uint32 `json:"id"`
}

// KeyRef is the parameter of key.swap, key.show and, with a slot, key.del.
type KeyRef struct {
	Peer uint32 `json:"peer"`
	Slot Slot   `json:"slot,omitempty"`
}

// NICRef is the parameter of detach and, with a mode, attach.
type NICRef struct {
	NIC  string `json:"nic"`
	Mode string `json:"mode,omitempty"`
}

// PeerList is the result of peer.list.
type PeerList struct {
	Peers []Peer `json:"peers"`
}

// KeyList is the result of key.show.
type KeyList struct {
	Keys []Key `json:"keys"`
}

type none struct{}

// method is one entry of the table: how its parameters are read and what is
// called with them.
type method struct {
	// changes: the request is logged.
	changes bool
	call    func(ctx context.Context, h Handler, params json.RawMessage) (any, error)
}

// bind makes a method of fn. required are the parameters that have to be
// there, since a missing number would be read as 0, which names a peer.
func bind[P any](changes bool, required []string, fn func(context.Context, Handler, *P) (any, error)) method {
	return method{changes, func(ctx context.Context, h Handler, params json.RawMessage) (any, error) {
		var p P
		if err := decodeParams(params, required, &p); err != nil {
			return nil, err
		}
		return fn(ctx, h, &p)
	}}
}

var methods = map[string]method{
	MethodStatus: bind(false, nil, func(ctx context.Context, h Handler, _ *none) (any, error) {
		s, err := h.Status(ctx)
		if err != nil {
			return nil, err
		}
		s.complete()
		return s, nil
	}),
	MethodPeerAdd: bind(true, []string{"id"}, func(ctx context.Context, h Handler, p *PeerAdd) (any, error) {
		if err := p.Validate(); err != nil {
			return nil, err
		}
		return none{}, h.PeerAdd(ctx, *p)
	}),
	MethodPeerSet: bind(true, []string{"id"}, func(ctx context.Context, h Handler, p *PeerSet) (any, error) {
		if err := p.Validate(); err != nil {
			return nil, err
		}
		return none{}, h.PeerSet(ctx, *p)
	}),
	MethodPeerDel: bind(true, []string{"id"}, func(ctx context.Context, h Handler, p *PeerRef) (any, error) {
		if err := validatePeerID(p.ID); err != nil {
			return nil, err
		}
		return none{}, h.PeerDel(ctx, p.ID)
	}),
	MethodPeerGet: bind(false, []string{"id"}, func(ctx context.Context, h Handler, p *PeerRef) (any, error) {
		if err := validatePeerID(p.ID); err != nil {
			return nil, err
		}
		peer, err := h.PeerGet(ctx, p.ID)
		if err != nil {
			return nil, err
		}
		peer.complete()
		return peer, nil
	}),
	MethodPeerList: bind(false, nil, func(ctx context.Context, h Handler, _ *none) (any, error) {
		peers, err := h.PeerList(ctx)
		if err != nil {
			return nil, err
		}
		return PeerList{completePeers(peers)}, nil
	}),
	MethodKeyAdd: bind(true, []string{"peer", "slot", "key_id", "cipher", "role", "block"}, func(ctx context.Context, h Handler, k *KeyAdd) (any, error) {
		if k.Block != nil {
			defer k.Block.Clear()
		}
		if err := k.Validate(); err != nil {
			return nil, err
		}
		return none{}, h.KeyAdd(ctx, k)
	}),
	MethodKeySwap: bind(true, []string{"peer"}, func(ctx context.Context, h Handler, k *KeyRef) (any, error) {
		if err := validateKeyRef(k, false); err != nil {
			return nil, err
		}
		return none{}, h.KeySwap(ctx, k.Peer)
	}),
	MethodKeyDel: bind(true, []string{"peer", "slot"}, func(ctx context.Context, h Handler, k *KeyRef) (any, error) {
		if err := validateKeyRef(k, true); err != nil {
			return nil, err
		}
		return none{}, h.KeyDel(ctx, k.Peer, k.Slot)
	}),
	MethodKeyShow: bind(false, []string{"peer"}, func(ctx context.Context, h Handler, k *KeyRef) (any, error) {
		if err := validateKeyRef(k, false); err != nil {
			return nil, err
		}
		keys, err := h.KeyShow(ctx, k.Peer)
		if err != nil {
			return nil, err
		}
		if keys == nil {
			keys = []Key{}
		}
		return KeyList{keys}, nil
	}),
	MethodAttach: bind(true, []string{"nic"}, func(ctx context.Context, h Handler, p *NICRef) (any, error) {
		if err := validateNIC(p.NIC, p.Mode); err != nil {
			return nil, err
		}
		nic, err := h.Attach(ctx, p.NIC, p.Mode)
		if err != nil {
			return nil, err
		}
		nic.complete()
		return nic, nil
	}),
	MethodDetach: bind(true, []string{"nic"}, func(ctx context.Context, h Handler, p *NICRef) (any, error) {
		if err := validateNIC(p.NIC, ""); err != nil {
			return nil, err
		}
		if p.Mode != "" {
			return nil, invalid("params: detach takes no mode")
		}
		return none{}, h.Detach(ctx, p.NIC)
	}),
}

func validateKeyRef(k *KeyRef, withSlot bool) error {
	if err := validatePeerID(k.Peer); err != nil {
		return err
	}
	if withSlot {
		return k.Slot.Validate()
	}
	if k.Slot != "" {
		return invalid("params: this method takes no slot")
	}
	return nil
}

// decodeParams fills p and refuses parameters it does not know, since a
// misspelt setting that is silently ignored is worse than an error.
func decodeParams(params json.RawMessage, required []string, p any) error {
	if len(params) == 0 || bytes.Equal(params, []byte("null")) {
		params = json.RawMessage("{}")
	}
	if params[0] != '{' {
		return invalid("params: not an object")
	}
	dec := json.NewDecoder(bytes.NewReader(params))
	dec.DisallowUnknownFields()
	if err := dec.Decode(p); err != nil {
		return invalid("params: %s", decodeMessage(err))
	}
	if len(required) == 0 {
		return nil
	}
	var present map[string]json.RawMessage
	if err := json.Unmarshal(params, &present); err != nil {
		return invalid("params: %s", decodeMessage(err))
	}
	for _, raw := range present {
		defer clear(raw)
	}
	for _, name := range required {
		if raw, ok := present[name]; !ok || bytes.Equal(raw, []byte("null")) {
			return invalid("params: %q is missing", name)
		}
	}
	return nil
}

// decodeMessage says what was wrong with a JSON text without Go's names and
// without quoting a value.
func decodeMessage(err error) string {
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if e.Field == "" {
			return "not an object"
		}
		return fmt.Sprintf("%q cannot be a %s", e.Field, strings.Fields(e.Value)[0])
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

// complete turns absent lists and maps into empty ones: clients iterate over
// them.
func (s *Status) complete() {
	s.Version = Version
	s.Listeners = some(s.Listeners)
	s.NICs = some(s.NICs)
	for i := range s.NICs {
		s.NICs[i].complete()
	}
	s.Workers = some(s.Workers)
	s.Peers = completePeers(s.Peers)
	if s.Totals.Drops == nil {
		s.Totals.Drops = map[string]uint64{}
	}
	if s.Totals.In.Rungs == nil {
		s.Totals.In.Rungs = map[string]RungCount{}
	}
}

func (n *NIC) complete() {
	n.MissingQueues = some(n.MissingQueues)
	n.Rings = some(n.Rings)
	if n.Verdicts == nil {
		n.Verdicts = map[string]Verdict{}
	}
}

func completePeers(peers []Peer) []Peer {
	for i := range peers {
		peers[i].complete()
	}
	return some(peers)
}

func (p *Peer) complete() {
	p.Routes = some(p.Routes)
	p.Keys = some(p.Keys)
}

func some[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
