// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/aead"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/coalesce"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/packet"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/peer"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/reason"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/record"
)

// script is a row of choices; a spent one goes on with zeros.
type script []byte

func (s *script) next() int {
	if len(*s) == 0 {
		return 0
	}
	b := (*s)[0]
	*s = (*s)[1:]
	return int(b)
}

// modelPeer is what the model knows of one peer: an outer flow, a key, and all
// ids ever accepted.
type modelPeer struct {
	flow    packet.Flow
	far     *remote
	seen    map[uint32]bool
	highest uint32
	sent    [][]byte // records as they were sent, to be replayed
}

// accept is the replay rule, told record by record.
func (m *modelPeer) accept(id uint32) bool {
	if id == 0 || m.seen[id] || (id <= m.highest && m.highest-id >= 2048) {
		return false
	}
	m.seen[id] = true
	m.highest = max(m.highest, id)
	return true
}

// model predicts what becomes of each record, one at a time.
type model struct {
	peers []*modelPeer
	fates drops
	plain map[packet.Flow][][]byte // of accepted records, in order of arrival
	total uint64
}

// step makes one record by the script and notes its fate.
func (m *model) step(s *script, serial uint32) coalesce.Record {
	me := m.peers[s.next()%len(m.peers)]
	other := m.peers[(slices.Index(m.peers, me)+1)%len(m.peers)]
	plain := text(1+(s.next()<<8|s.next())%1400, serial)
	far, flow := me.far, me.flow
	m.total++
	fail := func(b []byte, r reason.Reason) coalesce.Record {
		m.fates[r]++
		return coalesce.Record{Flow: flow, Data: b}
	}
	judge := func(b []byte, id uint32) coalesce.Record {
		if !me.accept(id) {
			return fail(b, reason.Replay)
		}
		m.plain[flow] = append(m.plain[flow], bytes.Clone(plain))
		return coalesce.Record{Flow: flow, Data: b}
	}
	fresh := func() uint32 { far.next++; return far.next - 1 }
	switch s.next() % 16 {
	case 0: // one bit turned, anywhere behind the header word
		b := far.sealAs(far.word(), fresh(), plain)
		at := 4 + (s.next()<<8|s.next())%(len(b)-4)
		b[at] ^= 1 << (s.next() % 8)
		return fail(b, reason.Auth)
	case 1: // cut short
		b := far.sealAs(far.word(), fresh(), plain)
		b = b[:4+(s.next()<<8|s.next())%(len(b)-4)]
		if len(b) < record.MinLen {
			return fail(b, reason.BadRecord)
		}
		return fail(b, reason.Auth)
	case 2: // longer than sealed
		return fail(extend(far.sealAs(far.word(), fresh(), plain), 1+s.next()), reason.Auth)
	case 3: // a record sent before, byte for byte
		if len(me.sent) > 0 {
			b := me.sent[(s.next()<<8|s.next())%len(me.sent)]
			plain = me.plainOf(b)
			return judge(extend(b, 0), binary.BigEndian.Uint32(b[4:]))
		}
	case 4: // another record under an id from the past
		id := far.next - min(far.next, uint32(s.next()<<8|s.next())%3000)
		return judge(far.sealAs(far.word(), id, plain), id)
	case 5: // ids skipped
		far.next += uint32(s.next()<<8|s.next()) % 5000
	case 6:
		return fail(far.sealAs(record.Word(record.DataV2, far.keyID+1, far.peerID), fresh(), plain), reason.NoKey)
	case 7:
		return fail(far.sealAs(record.Word(record.DataV2, far.keyID, 0xabcd), fresh(), plain), reason.UnknownPeer)
	case 8: // no peer id, found by address
		id := fresh()
		return judge(far.sealAs(record.Word(record.DataV2, far.keyID, record.PeerIDUndef), id, plain), id)
	case 9: // no peer id, from an address that nobody has
		b := far.sealAs(record.Word(record.DataV2, far.keyID, record.PeerIDUndef), fresh(), plain)
		flow.Src = addrPort("203.0.113.9:9")
		return fail(b, reason.UnknownPeer)
	case 10: // sealed by another peer
		return fail(other.far.sealAs(far.word(), fresh(), plain), reason.Auth)
	case 11: // another traffic class: the same peer, another batch
		id := fresh()
		b := far.sealAs(far.word(), id, plain)
		me.sent = append(me.sent, extend(b, 0))
		rec := judge(b, id)
		rec.Flow.TOS = 0x10
		return rec
	}
	id := fresh()
	b := far.sealAs(far.word(), id, plain)
	me.sent = append(me.sent, extend(b, 0))
	return judge(b, id)
}

// plainOf opens a copy of a record of this peer.
func (m *modelPeer) plainOf(b []byte) []byte {
	b = extend(b, 0)
	var ok [1]bool
	if m.far.send.Open(m.far.scratch, [][]byte{b}, ok[:], 0) != 1 {
		panic("model: own record does not open")
	}
	return b[record.Overhead:]
}

// byFlow is a Sink that sorts plaintext by the peer's outer flow.
type byFlow struct {
	flow  map[*peer.Peer]packet.Flow
	plain map[packet.Flow][][]byte
	count uint64
}

func (s *byFlow) Opened(p *peer.Peer, plain [][]byte) {
	for _, b := range plain {
		s.plain[s.flow[p]] = append(s.plain[s.flow[p]], bytes.Clone(b))
		s.count++
	}
}

// play runs a script through an Opener and the model, burst by burst.
func play(t testing.TB, s script, batch int) {
	t.Helper()
	table := peer.NewTable(false, nil)
	sink := &byFlow{flow: map[*peer.Peer]packet.Flow{}, plain: map[packet.Flow][][]byte{}}
	m := &model{fates: drops{}, plain: map[packet.Flow][][]byte{}}
	for i, c := range []aead.Cipher{aead.AES128GCM, aead.ChaCha20Poly1305, aead.AES256GCM} {
		flow := from(fmt.Sprintf("192.0.2.%d:1194", 10+i))
		p := addPeer(t, table, peer.Config{ID: uint32(i * 70000), Remote: flow.Src})
		m.peers = append(m.peers, &modelPeer{flow: flow, far: addKey(t, p, uint8(i*3), c), seen: map[uint32]bool{}})
		sink.flow[p] = flow
	}
	o := NewOpener(table, sink, batch, 2)
	serial := uint32(0)
	for now := second; len(s) > 0; now += 1e6 {
		var burst []coalesce.Record
		for range 1 + s.next()*2 {
			serial++
			burst = append(burst, m.step(&s, serial))
		}
		o.Burst(burst, now, true)
		if got := sink.count + o.Counters.Fated(); got != m.total {
			t.Fatalf("%d records have met their end, of %d", got, m.total)
		}
		for _, flow := range sink.flow {
			if !slices.EqualFunc(sink.plain[flow], m.plain[flow], bytes.Equal) {
				t.Fatalf("flow %s: %d plaintexts, want %d, or in another order", flow.Src, len(sink.plain[flow]), len(m.plain[flow]))
			}
			clear(sink.plain[flow])
			sink.plain[flow], m.plain[flow] = sink.plain[flow][:0], nil
		}
	}
	wantDrops(t, o.Counters, m.fates)
}

// Random streams: each record's fate is what it is when it comes alone.
func TestEachRecordStandsAlone(t *testing.T) {
	for _, batch := range []int{1, 7, 64} {
		seed := rand.Uint64()
		t.Logf("batch %d seed %d", batch, seed)
		r := rand.NewChaCha8([32]byte(binary.LittleEndian.AppendUint64(make([]byte, 24), seed)))
		s := make(script, 20000)
		_, _ = r.Read(s)
		play(t, s, batch)
	}
}

func FuzzBurst(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{9, 0, 1, 0, 15, 0, 1, 0, 3, 0, 0})
	r := rand.New(rand.NewPCG(1, 2))
	for range 4 {
		b := make([]byte, 400)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 2000 {
			b = b[:2000]
		}
		play(t, b, 1+len(b)%64)
	})
}
