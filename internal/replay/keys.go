// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/aead"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/record"
)

// Keys is what a keys file holds: the data-channel keys of one session and
// which of the two ends is the server.
type Keys struct {
	Cipher aead.Cipher
	// ServerPort is the server's UDP port, which tells directions apart.
	ServerPort uint16
	PeerID     uint32
	Keys       []Key
}

// Key is the material of one key id.
type Key struct {
	ID                             uint8
	ClientToServer, ServerToClient Material
}

// Material is one direction's cipher key and implicit IV.
type Material struct {
	Key []byte
	IV  [8]byte
}

// maxKeysFile is far above eight keys with every member there is.
const maxKeysFile = 1 << 20

type keysFile struct {
	Cipher     string    `json:"cipher"`
	ServerPort int       `json:"server_port"`
	PeerID     uint32    `json:"peer_id"`
	Keys       []keyFile `json:"keys"`
}

type keyFile struct {
	KeyID          *uint8       `json:"key_id"`
	ClientToServer materialFile `json:"client_to_server"`
	ServerToClient materialFile `json:"server_to_client"`
}

type materialFile struct {
	Key        string `json:"key"`
	ImplicitIV string `json:"implicit_iv"`
}

// ReadKeys reads a keys file. Errors name the member at fault and never quote
// a key.
func ReadKeys(r io.Reader) (*Keys, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxKeysFile+1))
	if err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	if len(data) > maxKeysFile {
		return nil, fmt.Errorf("read keys: more than %d bytes", maxKeysFile)
	}
	var f keysFile
	if err := json.Unmarshal(data, &f); err != nil {
		if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return nil, fmt.Errorf("read keys: %q has the wrong type", e.Field)
		}
		return nil, fmt.Errorf("read keys: not JSON: %w", err)
	}
	k := &Keys{PeerID: f.PeerID}
	if k.Cipher, err = aead.ParseCipher(f.Cipher); err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	if f.ServerPort < 1 || f.ServerPort > 65535 {
		return nil, fmt.Errorf("read keys: server_port %d: ports are 1 to 65535", f.ServerPort)
	}
	k.ServerPort = uint16(f.ServerPort)
	if f.PeerID > record.PeerIDUndef {
		return nil, fmt.Errorf("read keys: peer_id %d: ids are 0 to %d", f.PeerID, record.PeerIDUndef)
	}
	if len(f.Keys) == 0 {
		return nil, errors.New("read keys: no keys")
	}
	seen := [record.MaxKeyID + 1]bool{}
	for i, kf := range f.Keys {
		if kf.KeyID == nil || *kf.KeyID > record.MaxKeyID {
			return nil, fmt.Errorf("read keys: keys[%d]: key_id is 0 to %d", i, record.MaxKeyID)
		}
		key := Key{ID: *kf.KeyID}
		if seen[key.ID] {
			return nil, fmt.Errorf("read keys: keys[%d]: key_id %d is there twice", i, key.ID)
		}
		seen[key.ID] = true
		if key.ClientToServer, err = kf.ClientToServer.decode(k.Cipher); err != nil {
			return nil, fmt.Errorf("read keys: keys[%d]: client_to_server: %w", i, err)
		}
		if key.ServerToClient, err = kf.ServerToClient.decode(k.Cipher); err != nil {
			return nil, fmt.Errorf("read keys: keys[%d]: server_to_client: %w", i, err)
		}
		k.Keys = append(k.Keys, key)
	}
	return k, nil
}

func (f materialFile) decode(c aead.Cipher) (Material, error) {
	var m Material
	// hex's errors quote digits of the key.
	key, err := hex.DecodeString(f.Key)
	if err != nil || len(key) != c.KeyLen() {
		return m, fmt.Errorf("key is not the %d hexadecimal digits of %s", 2*c.KeyLen(), c)
	}
	iv, err := hex.DecodeString(f.ImplicitIV)
	if err != nil || len(iv) != len(m.IV) {
		return m, fmt.Errorf("implicit_iv is not %d hexadecimal digits", 2*len(m.IV))
	}
	m.Key, m.IV = key, [8]byte(iv)
	return m, nil
}
