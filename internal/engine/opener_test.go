// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"net/netip"
	"slices"
	"testing"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/aead"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/peer"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/reason"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/record"
)

// collected is a Sink that copies.
type collected struct {
	peers []*peer.Peer
	plain [][]byte
}

func (c *collected) Opened(p *peer.Peer, plain [][]byte) {
	for _, b := range plain {
		c.peers = append(c.peers, p)
		c.plain = append(c.plain, bytes.Clone(b))
	}
}

func (c *collected) want(t *testing.T, want ...[]byte) {
	t.Helper()
	if !slices.EqualFunc(c.plain, want, bytes.Equal) {
		t.Errorf("%d plaintexts, want %d; or they differ", len(c.plain), len(want))
		for i := range min(len(c.plain), len(want)) {
			if !bytes.Equal(c.plain[i], want[i]) {
				t.Errorf("first difference at %d: %.20x, want %.20x", i, c.plain[i], want[i])
				break
			}
		}
	}
	c.peers, c.plain = nil, nil
}

// session is a table with one peer, its other end and an Opener.
type session struct {
	events observer
	table  *peer.Table
	peer   *peer.Peer
	far    *remote
	sink   collected
	opener *Opener
}

const second = int64(1e9)

func newSession(t testing.TB, c peer.Config) *session {
	t.Helper()
	s := &session{}
	s.table = peer.NewTable(false, &s.events)
	s.peer = addPeer(t, s.table, c)
	s.far = addKey(t, s.peer, 3, aead.AES128GCM)
	s.opener = NewOpener(s.table, &s.sink, 64, 2)
	return s
}

// Every kind of bad record, each between two good ones, costs only itself.
func TestBadRecordsCostOnlyThemselves(t *testing.T) {
	for _, cipher := range []aead.Cipher{aead.AES128GCM, aead.AES192GCM, aead.AES256GCM, aead.ChaCha20Poly1305} {
		t.Run(cipher.String(), func(t *testing.T) {
			s := newSession(t, peer.Config{ID: 5})
			s.far = addKey(t, s.peer, 1, cipher)
			other := addPeer(t, s.table, peer.Config{ID: 6})
			otherFar := addKey(t, other, 1, cipher)

			var burst, want [][]byte
			n := uint32(0)
			good := func() {
				n++
				plain := text(200, n)
				burst, want = append(burst, s.far.seal(plain)), append(want, plain)
			}
			flip := func(at int) []byte {
				b := s.far.seal(text(200, 900))
				b[at] ^= 0x10
				return b
			}
			good()
			replayed := extend(burst[0], 0)
			skipped := s.far.next
			s.far.next++
			long := s.far.seal(text(200, 901))
			for _, bad := range [][]byte{
				flip(5),                          // packet id
				flip(8),                          // tag, first byte
				flip(23),                         // tag, last byte
				flip(24),                         // ciphertext, first byte
				flip(223),                        // ciphertext, last byte
				s.far.seal(text(200, 902))[:223], // one byte short
				s.far.seal(text(200, 903))[:25],  // shortest record
				extend(long, 1),                  // one byte long
				s.far.seal(text(200, 904))[:24],  // no plaintext
				s.far.seal(text(200, 905))[:4],   // header word only
				replayed,                         // replay
				s.far.sealAs(s.far.word(), 0, text(9, 1)),                          // id 0
				s.far.sealAs(record.Word(record.DataV2, 2, 5), 5000, text(200, 1)), // key id not held
				s.far.sealAs(record.Word(record.DataV2, 1, 7), 5000, text(200, 1)), // peer unknown
				s.far.sealAs(record.Word(record.DataV2, 1, 6), 5000, text(200, 1)), // another peer's id
				otherFar.sealAs(s.far.word(), 5000, text(200, 1)),                  // another peer's key
				s.far.sealAs(record.Word(record.DataV2, 1, record.PeerIDUndef), 5000, text(200, 1)),
			} {
				burst = append(burst, bad)
				good()
			}
			late := text(200, 906)
			burst, want = append(burst, s.far.sealAs(s.far.word(), skipped, late)), append(want, late)

			records := taken(from("192.0.2.1:1194"), burst...)
			s.opener.Burst(records, 5*second, false)
			s.sink.want(t, want...)
			wantDrops(t, s.opener.Counters, drops{
				reason.Auth: 10, reason.BadRecord: 2, reason.Replay: 2, reason.NoKey: 1, reason.UnknownPeer: 2,
			})
			if got := s.peer.LastReceived.Load(); got != 5*second {
				t.Errorf("last received %d", got)
			}
			if other.LastReceived.Load() != 0 {
				t.Error("records that failed count as heard from the peer")
			}
			// 17 bad ones of which 4 never reached the peer, 2 were no record and one
			// named the other peer.
			if got, want := s.peer.LinkIn.Records.Load(), uint64(len(burst)-5); got != want {
				t.Errorf("%d records in, want %d", got, want)
			}
		})
	}
}

// extend copies a record and adds n bytes to it, with the room that opening needs.
func extend(b []byte, n int) []byte {
	out := make([]byte, len(b)+n, len(b)+n+record.TagLen)
	copy(out, b)
	return out
}

// Opening borrows the bytes behind each record and gives them back.
func TestBytesBehindRecordsSurvive(t *testing.T) {
	s := newSession(t, peer.Config{ID: 5})
	var burst [][]byte
	for i := range uint32(40) {
		b := s.far.seal(text(100+int(i), i))
		b[30] ^= byte(i % 2) // every other one is forged
		burst = append(burst, b)
	}
	s.opener.Burst(taken(from("192.0.2.1:1194"), slices.Clone(burst)...), second, false)
	for i, b := range burst {
		for _, c := range b[len(b) : len(b)+record.TagLen] {
			if c != canary {
				t.Fatalf("bytes behind record %d were changed", i)
			}
		}
	}
	if len(s.sink.plain) != 20 {
		t.Errorf("%d opened, want 20", len(s.sink.plain))
	}
}

func TestUndefinedPeerIDIsFoundByAddress(t *testing.T) {
	s := newSession(t, peer.Config{ID: 5, Remote: addrPort("192.0.2.1:1194")})
	word := record.Word(record.DataV2, 3, record.PeerIDUndef)
	a, b := text(50, 1), text(60, 2)
	s.opener.Burst(taken(from("192.0.2.1:1194"), s.far.sealAs(word, 1, a)), second, true)
	s.opener.Burst(taken(from("192.0.2.1:1195"), s.far.sealAs(word, 2, a)), second, true)
	s.opener.Burst(taken(from("192.0.2.1:1194"), s.far.sealAs(word, 3, b)), second, true)
	s.sink.want(t, a, b)
	wantDrops(t, s.opener.Counters, drops{reason.UnknownPeer: 1})
}

// With more records than one batch, batches of one outer flow keep their order.
func TestOrderOfOneFlowIsKept(t *testing.T) {
	s := newSession(t, peer.Config{ID: 5})
	second3 := addKey2(t, s.peer, 4)
	var burst, want [][]byte
	for i := range uint32(MaxBurst) {
		plain := text(64+int(i*37%400), i)
		far := s.far
		if i%7 == 3 {
			far = second3 // another header word of the same flow
		}
		burst, want = append(burst, far.seal(plain)), append(want, plain)
	}
	s.opener.Burst(taken(from("192.0.2.1:1194"), burst...), second, false)
	s.sink.want(t, want...)
	wantDrops(t, s.opener.Counters, nil)
	if n := s.opener.Counters.Batches.Load(); n < MaxBurst/64 || n > MaxBurst {
		t.Errorf("%d batches", n)
	}
}

// addKey2 fills the secondary slot.
func addKey2(t testing.TB, p *peer.Peer, keyID uint8) *remote {
	t.Helper()
	k, r := newKey(t, p.ID, keyID, aead.AES256GCM)
	if err := p.SetKey(peer.Secondary, k); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSameRoleKillsTheKeyOnce(t *testing.T) {
	s := newSession(t, peer.Config{ID: 5})
	half, iv := random(t, 16), [8]byte(random(t, 8))
	k, err := peer.NewKey(peer.KeyConfig{ID: 2, Cipher: aead.AES128GCM, Send: half, SendIV: iv,
		Receive: random(t, 16), RecvIV: [8]byte(random(t, 8))})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.peer.SetKey(peer.Primary, k); err != nil {
		t.Fatal(err)
	}
	wrong, err := aead.NewKey(aead.AES128GCM, half, iv)
	if err != nil {
		t.Fatal(err)
	}
	far := &remote{send: wrong, scratch: aead.NewScratch(), keyID: 2, peerID: 5, next: 1}
	flow := from("192.0.2.1:1194")
	forged := far.seal(text(80, 1))
	forged[50] ^= 1
	s.opener.Burst(taken(flow, forged), 10*second, true)
	forged = far.seal(text(80, 1))
	forged[50] ^= 1
	s.opener.Burst(taken(flow, forged), 20*second, true)
	if len(s.events.of(peer.KeyWanted)) != 0 || s.peer.KeyByID(2) != k {
		t.Fatal("forged records killed the key")
	}
	for i := range int64(3) {
		s.opener.Burst(taken(flow, far.seal(text(80, 2)), far.seal(text(80, 3))), (30+i)*second, true)
	}
	events := s.events.of(peer.KeyWanted)
	if len(events) != 1 || events[0].Reason != peer.WhySameRole || !events[0].Killed || events[0].KeyID != 2 || events[0].Peer != s.peer {
		t.Errorf("events %+v", events)
	}
	if s.peer.PrimaryKey() != nil {
		t.Error("the key still seals")
	}
	s.sink.want(t)
	wantDrops(t, s.opener.Counters, drops{reason.Auth: 4, reason.NoKey: 4})
}

// Our own records, sent back by whoever captured them, do not kill a key that
// has received.
func TestReflectedRecordsKillNoKey(t *testing.T) {
	s := newSession(t, peer.Config{ID: 5})
	k := s.peer.PrimaryKey()
	flow := from("192.0.2.1:1194")
	s.opener.Burst(taken(flow, s.far.seal(text(80, 1))), 10*second, true)
	own := &remote{send: k.Sealer(), scratch: aead.NewScratch(), keyID: 3, peerID: 5, next: 1}
	for i := range int64(4) {
		s.opener.Burst(taken(flow, own.seal(text(80, 2))), (20+10*i)*second, true)
	}
	if s.peer.PrimaryKey() != k || len(s.events.of(peer.KeyWanted)) != 0 {
		t.Error("the key was killed")
	}
	s.sink.want(t, text(80, 1))
	wantDrops(t, s.opener.Counters, drops{reason.Auth: 4})
}

func TestFloat(t *testing.T) {
	const home, away = "192.0.2.1:1194", "198.51.100.7:4000"
	s := newSession(t, peer.Config{ID: 5, Remote: addrPort(home)})
	at := func(want string) {
		t.Helper()
		if got := s.peer.Endpoint().Remote; got != addrPort(want) {
			t.Errorf("endpoint %s, want %s", got, want)
		}
	}
	step := func(src string, id uint32, mayFloat bool) {
		s.opener.Burst(taken(from(src), s.far.sealAs(s.far.word(), id, text(30, id))), second, mayFloat)
	}
	step(home, 10, true)
	step(away, 11, false) // from a ring: accepted, does not move
	at(home)
	step(away, 9, true) // older than the newest: accepted, does not move
	at(home)
	forged := s.far.sealAs(s.far.word(), 12, text(30, 1))
	forged[26] ^= 1
	s.opener.Burst(taken(from(away), forged), second, true)
	step(away, 11, true) // replay
	at(home)
	step(away, 12, true)
	at(away)
	events := s.events.of(peer.Floated)
	if len(events) != 1 || events[0].Remote != addrPort(away) || events[0].Previous != addrPort(home) {
		t.Errorf("events %+v", events)
	}
	if len(s.sink.plain) != 4 {
		t.Errorf("%d accepted, want 4", len(s.sink.plain))
	}
	wantDrops(t, s.opener.Counters, drops{reason.Auth: 1, reason.Replay: 1})

	addPeer(t, s.table, peer.Config{ID: 6, Remote: addrPort("192.0.2.9:1194")})
	step("192.0.2.9:1194", 13, true) // held by another peer
	at(away)
}

// Our own address is learned where the remote stays the same, also from a ring.
func TestLocalAddressIsLearned(t *testing.T) {
	s := newSession(t, peer.Config{ID: 5, Remote: addrPort("192.0.2.1:1194")})
	flow := from("192.0.2.1:1194")
	flow.Dst = addrPort("192.0.2.77:1194")
	s.opener.Burst(taken(flow, s.far.seal(text(30, 1))), second, false)
	if got := s.peer.Endpoint().Local; got != flow.Dst {
		t.Errorf("local %s, want %s", got, flow.Dst)
	}
	if len(s.events.of(peer.Floated)) != 0 {
		t.Error("learning our own address is no float")
	}
}

// A peer without an address gets one from its first authentic record that the
// stack let in.
func TestFirstAddressIsLearned(t *testing.T) {
	s := newSession(t, peer.Config{ID: 5})
	s.opener.Burst(taken(from("192.0.2.1:1194"), s.far.seal(text(30, 1))), second, false)
	if s.peer.Endpoint() != nil {
		t.Error("learned from a ring")
	}
	s.opener.Burst(taken(from("192.0.2.1:1194"), s.far.seal(text(30, 2))), second, true)
	if e := s.peer.Endpoint(); e == nil || e.Remote != addrPort("192.0.2.1:1194") {
		t.Errorf("endpoint %+v", e)
	}
	if p := s.table.LookupRemote(netip.MustParseAddrPort("192.0.2.1:1194")); p != s.peer {
		t.Error("not found by its address")
	}
}
