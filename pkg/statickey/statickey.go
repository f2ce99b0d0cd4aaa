// SPDX-License-Identifier: Apache-2.0

// Package statickey reads and writes OpenVPN static key files (version 1, 2048
// bits, as `openvpn --genkey secret` makes them) and cuts the key of one into
// the two directions of a data channel. It opens no files itself. Its errors
// never quote key material.
package statickey

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// Size is the length of a static key in bytes.
const Size = 256

const (
	head = "-----BEGIN OpenVPN Static key V1-----"
	tail = "-----END OpenVPN Static key V1-----"
	// bytesPerLine as OpenVPN writes them: 16 lines of 32 digits.
	bytesPerLine = 16
)

// ErrFormat is wrapped by all errors of Parse.
var ErrFormat = errors.New("not an OpenVPN static key (want 2048 bits, as written by `openvpn --genkey secret` or `ovpn-xdp key generate`)")

// Parse returns the key in a static key file. Lines before the BEGIN and after
// the END line are ignored, as are empty lines and lines that begin with '#' or
// ';'. Digits may be of either case and broken into lines anywhere between two
// bytes; lines may end in CR LF.
func Parse(data []byte) (key [Size]byte, err error) {
	n, inside, line := 0, false, 0
	for text := range bytes.Lines(data) {
		line++
		text = bytes.TrimSpace(text)
		switch {
		case !inside:
			inside = string(text) == head
			continue
		case len(text) == 0 || text[0] == '#' || text[0] == ';':
			continue
		case string(text) == tail:
			if n != Size {
				return [Size]byte{}, fmt.Errorf("%w: %d bits", ErrFormat, n*8)
			}
			return key, nil
		case hex.DecodedLen(len(text)) > Size-n:
			return [Size]byte{}, fmt.Errorf("%w: more than 2048 bits at line %d", ErrFormat, line)
		}
		// Not with %w: hex's error quotes the offending byte.
		m, err := hex.Decode(key[n:], text)
		if err != nil {
			return [Size]byte{}, fmt.Errorf("%w: line %d is not pairs of hexadecimal digits", ErrFormat, line)
		}
		n += m
	}
	if !inside {
		return [Size]byte{}, fmt.Errorf("%w: no BEGIN line", ErrFormat)
	}
	return [Size]byte{}, fmt.Errorf("%w: no END line", ErrFormat)
}

// Format returns the file that holds a key, byte for byte as OpenVPN writes it.
func Format(key [Size]byte) []byte {
	var b bytes.Buffer
	b.WriteString("#\n# 2048 bit OpenVPN static key\n#\n" + head + "\n")
	for at := 0; at < Size; at += bytesPerLine {
		b.WriteString(hex.EncodeToString(key[at : at+bytesPerLine]))
		b.WriteByte('\n')
	}
	b.WriteString(tail + "\n")
	return b.Bytes()
}

// Generate makes a key of the bytes of random, which is crypto/rand.Reader
// outside of tests.
func Generate(random io.Reader) (key [Size]byte, err error) {
	if _, err := io.ReadFull(random, key[:]); err != nil {
		return [Size]byte{}, fmt.Errorf("generate static key: %w", err)
	}
	return key, nil
}
