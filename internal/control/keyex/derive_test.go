// SPDX-License-Identifier: Apache-2.0

package keyex

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"testing"
)

// TestPRF compares with a vector computed independently.
func TestPRF(t *testing.T) {
	var client, server Message
	for i := range client.PreMaster {
		client.PreMaster[i] = byte(i)
	}
	fill := func(b *[32]byte, v byte) { copy(b[:], bytes.Repeat([]byte{v}, 32)) }
	fill(&client.Random1, 0x11)
	fill(&server.Random1, 0x22)
	fill(&client.Random2, 0x33)
	fill(&server.Random2, 0x44)
	master := make([]byte, preMasterLen)
	prf(master, client.PreMaster[:], "OpenVPN master secret", client.Random1[:], server.Random1[:])
	if got := hex.EncodeToString(master); got != "8d4d229a2b8a2af73a3e37ceca8c1a2db162292f18b5b070383cd081b68d82b431f11370733cc4b308ba7d5a0975f368" {
		t.Errorf("master secret %s", got)
	}
	block := KeyBlockPRF(&client, &server, [8]byte([]byte("CLIENTID")), [8]byte([]byte("SERVERID")))
	if got := hex.EncodeToString(block[:32]); got != "d8efbfc20e9a30e30100b95fe24f8046e3bcce79e448fd1b225abf03bb52922a" {
		t.Errorf("first key %s", got)
	}
	if sum := sha256.Sum256(block[:]); hex.EncodeToString(sum[:]) != "3c0c40f69a2fa4928d8d2283796fea7c6eb10d87aee6c747468a71f3a6aab52c" {
		t.Errorf("SHA-256 of the block %x", sum)
	}
}
