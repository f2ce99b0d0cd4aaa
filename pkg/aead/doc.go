// SPDX-License-Identifier: Apache-2.0

// Package aead opens and seals batches of DATA_V2 records in the direct layout
// under one key:
//
//	0        4           8      24
//	| header | packet id | tag  | ciphertext, as long as the plaintext |
//
// The first 8 bytes are the associated data; the nonce is the packet id
// followed by the key's 8-byte implicit IV. OpenVPN puts the tag in front, the
// ciphers of the standard library want it behind the ciphertext, so 16 bytes
// behind each record are borrowed while it is worked on, and restored.
//
// A record stands or falls alone: nothing about one record of a batch changes
// the outcome or the bytes of another.
//
// The package also has the cache prefetch that the batches use, in assembly
// for amd64 and arm64. It knows nothing of packet ids: that none is sealed
// twice under a key is the caller's duty.
package aead
