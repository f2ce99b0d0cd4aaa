// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"crypto/rand"
	"encoding/binary"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/aead"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/coalesce"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/packet"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/peer"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/reason"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/record"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/tun/vnet"
)

// canary fills the bytes behind a record, which opening borrows and restores.
const canary = 0xc5

// remote is the other end of one key: it seals what a peer would send and opens
// what it would receive.
type remote struct {
	send, receive *aead.Key
	scratch       *aead.Scratch
	keyID         uint8
	peerID        uint32
	next          uint32 // next packet id of seal
}

func random(t testing.TB, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	if _, err := rand.Read(b); err != nil {
		t.Fatal(err)
	}
	return b
}

// newKey makes a key and its other end.
func newKey(t testing.TB, peerID uint32, keyID uint8, c aead.Cipher) (*peer.Key, *remote) {
	t.Helper()
	cfg := peer.KeyConfig{ID: keyID, Cipher: c, Send: random(t, c.KeyLen()), Receive: random(t, c.KeyLen()),
		SendIV: [8]byte(random(t, 8)), RecvIV: [8]byte(random(t, 8))}
	return keyOf(t, peerID, cfg)
}

func keyOf(t testing.TB, peerID uint32, cfg peer.KeyConfig) (*peer.Key, *remote) {
	t.Helper()
	k, err := peer.NewKey(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r := &remote{scratch: aead.NewScratch(), keyID: cfg.ID, peerID: peerID, next: 1}
	if r.send, err = aead.NewKey(cfg.Cipher, cfg.Receive, cfg.RecvIV); err != nil {
		t.Fatal(err)
	}
	if r.receive, err = aead.NewKey(cfg.Cipher, cfg.Send, cfg.SendIV); err != nil {
		t.Fatal(err)
	}
	return k, r
}

// sealAs makes a record under any header word and packet id, with canaries behind.
func (r *remote) sealAs(word, id uint32, plain []byte) []byte {
	n := record.Overhead + len(plain)
	b := slices.Repeat([]byte{canary}, n+record.TagLen)
	r.sealInto(b[:n], word, id, slices.Clone(plain))
	return b[:n]
}

func (r *remote) sealInto(dst []byte, word, id uint32, plain []byte) {
	items := [1]aead.SealItem{{Dst: dst, Word: word, PacketID: id, Buf: plain, Len: len(plain)}}
	r.send.Seal(r.scratch, items[:], 0)
}

func (r *remote) word() uint32 { return record.Word(record.DataV2, r.keyID, r.peerID) }

// seal makes the next record of the session.
func (r *remote) seal(plain []byte) []byte {
	r.next++
	return r.sealAs(r.word(), r.next-1, plain)
}

// open opens a record that the gateway sealed, and fails the test if it does not.
func (r *remote) open(t testing.TB, b []byte) (id uint32, plain []byte) {
	t.Helper()
	b = append(slices.Clone(b), make([]byte, record.TagLen)...)[:len(b)]
	_, id, ok := record.Parse(b)
	var opened [1]bool
	if !ok || r.receive.Open(r.scratch, [][]byte{b}, opened[:], 0) != 1 {
		t.Fatalf("record of %d bytes with id %d does not open", len(b), id)
	}
	return id, b[record.Overhead:]
}

// observer remembers events.
type observer struct {
	mu     sync.Mutex
	events []peer.Event
}

func (o *observer) PeerChanged(*peer.Peer) {}

func (o *observer) PeerEvent(e peer.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, e)
}

// of returns the events of one type so far.
func (o *observer) of(typ peer.EventType) (found []peer.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range o.events {
		if e.Type == typ {
			found = append(found, e)
		}
	}
	return found
}

func addPeer(t testing.TB, table *peer.Table, c peer.Config) *peer.Peer {
	t.Helper()
	p, err := table.Add(c, 1)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// addKey gives a peer a new primary key and returns its other end.
func addKey(t testing.TB, p *peer.Peer, keyID uint8, c aead.Cipher) *remote {
	t.Helper()
	k, r := newKey(t, p.ID, keyID, c)
	if err := p.SetKey(peer.Primary, k); err != nil {
		t.Fatal(err)
	}
	return r
}

func addrPort(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }
func addr(s string) netip.Addr         { return netip.MustParseAddr(s) }

func prefixes(list ...string) (out []netip.Prefix) {
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

// from is the outer flow of a record from an address to the gateway.
func from(src string) packet.Flow {
	return packet.Flow{Src: addrPort(src), Dst: addrPort("192.0.2.2:1194"), TTL: 64}
}

// taken makes records of one flow.
func taken(flow packet.Flow, data ...[]byte) (out []coalesce.Record) {
	for _, b := range data {
		out = append(out, coalesce.Record{Flow: flow, Data: b})
	}
	return out
}

// drops is a set of drop counters; reasons left out are 0.
type drops map[reason.Reason]uint64

// wantDrops compares all drop counters of a worker.
func wantDrops(t testing.TB, got interface{ count(reason.Reason) uint64 }, want drops) {
	t.Helper()
	for r := range reason.Reason(reason.Count) {
		if n := got.count(r); n != want[r] {
			t.Errorf("%s: %d, want %d", r, n, want[r])
		}
	}
}

func (c *InCounters) count(r reason.Reason) uint64  { return c.Drops[r].Load() }
func (c *OutCounters) count(r reason.Reason) uint64 { return c.Drops[r].Load() }

// tuple is an inner flow.
type tuple struct {
	src, dst     netip.Addr
	sport, dport uint16
}

func inner4() tuple { return tuple{addr("10.9.0.2"), addr("10.9.0.1"), 40000, 5001} }
func inner6() tuple { return tuple{addr("fd00:9::2"), addr("fd00:9::1"), 40000, 5001} }

// ip makes an IP packet around a transport header and payload whose checksum
// field at offset field is still 0.
func (f tuple) ip(proto uint8, id uint16, l4 []byte, field int) []byte {
	var b []byte
	src, dst := f.src.AsSlice(), f.dst.AsSlice()
	if f.src.Is4() {
		b = make([]byte, packet.IPv4Len, packet.IPv4Len+len(l4))
		b[0], b[6], b[8], b[9] = 0x45, 0x40, 64, proto
		binary.BigEndian.PutUint16(b[2:], uint16(cap(b)))
		binary.BigEndian.PutUint16(b[4:], id)
		copy(b[12:], src)
		copy(b[16:], dst)
		binary.BigEndian.PutUint16(b[10:], ^packet.Fold(packet.Checksum(b, 0)))
	} else {
		b = make([]byte, packet.IPv6Len, packet.IPv6Len+len(l4))
		b[0], b[6], b[7] = 0x60, proto, 64
		binary.BigEndian.PutUint16(b[4:], uint16(len(l4)))
		copy(b[8:], src)
		copy(b[24:], dst)
	}
	sum := packet.Checksum(l4, packet.PseudoSum(src, dst, proto, len(l4)))
	l4 = slices.Clone(l4)
	binary.BigEndian.PutUint16(l4[field:], ^packet.Fold(sum))
	return append(b, l4...)
}

// tcpHeader is without checksum; options are padded by the caller.
func (f tuple) tcpHeader(seq uint32, flags uint8, options []byte) []byte {
	b := make([]byte, packet.TCPLen+len(options))
	binary.BigEndian.PutUint16(b, f.sport)
	binary.BigEndian.PutUint16(b[2:], f.dport)
	binary.BigEndian.PutUint32(b[4:], seq)
	binary.BigEndian.PutUint32(b[8:], 77)
	b[12], b[13] = uint8(len(b)/4)<<4, flags
	binary.BigEndian.PutUint16(b[14:], 500)
	copy(b[packet.TCPLen:], options)
	return b
}

// tcp makes a TCP packet with right checksums; ids of IPv4 packets are as given.
func (f tuple) tcp(id uint16, seq uint32, flags uint8, payload []byte) []byte {
	return f.ip(packet.ProtoTCP, id, append(f.tcpHeader(seq, flags, nil), payload...), 16)
}

// syn makes a SYN with an MSS option.
func (f tuple) syn(mss uint16) []byte {
	return f.ip(packet.ProtoTCP, 1, f.tcpHeader(1, packet.TCPSyn, []byte{2, 4, byte(mss >> 8), byte(mss)}), 16)
}

func (f tuple) udp(id uint16, payload []byte) []byte {
	b := make([]byte, packet.UDPLen, packet.UDPLen+len(payload))
	binary.BigEndian.PutUint16(b, f.sport)
	binary.BigEndian.PutUint16(b[2:], f.dport)
	binary.BigEndian.PutUint16(b[4:], uint16(cap(b)))
	return f.ip(packet.ProtoUDP, id, append(b, payload...), 6)
}

// mssOf reads the MSS option that syn put there, and whether the checksum is right.
func mssOf(t testing.TB, pkt []byte) uint16 {
	t.Helper()
	ip, ok := packet.ParseIP(pkt)
	if !ok {
		t.Fatal("not an IP packet")
	}
	src, _ := packet.Source(pkt)
	dst, _ := packet.Destination(pkt)
	l4 := pkt[ip.HeaderLen:ip.TotalLen]
	if packet.Fold(packet.Checksum(l4, packet.PseudoSum(src.AsSlice(), dst.AsSlice(), packet.ProtoTCP, len(l4)))) != 0xffff {
		t.Error("TCP checksum is wrong")
	}
	return binary.BigEndian.Uint16(l4[22:])
}

// text is n bytes that tell their position and seed.
func text(n int, seed uint32) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(uint32(i)*7 + uint32(i)>>8 + seed*31)
	}
	return b
}

// super is one TUN read that carries a TCP stream in segments of size bytes of
// payload, as the kernel hands it over: checksum partial, virtio-net header in front.
func (f tuple) super(id uint16, seq uint32, flags uint8, payload []byte, size int) []byte {
	pkt := f.tcp(id, seq, flags, payload)
	l3, kind := packet.IPv4Len, uint8(vnet.GSOTCPv4)
	if f.src.Is6() {
		l3, kind = packet.IPv6Len, vnet.GSOTCPv6
	}
	pseudo := packet.PseudoSum(f.src.AsSlice(), f.dst.AsSlice(), packet.ProtoTCP, len(pkt)-l3)
	binary.BigEndian.PutUint16(pkt[l3+16:], packet.Fold(pseudo))
	b := make([]byte, vnet.HeaderLen, vnet.HeaderLen+len(pkt))
	vnet.Header{Flags: vnet.NeedsCsum, GSOType: kind, HdrLen: uint16(l3 + packet.TCPLen), GSOSize: uint16(size),
		CsumStart: uint16(l3), CsumOffset: 16}.Put(b)
	return append(b, pkt...)
}

// segments is what super must become: the same stream built packet by packet.
func (f tuple) segments(id uint16, seq uint32, flags uint8, payload []byte, size int) (out [][]byte) {
	for at := 0; at < len(payload); at += size {
		end := min(at+size, len(payload))
		own := flags
		if end < len(payload) {
			own &^= packet.TCPPsh | packet.TCPFin
		}
		out = append(out, f.tcp(id+uint16(len(out)), seq+uint32(at), own, payload[at:end]))
	}
	return out
}

// single is one TUN read of a packet with complete checksums.
func single(pkt []byte) []byte { return append(make([]byte, vnet.HeaderLen), pkt...) }
