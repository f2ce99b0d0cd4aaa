// SPDX-License-Identifier: Apache-2.0

package wrap

import (
	"crypto/aes"
	"crypto/cipher"
)

// counterMode is the scratch of AES in counter mode. cipher.NewCTR copies the whole
// key schedule to the heap for each message, which a flood of forged packets would
// make the garbage collector's business; control packets are short.
type counterMode struct {
	counter, stream [aes.BlockSize]byte
}

// xor encrypts or decrypts b in place. The counter starts at the first 16 bytes
// of a tag.
func (c *counterMode) xor(block cipher.Block, tag, b []byte) {
	copy(c.counter[:], tag)
	for len(b) > 0 {
		block.Encrypt(c.stream[:], c.counter[:])
		n := min(len(b), aes.BlockSize)
		for i := range n {
			b[i] ^= c.stream[i]
		}
		b = b[n:]
		for i := aes.BlockSize - 1; i >= 0; i-- {
			if c.counter[i]++; c.counter[i] != 0 {
				break
			}
		}
	}
}
