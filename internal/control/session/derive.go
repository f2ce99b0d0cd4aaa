// SPDX-License-Identifier: Apache-2.0

package session

import (
	"fmt"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/keyex"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wrap"
)

// keyBlock is the length of a block of key material: two directions, 64 bytes
// each for cipher and HMAC.
const keyBlock = 256

// seed is what both key method messages give to key derivation without TLS exporters.
type seed struct {
	preMaster        [48]byte
	client1, client2 [32]byte
	server1, server2 [32]byte
}

func (d *seed) take(m *keyex.Message, fromClient bool) {
	if fromClient {
		d.preMaster, d.client1, d.client2 = m.PreMaster, m.Random1, m.Random2
	} else {
		d.server1, d.server2 = m.Random1, m.Random2
	}
}

// Derive returns the data channel's key material for a key id, from the event
// KeyExchanged on and as long as the key state lives: until a later key is
// established. The first half is for packets from client to server. ekm says
// that it comes from the TLS exporter, which both sides must have agreed on;
// otherwise it comes from the random values of the key method messages. The
// block belongs to the caller. Errors: ErrNoKey, or the exporter's.
func (s *Session) Derive(keyID uint8, ekm bool) (*[keyBlock]byte, error) {
	ks := s.find(keyID)
	if ks == nil || ks.parser != nil || ks.seed == nil {
		return nil, fmt.Errorf("derive key %d: %w", keyID, ErrNoKey)
	}
	if ekm {
		return ks.export(keyex.LabelDataKeys)
	}
	d := ks.seed
	client := &keyex.Message{PreMaster: d.preMaster, Random1: d.client1, Random2: d.client2}
	server := &keyex.Message{Random1: d.server1, Random2: d.server2}
	defer clear(client.PreMaster[:])
	block := keyex.KeyBlockPRF(client, server, s.clientID(), s.serverID())
	return &block, nil
}

func (s *Session) clientID() [8]byte {
	if s.cfg.Role == Client {
		return s.cfg.Local
	}
	return s.remote
}

func (s *Session) serverID() [8]byte {
	if s.cfg.Role == Client {
		return s.remote
	}
	return s.cfg.Local
}

// exports reports whether the key state's TLS connection gives key material: TLS 1.2
// without extended master secret does not.
func (ks *keyState) exports() bool {
	state := ks.conn.ConnectionState()
	_, err := state.ExportKeyingMaterial(keyex.LabelDataKeys, nil, keyBlock)
	return err == nil
}

// export returns key material from the key state's TLS connection.
func (ks *keyState) export(label string) (*[keyBlock]byte, error) {
	state := ks.conn.ConnectionState()
	b, err := state.ExportKeyingMaterial(label, nil, keyBlock)
	if err != nil {
		return nil, fmt.Errorf("export keying material: %w", err)
	}
	return (*[keyBlock]byte)(b), nil
}

// UseDynamicWrap has packets with key ids above 0 wrapped with a key that is
// derived from the first TLS connection, XOR Static if there is one. It must be
// called after the first KeyExchanged and before the first soft reset; calling
// it again changes nothing. Errors: ErrNoKey, or the exporter's.
func (s *Session) UseDynamicWrap() error {
	if s.dynamic != nil {
		return nil
	}
	ks := s.find(0)
	if ks == nil || ks.stage < exchanging || ks.parser != nil {
		return fmt.Errorf("derive dynamic tls-crypt key: %w", ErrNoKey)
	}
	block, err := ks.export(keyex.LabelDynamicTLSCrypt)
	if err != nil {
		return err
	}
	defer clear(block[:])
	role := wrap.Server
	if s.cfg.Role == Client {
		role = wrap.Client
	}
	s.dynamic = wrap.Dynamic(block, s.cfg.Static, role)
	return nil
}
