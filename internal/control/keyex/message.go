// SPDX-License-Identifier: Apache-2.0

// Package keyex holds what the two ends of a session tell each other inside TLS:
// the key method 2 messages with key material, options and peer-info, the
// control messages that follow (PUSH_REPLY and the like), and what is
// concluded from them: data keys, cipher, protocol flags. It does no I/O and
// has no clock.
package keyex

import (
	"encoding/binary"
	"errors"
)

const (
	// MaxOptions, MaxCredential and MaxPeerInfo bound the strings of a message,
	// in bytes with their NUL. Stock OpenVPN takes 512, 4096 and what is left of its
	// 2048-byte buffer. What is longer is refused; peer-info cannot be, since
	// its length has 16 bits.
	MaxOptions    = 512
	MaxCredential = 4096
	MaxPeerInfo   = 1<<16 - 1

	keyMethod     = 2
	keyMethodMask = 0x0f // the rest of the byte is flags
	preMasterLen  = 48
	randomLen     = 32
)

var (
	// ErrKeyMethod says that a message does not use key method 2.
	ErrKeyMethod = errors.New("key method is not 2")
	// ErrTooLong says that a string of a message is longer than allowed.
	ErrTooLong = errors.New("a string of the key method message is too long")
)

// Message is a key method 2 message.
type Message struct {
	PreMaster        [preMasterLen]byte // a client's only
	Random1, Random2 [randomLen]byte
	Options          string
	// Username and Password are a client's. HasUser: it sent some, even if empty.
	Username, Password string
	HasUser            bool
	PeerInfo           string
}

// Append appends the message to dst, as a client or a server sends it. Strings
// must be within the limits above.
func (m *Message) Append(dst []byte, fromClient bool) []byte {
	dst = append(dst, 0, 0, 0, 0, keyMethod)
	if fromClient {
		dst = append(dst, m.PreMaster[:]...)
	}
	dst = append(dst, m.Random1[:]...)
	dst = append(dst, m.Random2[:]...)
	dst = appendString(dst, m.Options, true)
	dst = appendString(dst, m.Username, m.HasUser)
	dst = appendString(dst, m.Password, m.HasUser)
	if fromClient || m.PeerInfo != "" {
		dst = appendString(dst, m.PeerInfo, m.PeerInfo != "")
	}
	return dst
}

// appendString appends a string with its length, which counts a NUL behind it;
// an absent one has length 0.
func appendString(dst []byte, s string, present bool) []byte {
	if !present {
		return append(dst, 0, 0)
	}
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(s)+1))
	dst = append(dst, s...)
	return append(dst, 0)
}

// Parser reads one message from a stream of bytes, however that is cut.
//
// Nothing in a message says how many strings it has: servers leave out user,
// password and peer-info. What a server's message lacks at the end of the bytes of one
// Write is taken for left out.
type Parser struct {
	fromClient bool
	m          Message
	fixed      []byte // of the part in front of the strings
	field      int    // string being read
	length     int    // of it; -1: not known yet
	head       []byte
	data       []byte
}

// NewParser returns a parser of a client's or a server's message.
func NewParser(fromClient bool) *Parser { return &Parser{fromClient: fromClient, length: -1} }

func (p *Parser) fixedLen() int {
	n := 4 + 1 + 2*randomLen
	if p.fromClient {
		n += preMasterLen
	}
	return n
}

// The strings of a message, in order.
const (
	fieldOptions = iota
	fieldUsername
	fieldPassword
	fieldPeerInfo
	fields
)

var fieldLimits = [fields]int{MaxOptions, MaxCredential, MaxCredential, MaxPeerInfo}

// Write takes the next bytes, which are copied. done reports that the message
// is complete, rest is what of b is behind it. Bytes of a message that was refused are of no
// use: after an error Write must not be called.
func (p *Parser) Write(b []byte) (done bool, rest []byte, err error) {
	if need := p.fixedLen() - len(p.fixed); need > 0 {
		n := min(need, len(b))
		p.fixed = append(p.fixed, b[:n]...)
		b = b[n:]
		if len(p.fixed) > 4 && p.fixed[4]&keyMethodMask != keyMethod {
			return false, nil, ErrKeyMethod
		}
		if n < need {
			return false, nil, nil
		}
		p.takeFixed()
	}
	for p.field < fields {
		if p.length < 0 {
			n := min(2-len(p.head), len(b))
			p.head = append(p.head, b[:n]...)
			if b = b[n:]; len(p.head) < 2 {
				break
			}
			p.length, p.head, p.data = int(binary.BigEndian.Uint16(p.head)), p.head[:0], nil
			if p.length > fieldLimits[p.field] {
				return false, nil, ErrTooLong
			}
		}
		n := min(p.length-len(p.data), len(b))
		p.data = append(p.data, b[:n]...)
		if b = b[n:]; len(p.data) < p.length {
			break
		}
		p.takeField()
	}
	done = p.field == fields || !p.fromClient && p.field > fieldOptions && p.length < 0 && len(p.head) == 0
	return done, b, nil
}

func (p *Parser) takeFixed() {
	b := p.fixed[5:]
	if p.fromClient {
		b = b[copy(p.m.PreMaster[:], b):]
	}
	b = b[copy(p.m.Random1[:], b):]
	copy(p.m.Random2[:], b)
	clear(p.fixed)
}

// takeField ends a string: without the NUL that ends it, and without what
// follows a NUL inside.
func (p *Parser) takeField() {
	s := p.data
	for i, c := range s {
		if c == 0 {
			s = s[:i]
			break
		}
	}
	switch p.field {
	case fieldOptions:
		p.m.Options = string(s)
	case fieldUsername:
		p.m.Username, p.m.HasUser = string(s), p.length > 0
	case fieldPassword:
		p.m.Password = string(s)
	case fieldPeerInfo:
		p.m.PeerInfo = string(s)
	}
	clear(p.data)
	p.field, p.length, p.data = p.field+1, -1, nil
}

// Message returns the message once it is complete.
func (p *Parser) Message() Message { return p.m }
