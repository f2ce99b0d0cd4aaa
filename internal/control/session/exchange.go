// SPDX-License-Identifier: Apache-2.0

package session

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/keyex"
)

// plaintexts are buffers for what was decrypted: long enough for any datagram
// and for most messages, and not kept by idle sessions.
var plaintexts = sync.Pool{New: func() any { b := make([]byte, maxDatagram); return &b }}

// read takes what TLS has to read: key method message first, control messages
// afterwards.
func (s *Session) read(ks *keyState) error {
	buf := plaintexts.Get().(*[]byte)
	defer plaintexts.Put(buf)
	defer clear(*buf)
	for {
		n, err := ks.conn.Read(*buf)
		if n > 0 {
			if err := s.plaintext(ks, (*buf)[:n]); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, errNoData):
			// Every record that arrives may have TLS write something, if only a
			// key update.
			if len(ks.pipe.out) > 2*maxBacklog {
				return fmt.Errorf("read tls: %w", ErrTooLong)
			}
			return nil
		case err == io.EOF:
			return ErrClosed
		case err != nil:
			return fmt.Errorf("read tls: %w", err)
		}
	}
}

// plaintext takes bytes that TLS read.
func (s *Session) plaintext(ks *keyState, b []byte) error {
	if ks.parser != nil {
		done, rest, err := ks.parser.Write(b)
		if err != nil {
			return fmt.Errorf("read key method message: %w", err)
		}
		if !done {
			return nil
		}
		m := ks.parser.Message()
		ks.parser = nil
		if err := s.exchangedMessage(ks, &m); err != nil {
			return err
		}
		b = rest
	}
	return s.messages(ks, b)
}

// messages takes control messages, which end with a NUL.
func (s *Session) messages(ks *keyState, b []byte) error {
	for len(b) > 0 {
		text, rest, whole := bytes.Cut(b, []byte{0})
		if len(ks.text)+len(text) > MaxText {
			return fmt.Errorf("read control message: %w", ErrTooLong)
		}
		if !whole {
			ks.text = append(ks.text, text...)
			return nil
		}
		b = rest
		full := string(ks.text) + string(text)
		ks.text = nil
		if full == "" {
			continue
		}
		if s.texts++; s.texts > maxMessages {
			return fmt.Errorf("read control messages: %w", ErrTooLong)
		}
		s.events = append(s.events, Event{Type: Message, KeyID: ks.id, Text: full})
	}
	return nil
}

// exchangedMessage takes the peer's key method message.
func (s *Session) exchangedMessage(ks *keyState, m *keyex.Message) error {
	if s.cfg.Role == Server {
		if err := s.hello(ks, m); err != nil {
			return err
		}
	}
	ks.seed.take(m, s.cfg.Role == Server)
	clear(m.PreMaster[:])
	s.events = append(s.events, Event{
		Type: KeyExchanged, KeyID: ks.id, Message: m, TLS: ks.conn.ConnectionState(), EKM: ks.exports(),
	})
	if s.cfg.Role == Client {
		ks.stage = exchanged
		if ks.acked {
			s.promote(ks)
		}
		s.sendHeld()
	}
	return nil
}

// hello makes our key method message; a client's is sent at once.
func (s *Session) hello(ks *keyState, peer *keyex.Message) error {
	m := s.cfg.Hello(ks.id, peer, ks.exports())
	random := [][]byte{m.Random1[:], m.Random2[:]}
	if s.cfg.Role == Client {
		random = append(random, m.PreMaster[:])
	}
	for _, r := range random {
		if _, err := io.ReadFull(s.cfg.Random, r); err != nil {
			return fmt.Errorf("read random bytes: %w", err)
		}
	}
	ks.seed = new(seed)
	ks.seed.take(&m, s.cfg.Role == Client)
	if s.cfg.Role == Client {
		defer clear(m.PreMaster[:])
		return s.write(ks, &m)
	}
	ks.hello = &m
	return nil
}

// write sends our key method message.
func (s *Session) write(ks *keyState, m *keyex.Message) error {
	b := m.Append(nil, s.cfg.Role == Client)
	defer clear(b)
	if _, err := ks.conn.Write(b); err != nil {
		return fmt.Errorf("write key method message: %w", err)
	}
	ks.mark = ks.written()
	return nil
}

// Answer sends a server's key method message, once the client's was reported by
// KeyExchanged, and does nothing otherwise. From then on control messages go
// under this key id. A server that refuses the client of a renegotiation
// answers all the same and says so with Send: stock clients listen to nothing
// but the newest key id, and to control messages only behind the key method
// message.
func (s *Session) Answer(keyID uint8, now time.Time) {
	s.clock(now)
	ks := s.find(keyID)
	if s.dead || ks == nil || ks.hello == nil {
		return
	}
	m := ks.hello
	ks.hello = nil
	if err := s.write(ks, m); err != nil {
		s.fail(ks, err)
		return
	}
	ks.stage = exchanged
	s.sendHeld()
}

// Send sends a control message, text without its NUL, on the newest key state.
// While a renegotiation is under way the message waits for its end: stock peers
// drop packets with the old key id from the soft reset on. Errors:
// ErrNotEstablished, ErrBacklog, ErrTooLong, and an empty text or one with a
// NUL.
func (s *Session) Send(text string, now time.Time) error {
	s.clock(now)
	switch {
	case text == "" || strings.IndexByte(text, 0) >= 0:
		return errors.New("control message is empty or has a NUL")
	case len(text) > MaxText:
		return fmt.Errorf("send control message: %w", ErrTooLong)
	case s.dead:
		return ErrNotEstablished
	}
	ks := s.negotiating
	if ks == nil {
		ks = s.established
	}
	if ks == nil {
		return ErrNotEstablished
	}
	if ks.stage != exchanged {
		if s.established == nil {
			return ErrNotEstablished
		}
		if s.heldBytes+len(text) > maxBacklog {
			return ErrBacklog
		}
		s.held = append(s.held, text)
		s.heldBytes += len(text) + recordOverhead
		return nil
	}
	if len(ks.pipe.out) > 0 && len(ks.pipe.out)+len(text) > maxBacklog {
		return ErrBacklog
	}
	return s.text(ks, text)
}

// text writes a control message; TLS makes one record of it.
func (s *Session) text(ks *keyState, text string) error {
	if _, err := ks.conn.Write(append([]byte(text), 0)); err != nil {
		return fmt.Errorf("send control message: %w", err)
	}
	return nil
}

// sendHeld sends the messages that waited for a renegotiation, which is over.
func (s *Session) sendHeld() {
	ks := s.negotiating
	if ks == nil {
		ks = s.established
	}
	if ks == nil || ks.stage != exchanged {
		return
	}
	held := s.held
	s.held, s.heldBytes = nil, 0
	for _, text := range held {
		if err := s.text(ks, text); err != nil {
			return // TLS is broken, which the next read reports
		}
	}
}
