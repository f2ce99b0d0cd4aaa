// SPDX-License-Identifier: Apache-2.0

package keyex

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	// TokenPrefix is how every auth token begins.
	TokenPrefix = "SESS_ID_AT_"
	tokenLabel  = "OpenVPN auth-token server key"

	tokenSession = 12 // bytes of session id
	tokenTime    = 8  // bytes of a time, seconds
	tokenLen     = tokenSession + 2*tokenTime + sha256.Size
	tokenTextLen = len(TokenPrefix) + tokenLen/3*4 // base64 without padding: 60 is a multiple of 3
	tokenKeyAt   = 64                              // the HMAC key's place in the file's 128 bytes

	// clockSkew is how far in the future a token may have been made, for
	// servers that share a secret. Stock servers grant nothing.
	clockSkew = time.Minute
)

var (
	// ErrToken says that a password is no token of this server's for this user.
	ErrToken = errors.New("auth token is not authentic")
	// ErrTokenExpired says that a token is authentic, and too old or from the future.
	ErrTokenExpired = errors.New("auth token has expired")
)

// Tokens makes and checks the auth tokens that stand for a password once that
// was checked. It is not changed and may be used concurrently.
type Tokens struct {
	key      [sha256.Size]byte
	lifetime time.Duration
	renewal  time.Duration
}

// NewTokens takes the secret's file, or makes a secret that lasts as long as the
// process if it is nil. A token is good for lifetime from its first issue, 0: for ever, and, if
// renewal is not 0, for two renewals without being renewed. Stock OpenVPN takes
// reneg-sec for a renewal that is not given.
func NewTokens(file []byte, lifetime, renewal time.Duration) (*Tokens, error) {
	t := &Tokens{lifetime: lifetime, renewal: renewal}
	if file == nil {
		_, _ = rand.Read(t.key[:]) // never fails
		return t, nil
	}
	b, _ := pem.Decode(file)
	if b == nil || b.Type != tokenLabel || len(b.Bytes) < tokenKeyAt+len(t.key) {
		return nil, fmt.Errorf("no %q of 128 bytes in the file", "-----BEGIN "+tokenLabel+"-----")
	}
	copy(t.key[:], b.Bytes[tokenKeyAt:])
	return t, nil
}

// WithKeyOf returns tokens of t's times that are made and checked with another's key.
func (t *Tokens) WithKeyOf(other *Tokens) *Tokens {
	return &Tokens{key: other.key, lifetime: t.lifetime, renewal: t.renewal}
}

// IsToken reports whether a password has the form of a token: its prefix and
// length. Others are passwords, whatever they begin with.
func IsToken(password string) bool {
	return strings.HasPrefix(password, TokenPrefix) && len(password) == tokenTextLen
}

// Token is what a token says.
type Token struct {
	Session          [tokenSession]byte
	Initial, Renewed time.Time
}

// NewToken starts a session at now, with a random id that scripts can be told
// before there is a token: Renew makes the first one too.
func NewToken(now time.Time) Token {
	k := Token{Initial: now, Renewed: now}
	_, _ = rand.Read(k.Session[:]) // never fails
	return k
}

// Issue makes a user's first token, of a new session.
func (t *Tokens) Issue(user string, now time.Time) string {
	return t.Renew(user, NewToken(now), now)
}

// Renew makes a token that follows k.
func (t *Tokens) Renew(user string, k Token, now time.Time) string {
	b := make([]byte, 0, tokenLen)
	b = append(b, k.Session[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(k.Initial.Unix()))
	b = binary.BigEndian.AppendUint64(b, uint64(now.Unix()))
	b = append(b, t.mac(user, b)...)
	return TokenPrefix + base64.StdEncoding.EncodeToString(b)
}

func (t *Tokens) mac(user string, b []byte) []byte {
	m := hmac.New(sha256.New, t.key[:])
	m.Write([]byte(user))
	m.Write(b)
	return m.Sum(nil)
}

// Check returns what a user's token says. The error is ErrToken, or
// ErrTokenExpired: then the Token is what an authentic one said.
//
// A token of the same session that was made out to the empty user, with which
// stock OpenVPN helps clients that lose their name, is none of this user.
func (t *Tokens) Check(user, token string, now time.Time) (k Token, err error) {
	if !IsToken(token) {
		return k, ErrToken
	}
	b, err := base64.StdEncoding.DecodeString(token[len(TokenPrefix):])
	if err != nil || len(b) != tokenLen {
		return k, ErrToken
	}
	said := b[:tokenLen-sha256.Size]
	if !hmac.Equal(b[len(said):], t.mac(user, said)) {
		return k, ErrToken
	}
	copy(k.Session[:], b)
	k.Initial = time.Unix(int64(binary.BigEndian.Uint64(b[tokenSession:])), 0)
	k.Renewed = time.Unix(int64(binary.BigEndian.Uint64(b[tokenSession+tokenTime:])), 0)
	switch {
	case k.Initial.After(k.Renewed),
		k.Renewed.After(now.Add(clockSkew)),
		t.lifetime > 0 && now.Sub(k.Initial) > t.lifetime,
		t.renewal > 0 && now.Sub(k.Renewed) >= 2*t.renewal:
		return k, ErrTokenExpired
	}
	return k, nil
}

// ID is the session id as scripts see it.
func (k *Token) ID() string { return base64.StdEncoding.EncodeToString(k.Session[:]) }
