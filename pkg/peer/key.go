// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/aead"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/record"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/replay"
)

// Limits on the use of one key.
const (
	// maxPacketID is the last id a 32-bit packet id can hold.
	maxPacketID = 1<<32 - 1
	// wantPacketID is where stock OpenVPN asks for a new key
	// (PACKET_ID_WRAP_TRIGGER).
	wantPacketID = 0xff000000
	// maxGCMUsage bounds AES-GCM invocations plus 16-byte blocks under one key
	// so that an attacker's advantage stays below 2^-57 (OpenVPN's
	// cipher_get_aead_limits).
	maxGCMUsage = 1<<36 - 1
	// wantGCMUsage is 7/8 of maxGCMUsage, where stock renegotiates.
	wantGCMUsage = maxGCMUsage / 8 * 7
	// maxFailures and wantFailures bound failed opens under one key.
	maxFailures  = 1 << 36
	wantFailures = 1 << 35
)

// KeyConfig is what installs a key: both directions' keys and implicit IVs.
type KeyConfig struct {
	ID             uint8 // 0..7
	Cipher         aead.Cipher
	Send, Receive  []byte // Cipher.KeyLen() bytes each, copied
	SendIV, RecvIV [8]byte
	NextPacketID   uint32   // first id to send; 0 means 1
	Fingerprint    [32]byte // of the sending half; only handed on
	Ceiling        uint64   // see SetCeiling
}

// Key is one installed key: both directions' ciphers, the allocator of packet
// ids and the receive window. Every rung and worker shares the one object, so
// an id is given out once and a record is accepted once.
type Key struct {
	ID          uint8
	Cipher      aead.Cipher
	Fingerprint [32]byte

	send    *aead.Key
	receive *aead.Key

	next     atomic.Uint64 // next packet id to give out
	ceiling  atomic.Uint64 // see SetCeiling
	usage    [2]atomic.Uint64
	failed   atomic.Uint64
	received atomic.Bool // a record was accepted
	wanted   atomic.Bool // a new key was asked for
	dead     atomic.Bool // neither sends nor receives any more

	mu     sync.Mutex // guards window
	window replay.Window

	suspectAt atomic.Int64 // see Suspect
}

const (
	sending = iota
	receiving
)

// NewKey makes a key from its configuration.
func NewKey(c KeyConfig) (*Key, error) {
	if c.ID > record.MaxKeyID {
		return nil, fmt.Errorf("make key: key id %d is not in 0..%d", c.ID, record.MaxKeyID)
	}
	send, err := aead.NewKey(c.Cipher, c.Send, c.SendIV)
	if err != nil {
		return nil, err
	}
	receive, err := aead.NewKey(c.Cipher, c.Receive, c.RecvIV)
	if err != nil {
		return nil, err
	}
	k := &Key{ID: c.ID, Cipher: c.Cipher, Fingerprint: c.Fingerprint, send: send, receive: receive}
	k.next.Store(uint64(max(c.NextPacketID, 1)))
	k.ceiling.Store(c.Ceiling)
	return k, nil
}

// Sealer returns the cipher that seals with this key.
func (k *Key) Sealer() *aead.Key { return k.send }

// Opener returns the cipher that opens with this key.
func (k *Key) Opener() *aead.Key { return k.receive }

// NextPacketID returns the id the next sealed record will carry; above 2^32-1
// the key is exhausted. Ids below it have been given out.
func (k *Key) NextPacketID() uint64 { return k.next.Load() }

// SetCeiling sets the first packet id that may not be used yet; 0: no such
// limit. Whoever keeps a record of used ids raises it ahead of their use, so that
// ids never outrun the record.
func (k *Key) SetCeiling(id uint64) { k.ceiling.Store(id) }

// Ceiling returns what SetCeiling set.
func (k *Key) Ceiling() uint64 { return k.ceiling.Load() }

// Dead reports whether the key was taken out of use for good.
func (k *Key) Dead() bool { return k.dead.Load() }

// HasReceived reports whether a record was ever accepted under this key.
func (k *Key) HasReceived() bool { return k.received.Load() }

// HighestReceived returns the highest packet id accepted; 0: none yet.
func (k *Key) HighestReceived() uint32 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.window.Highest()
}

// Use says what a caller must do after using a key.
type Use uint8

const (
	Fine   Use = iota // nothing
	Wanted            // ask for a new key; returned once per key
	Spent             // the key may not be used any more: kill it
)

// Reserve takes n consecutive packet ids for n records of blocks 16-byte
// blocks altogether. Ids are never given out twice: a reservation that would
// pass 2^32-1 or the ceiling burns what is left and returns Spent, as does one that
// would pass the AES-GCM usage limit; why names the limit. Safe for concurrent use; one atomic add.
func (k *Key) Reserve(n int, blocks uint64) (first uint32, use Use, why string) {
	if k.dead.Load() {
		return 0, Spent, WhyPacketID
	}
	end := k.next.Add(uint64(n))
	if end-1 > maxPacketID {
		return 0, Spent, WhyPacketID
	}
	if ceiling := k.ceiling.Load(); ceiling != 0 && end > ceiling {
		return 0, Spent, WhyKeyStore
	}
	first = uint32(end - uint64(n))
	if use = k.spend(sending, uint64(n)+blocks); use != Fine {
		return first, use, WhyUsage
	}
	if end > wantPacketID && k.wanted.CompareAndSwap(false, true) {
		return first, Wanted, WhyPacketID
	}
	return first, Fine, ""
}

// Opened counts n opened records of blocks 16-byte blocks against the AES-GCM
// limit of the receiving direction.
func (k *Key) Opened(n int, blocks uint64) Use {
	return k.spend(receiving, uint64(n)+blocks)
}

// Failures returns how many records did not authenticate under this key.
func (k *Key) Failures() uint64 { return k.failed.Load() }

// Failed counts n records that did not authenticate.
func (k *Key) Failed(n int) Use {
	switch f := k.failed.Add(uint64(n)); {
	case f >= maxFailures:
		return Spent
	case f >= wantFailures && k.wanted.CompareAndSwap(false, true):
		return Wanted
	}
	return Fine
}

func (k *Key) spend(direction int, n uint64) Use {
	if k.Cipher == aead.ChaCha20Poly1305 {
		return Fine
	}
	switch u := k.usage[direction].Add(n); {
	case u > maxGCMUsage:
		return Spent
	case u > wantGCMUsage && k.wanted.CompareAndSwap(false, true):
		return Wanted
	}
	return Fine
}

// Commit passes authenticated records through the receive window: ok[i] is
// cleared for each id[i] that is a replay, where it was set. It reports how
// many were accepted and whether one of them is a new highest id. now is
// monotonic time in nanoseconds. One lock per call.
func (k *Key) Commit(ids []uint32, ok []bool, now int64) (accepted int, highest bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	before := k.window.Highest()
	for i, id := range ids {
		if !ok[i] {
			continue
		}
		if k.window.Accept(id, now) {
			accepted++
		} else {
			ok[i] = false
		}
	}
	if accepted > 0 && !k.received.Load() {
		k.received.Store(true)
	}
	return accepted, k.window.Highest() > before
}

// suspectInterval is how often a failed record may be tried with the sending
// key, in nanoseconds.
const suspectInterval = 1e9

// Suspect reports whether a record that failed to authenticate should be tried
// with our own sending key, which opens it only when both ends were given the
// same role. At most once a second per key, so that forged records cost no
// second opening.
func (k *Key) Suspect(now int64) bool {
	last := k.suspectAt.Load()
	return now-last >= suspectInterval && k.suspectAt.CompareAndSwap(last, now)
}
