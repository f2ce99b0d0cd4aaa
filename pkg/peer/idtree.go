// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"sync/atomic"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/record"
)

// idTree maps 24-bit peer ids to peers in three steps of 8 bits. A look-up is
// three loads, whatever the number of peers; readers take no lock, writers are
// serialised by the table. Ids may be any 24 bits (a point-to-point id is
// derived from the session), so a flat array would not do: a sparse id costs two
// nodes of 2 KiB.
type idTree struct {
	root [256]atomic.Pointer[idMiddle]
}

type idMiddle struct {
	leaf [256]atomic.Pointer[idLeaf]
}

type idLeaf struct {
	peer [256]atomic.Pointer[Peer]
	used int // entries, for the writer
}

func (t *idTree) get(id uint32) *Peer {
	if id > record.PeerIDUndef {
		return nil
	}
	m := t.root[id>>16&0xff].Load()
	if m == nil {
		return nil
	}
	l := m.leaf[id>>8&0xff].Load()
	if l == nil {
		return nil
	}
	return l.peer[id&0xff].Load()
}

// add stores p under an unused id.
func (t *idTree) add(id uint32, p *Peer) {
	m := t.root[id>>16&0xff].Load()
	if m == nil {
		m = new(idMiddle)
		t.root[id>>16&0xff].Store(m)
	}
	l := m.leaf[id>>8&0xff].Load()
	if l == nil {
		l = new(idLeaf)
		m.leaf[id>>8&0xff].Store(l)
	}
	l.used++
	l.peer[id&0xff].Store(p)
}

// remove empties a used id and drops its leaf when that was the last entry. A
// reader still holding the leaf sees nil.
func (t *idTree) remove(id uint32) {
	m := t.root[id>>16&0xff].Load()
	l := m.leaf[id>>8&0xff].Load()
	l.peer[id&0xff].Store(nil)
	if l.used--; l.used == 0 {
		m.leaf[id>>8&0xff].Store(nil)
	}
}
