// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/engine"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/coalesce"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/packet"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/peer"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/reason"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/record"
)

// direction is one receiving end: the peer table of a gateway that holds one
// peer, and the opener that serves it.
type direction struct {
	// openers: a peer has two key slots, so a session of more than two keys
	// needs a table for each two. byKey says which one has a key id; ids that
	// none has go to the first.
	openers []*engine.Opener
	byKey   [record.MaxKeyID + 1]*engine.Opener

	using   *engine.Opener // of the burst being collected
	burst   []coalesce.Record
	times   []time.Time
	starts  []*byte // where each record's plaintext will be
	clock   int64   // monotonic ns of the burst's first record
	session *session
	result  *Direction
}

// newDirection makes the receiving end of one direction; reverse: the client.
func newDirection(o *Options, keys *Keys, reverse bool, result *Direction, s *session) (*direction, error) {
	d := &direction{session: s, result: result}
	result.hash = sha256.New()
	for i := 0; i < len(keys.Keys); i += 2 {
		table := peer.NewTable(true, quiet{})
		p, err := table.Add(peer.Config{ID: keys.PeerID}, 1)
		if err != nil {
			return nil, fmt.Errorf("replay: %w", err)
		}
		opener := engine.NewOpener(table, d, o.Batch, o.Prefetch)
		d.openers = append(d.openers, opener)
		for slot, k := range keys.Keys[i:min(i+2, len(keys.Keys))] {
			material := k.ClientToServer
			if reverse {
				material = k.ServerToClient
			}
			// Nothing is sent, so any key will do for that; not the session's
			// own, since a record that opens with it would count as a sign of
			// two ends with one role.
			unused := make([]byte, keys.Cipher.KeyLen())
			_, _ = rand.Read(unused)
			key, err := peer.NewKey(peer.KeyConfig{ID: k.ID, Cipher: keys.Cipher, Send: unused, Receive: material.Key, RecvIV: material.IV})
			if err != nil {
				return nil, fmt.Errorf("replay: install key %d: %w", k.ID, err)
			}
			if err := p.SetKey(peer.Slot(slot), key); err != nil {
				return nil, fmt.Errorf("replay: install key %d: %w", k.ID, err)
			}
			d.byKey[k.ID] = opener
		}
	}
	return d, nil
}

// quiet hears nothing: the table's only reader is this package.
type quiet struct{}

func (quiet) PeerChanged(*peer.Peer) {}
func (quiet) PeerEvent(peer.Event)   {}

func (d *direction) openerFor(payload []byte) *engine.Opener {
	if len(payload) >= record.HeaderLen {
		if o := d.byKey[record.KeyID(binary.BigEndian.Uint32(payload))]; o != nil {
			return o
		}
	}
	return d.openers[0]
}

// fits reports whether a record may join the burst being collected. One outer
// flow at a time: within a flow records are completed in order of arrival.
func (d *direction) fits(o *engine.Opener, flow packet.Flow, now int64) bool {
	if len(d.burst) == 0 {
		return true
	}
	first := &d.burst[0].Flow
	return o == d.using && len(d.burst) < engine.MaxBurst && now-d.clock < int64(burstTime) &&
		flow.Src == first.Src && flow.Dst == first.Dst
}

// add appends a record that fits. Its bytes are kept until flush.
func (d *direction) add(o *engine.Opener, flow packet.Flow, payload []byte, at time.Time, now int64) {
	if len(d.burst) == 0 {
		d.using, d.clock = o, now
	}
	d.burst = append(d.burst, coalesce.Record{Flow: flow, Data: payload})
	if len(payload) >= record.MinLen {
		d.times = append(d.times, at)
		d.starts = append(d.starts, &payload[record.Overhead])
	}
}

// flush opens the burst.
func (d *direction) flush() {
	if len(d.burst) > 0 {
		d.using.Burst(d.burst, d.clock, false)
	}
	d.burst, d.times, d.starts = d.burst[:0], d.times[:0], d.starts[:0]
}

// Opened takes the plaintexts of one batch, in order of arrival. It is called
// by the opener only.
func (d *direction) Opened(_ *peer.Peer, plain [][]byte) {
	next := 0
	for _, p := range plain {
		d.result.Opened++
		d.result.Bytes += uint64(len(p))
		_, _ = d.result.hash.Write(p)
		// Batches of one flow come in order, so the search never goes back.
		for d.starts[next] != &p[0] {
			next++
		}
		if record.IsKeepalive(p) {
			d.result.Keepalive++
			continue
		}
		if d.session.inner != nil {
			d.session.inner.write(d.times[next], p)
		}
	}
}

// count adds up the drops of all openers.
func (d *direction) count() {
	for _, o := range d.openers {
		for why, n := range map[reason.Reason]*uint64{
			reason.BadRecord:   &d.result.BadRecord,
			reason.UnknownPeer: &d.result.UnknownPeer,
			reason.NoKey:       &d.result.NoKey,
			reason.Auth:        &d.result.Auth,
			reason.Replay:      &d.result.Replay,
		} {
			*n += o.Counters.Drops[why].Load()
		}
	}
}
