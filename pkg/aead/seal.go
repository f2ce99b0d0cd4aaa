// SPDX-License-Identifier: Apache-2.0

package aead

import "encoding/binary"

// SealItem is one record to be made. Its plaintext is Header followed by
// Buf[Off:Off+Len].
type SealItem struct {
	// Dst becomes the record: exactly 24+len(Header)+Len bytes, with 16 more in
	// its capacity, which are borrowed while this item is sealed and restored
	// right after; they may be the next record's place. It overlaps no item's Buf.
	Dst []byte
	// Word is the record's header word (opcode, key id, peer id). PacketID must
	// never have been used with this key.
	Word, PacketID uint32
	// Header is the packet's rebuilt header, or empty.
	Header []byte
	// Buf holds the payload at Off. Header is copied to the len(Header) bytes in
	// front of it, unless it is there already, so Off >= len(Header), and what
	// stood there must have been sealed by an earlier item or be dead.
	Buf      []byte
	Off, Len int
}

// Seal makes every item's record, in order. It owns the items' bytes until it
// returns. An item that breaks the rules of SealItem about lengths and overlap
// is a fault of the caller's and panics.
//
// The payload of item i+distance is prefetched while item i is sealed; 0
// prefetches none. The records' places are not: a send area is used over and
// over and stays in the cache, where asking for it costs a tenth of the gain.
func (k *Key) Seal(s *Scratch, items []SealItem, distance int) {
	k.begin(s)
	distance = max(distance, 0)
	for i := range items[:min(distance, len(items))] {
		items[i].prefetch()
	}
	for i := range items {
		if distance > 0 && i+distance < len(items) {
			items[i+distance].prefetch()
		}
		k.seal(s, &items[i])
	}
	k.end()
}

func (item *SealItem) prefetch() {
	Prefetch(item.Buf[item.Off : item.Off+item.Len])
}

func (k *Key) seal(s *Scratch, item *SealItem) {
	plain := item.Buf[item.Off-len(item.Header) : item.Off+item.Len]
	if h := item.Header; len(h) > 0 && &h[0] != &plain[0] {
		copy(plain, h)
	}
	n := len(item.Dst)
	if n != headLen+len(plain) {
		panic("aead: record and plaintext differ in length")
	}
	whole := item.Dst[:n+tagLen]
	behind := whole[n:]
	copy(s.saved[:], behind)
	binary.BigEndian.PutUint32(whole, item.Word)
	binary.BigEndian.PutUint32(whole[4:], item.PacketID)
	binary.BigEndian.PutUint32(s.nonce[:], item.PacketID)
	k.aead.Seal(whole[headLen:headLen], s.nonce[:], plain, whole[:aadLen])
	copy(whole[aadLen:headLen], behind)
	copy(behind, s.saved[:])
}
