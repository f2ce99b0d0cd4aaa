// SPDX-License-Identifier: Apache-2.0

package aead

// Open authenticates and decrypts each record in place and returns how many
// were good; ok[i] tells which, for as many entries as there are records.
//
// A record is a whole datagram of the direct layout. Its plaintext, when good,
// is records[i][24:]; its first 24 bytes are left as they were. Of a bad one no
// plaintext is released: its bytes from 24 on are then either unchanged or
// zero. A record of less than 25 bytes is bad. Nothing outside a record is
// changed.
//
// The caller owns the records and must hold 16 more bytes behind each one,
// cap(records[i]) >= len(records[i])+16: they are borrowed while that record is
// opened and restored right after, so they may be the next record's first
// bytes, as in a buffer filled by UDP_GRO. Open panics if they are missing, and
// if ok is shorter than records. Nobody else may touch a record or those bytes
// meanwhile.
//
// Record i+distance is prefetched while record i is opened; 0 prefetches none,
// and the first distance records are then prefetched before the first is opened.
func (k *Key) Open(s *Scratch, records [][]byte, ok []bool, distance int) (opened int) {
	ok = ok[:len(records)]
	k.begin(s)
	distance = max(distance, 0)
	for i := range records[:min(distance, len(records))] {
		PrefetchWrite(records[i])
	}
	for i, record := range records {
		if distance > 0 && i+distance < len(records) {
			PrefetchWrite(records[i+distance])
		}
		ok[i] = k.open(s, record)
		if ok[i] {
			opened++
		}
	}
	k.end()
	return opened
}

func (k *Key) open(s *Scratch, record []byte) bool {
	n := len(record)
	if n < minRecord {
		return false
	}
	whole := record[:n+tagLen]
	behind := whole[n:]
	copy(s.saved[:], behind)
	copy(behind, record[aadLen:headLen])
	copy(s.nonce[:nonceLen-ivLen], record[4:aadLen])
	_, err := k.aead.Open(record[headLen:headLen], s.nonce[:], whole[headLen:], record[:aadLen])
	copy(behind, s.saved[:])
	return err == nil
}
