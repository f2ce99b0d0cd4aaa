// SPDX-License-Identifier: Apache-2.0

package wrap

import (
	"encoding/pem"
	"fmt"
	"io"
)

// PEM labels of the two kinds of tls-crypt-v2 key files.
const (
	serverLabel = "OpenVPN tls-crypt-v2 server key"
	clientLabel = "OpenVPN tls-crypt-v2 client key"
)

// GenerateServerKey makes a key of the bytes of random, and the file of it.
func GenerateServerKey(random io.Reader) (k *ServerKey, file []byte, err error) {
	var raw [serverKeyLen]byte
	if _, err := io.ReadFull(random, raw[:]); err != nil {
		return nil, nil, fmt.Errorf("generate tls-crypt-v2 server key: %w", err)
	}
	return newServerKey(&raw), pem.EncodeToMemory(&pem.Block{Type: serverLabel, Bytes: raw[:]}), nil
}

// GenerateClientKey makes a client key of the bytes of random and wraps it with
// metadata as ServerKey.Wrap does.
func GenerateClientKey(random io.Reader, server *ServerKey, metadata []byte) (key [clientKeyLen]byte, wkc []byte, err error) {
	if _, err := io.ReadFull(random, key[:]); err != nil {
		return key, nil, fmt.Errorf("generate tls-crypt-v2 client key: %w", err)
	}
	wkc, err = server.Wrap(&key, metadata)
	return key, wkc, err
}

// FormatClientKey writes a client key file.
func FormatClientKey(key *[clientKeyLen]byte, wkc []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: clientLabel, Bytes: append(key[:], wkc...)})
}

// ParseServerKey reads a server key file.
func ParseServerKey(file []byte) (*ServerKey, error) {
	b, err := decode(file, serverLabel)
	if err != nil {
		return nil, err
	}
	if len(b) != serverKeyLen {
		return nil, fmt.Errorf("read tls-crypt-v2 server key: %d bytes, want %d", len(b), serverKeyLen)
	}
	return newServerKey((*[serverKeyLen]byte)(b)), nil
}

// ParseClientKey reads a client key file: the key and the wrapped key, which only
// the server can open.
func ParseClientKey(file []byte) (key [clientKeyLen]byte, wkc []byte, err error) {
	b, err := decode(file, clientLabel)
	if err != nil {
		return key, nil, err
	}
	if len(b) < clientKeyLen+minWKC || len(b) > clientKeyLen+MaxWKC {
		return key, nil, fmt.Errorf("read tls-crypt-v2 client key: %d bytes, want %d to %d", len(b), clientKeyLen+minWKC, clientKeyLen+MaxWKC)
	}
	return [clientKeyLen]byte(b), b[clientKeyLen:], nil
}

// decode finds the first block with a label.
func decode(file []byte, label string) ([]byte, error) {
	for {
		b, rest := pem.Decode(file)
		if b == nil {
			return nil, fmt.Errorf("read key file: no %q in it", "-----BEGIN "+label+"-----")
		}
		if b.Type == label {
			return b.Bytes, nil
		}
		file = rest
	}
}
