// SPDX-License-Identifier: Apache-2.0

package keyex

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// pushBytes is how many bytes of options one PUSH_REPLY carries: with the words around
// them they fit the 1024 bytes that clients have for it.
const pushBytes = 940

// MaxOption is how long one pushed option may be, in bytes. Stock clients cut
// a longer one there and take the rest for another option (2.6.14 does).
const MaxOption = 255

// ErrComma says that an option holds a comma, which separates options and
// cannot be escaped.
var ErrComma = errors.New("an option with a comma cannot be pushed")

// Push makes PUSH_REPLY messages. The zero value is empty.
type Push struct{ options []string }

// Add adds an option. One that cannot be sent is refused: with ErrComma, or
// when it is too long or has control characters.
func (p *Push) Add(option string) error {
	switch {
	case option == "":
		return errors.New("an empty option cannot be pushed")
	case strings.Contains(option, ","):
		return ErrComma
	case len(option) > MaxOption:
		return fmt.Errorf("option has %d bytes, clients take %d", len(option), MaxOption)
	case strings.ContainsFunc(option, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return errors.New("an option with control characters cannot be pushed")
	}
	p.options = append(p.options, option)
	return nil
}

// Must adds an option that we have made ourselves, which cannot be refused.
func (p *Push) Must(option string) {
	if err := p.Add(option); err != nil {
		panic("push " + option + ": " + err.Error())
	}
}

// Messages returns the messages to send, in order; at least one.
func (p *Push) Messages() []string {
	parts := []string{PushReply}
	size := 0
	for _, o := range p.options {
		if size+1+len(o) > pushBytes && size > 0 {
			parts, size = append(parts, PushReply), 0
		}
		parts[len(parts)-1] += "," + o
		size += 1 + len(o)
	}
	if last := len(parts) - 1; last > 0 {
		for i := range last {
			parts[i] += ",push-continuation 2"
		}
		parts[last] += ",push-continuation 1"
	}
	return parts
}

// ParsePushReply returns the options of one PUSH_REPLY and whether another one
// follows it. ok is false if text is something else.
func ParsePushReply(text string) (options []string, more, ok bool) {
	rest, ok := strings.CutPrefix(text, PushReply)
	if !ok || rest != "" && rest[0] != ',' {
		return nil, false, false
	}
	for o := range strings.SplitSeq(strings.TrimPrefix(rest, ","), ",") {
		if n, is := strings.CutPrefix(o, "push-continuation "); is {
			more = n == "2"
			continue
		}
		if o != "" {
			options = append(options, o)
		}
	}
	return options, more, true
}

// ProtocolFlags returns the options that tell a client which of its abilities
// are used: ekm for data keys, dynamic for wrapping renegotiations. Only what it
// announced may be in there, since some clients give up at words that they don't
// know.
func ProtocolFlags(p *PeerInfo, ekm, dynamic bool) []string {
	if !p.Has(ProtoCCExit) {
		if ekm && p.Has(ProtoTLSKeyExport) {
			return []string{"key-derivation tls-ekm"}
		}
		return nil
	}
	flags := "protocol-flags cc-exit"
	if ekm && p.Has(ProtoTLSKeyExport) {
		flags += " tls-ekm"
	}
	if dynamic && p.Has(ProtoDynTLSCrypt) {
		flags += " dyn-tls-crypt"
	}
	return []string{flags}
}

// AuthPending returns the messages that tell a client that authentication
// takes longer, for so many seconds, and what it may do about it; extra is the
// text behind INFO_PRE, or empty.
func AuthPending(p *PeerInfo, seconds int, extra string) []string {
	text := "AUTH_PENDING"
	if p.Has(ProtoAuthPendingKW) && seconds > 0 {
		text += ",timeout " + strconv.Itoa(seconds)
	}
	if extra == "" {
		return []string{text}
	}
	return []string{text, "INFO_PRE," + extra}
}
