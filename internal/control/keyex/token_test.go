// SPDX-License-Identifier: Apache-2.0

package keyex

import (
	"encoding/pem"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

func TestToken(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	tokens, err := NewTokens(nil, time.Hour, 10*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	first := tokens.Issue("joe", now)
	if !IsToken(first) || strings.ContainsAny(first, ", \n") {
		t.Errorf("token %q", first)
	}
	k, err := tokens.Check("joe", first, now.Add(5*time.Minute))
	if err != nil || !k.Initial.Equal(now) || !k.Renewed.Equal(now) {
		t.Fatalf("%+v, %v", k, err)
	}
	renewed := tokens.Renew("joe", k, now.Add(15*time.Minute))
	if k2, err := tokens.Check("joe", renewed, now.Add(30*time.Minute)); err != nil || k2.Session != k.Session || !k2.Initial.Equal(now) {
		t.Errorf("renewed: %+v, %v", k2, err)
	}
	other, _ := NewTokens(nil, time.Hour, 0)
	changed := "x"
	if first[20] == 'x' {
		changed = "y"
	}
	for name, v := range map[string]struct {
		user, token string
		after       time.Duration
		tokens      *Tokens
		want        error
	}{
		"another user":         {"jane", first, 0, tokens, ErrToken},
		"another secret":       {"joe", first, 0, other, ErrToken},
		"a bit changed":        {"joe", first[:20] + changed + first[21:], 0, tokens, ErrToken},
		"cut off":              {"joe", first[:len(first)-4], 0, tokens, ErrToken},
		"no token":             {"joe", "secret", 0, tokens, ErrToken},
		"not renewed for long": {"joe", first, 21 * time.Minute, tokens, ErrTokenExpired},
		"past its lifetime":    {"joe", renewed, 61 * time.Minute, tokens, ErrTokenExpired},
		"made in the future":   {"joe", first, -time.Hour, tokens, ErrTokenExpired},
		"of the empty user":    {"joe", tokens.Issue("", now), 0, tokens, ErrToken},
		"renewed before made":  {"joe", tokens.Renew("joe", NewToken(now), now.Add(-time.Minute)), 0, tokens, ErrTokenExpired},
		"two renewals old":     {"joe", first, 20 * time.Minute, tokens, ErrTokenExpired},
		"skewed clock is fine": {"joe", first, -30 * time.Second, tokens, nil},
		"renewed just in time": {"joe", first, 19 * time.Minute, tokens, nil},
	} {
		if _, err := v.tokens.Check(v.user, v.token, now.Add(v.after)); !errors.Is(err, v.want) || (err == nil) != (v.want == nil) {
			t.Errorf("%s: %v, want %v", name, err, v.want)
		}
	}
}

// TestExpiredToken: who may accept an expired token all the same is told whose
// session it was.
func TestExpiredToken(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	tokens, err := NewTokens(nil, time.Hour, 0)
	if err != nil {
		t.Fatal(err)
	}
	made := NewToken(now)
	k, err := tokens.Check("joe", tokens.Renew("joe", made, now), now.Add(2*time.Hour))
	if !errors.Is(err, ErrTokenExpired) || k.ID() != made.ID() || !k.Initial.Equal(now) {
		t.Errorf("%+v, %v", k, err)
	}
}

// TestIsToken: as with stock OpenVPN, what has a token's prefix and not its
// length is a password.
func TestIsToken(t *testing.T) {
	for password, want := range map[string]bool{
		TokenPrefix + strings.Repeat("A", 80): true,
		TokenPrefix + strings.Repeat("!", 80): true, // and no authentic one
		TokenPrefix + strings.Repeat("A", 79): false,
		TokenPrefix + strings.Repeat("A", 84): false,
		TokenPrefix + "secret":                false,
		strings.Repeat("A", 91):               false,
		"":                                    false,
	} {
		if got := IsToken(password); got != want {
			t.Errorf("%.20q of %d bytes: %v", password, len(password), got)
		}
	}
}

func TestTokenSecretFile(t *testing.T) {
	file := pem.EncodeToMemory(&pem.Block{Type: tokenLabel, Bytes: make([]byte, 128)})
	a, err := NewTokens(file, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := NewTokens(file, 0, 0)
	if _, err := b.Check("joe", a.Issue("joe", time.Now()), time.Now()); err != nil {
		t.Errorf("servers that share a secret: %v", err)
	}
	for _, bad := range []string{"", "secret", string(pem.EncodeToMemory(&pem.Block{Type: tokenLabel, Bytes: make([]byte, 20)}))} {
		if _, err := NewTokens([]byte(bad), 0, 0); err == nil {
			t.Errorf("%.20q was taken for a secret", bad)
		}
	}
}

// TestStockToken checks a token that OpenVPN 2.6.14 made with the secret in testdata,
// for the user named `joe "x"`, and what it told its script of it.
func TestStockToken(t *testing.T) {
	file, err := os.ReadFile("testdata/auth-token.key")
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := NewTokens(file, time.Hour, 0)
	if err != nil {
		t.Fatal(err)
	}
	const token = "SESS_ID_AT_AdfRMOWYIMv4QVYXAAAAAGsOU7sAAAAAaw5Tu77zaCJ7/MU3WjhZNVx1+NtqTG9zjjH1q0IxnuVDvTBQ"
	made := time.Unix(0x6b0e53bb, 0)
	k, err := tokens.Check(`joe "x"`, token, made.Add(time.Minute))
	if err != nil || !k.Initial.Equal(made) || !k.Renewed.Equal(made) || k.ID() != "AdfRMOWYIMv4QVYX" {
		t.Errorf("%v %v %q, %v", k.Initial, k.Renewed, k.ID(), err)
	}
	if again := tokens.Renew(`joe "x"`, k, made); again != token {
		t.Errorf("ours is %s", again)
	}
}

// TestStockRenewedToken checks the two tokens that OpenVPN 2.6.14 gave one
// client, at its connection and 4 seconds later at its renegotiation.
func TestStockRenewedToken(t *testing.T) {
	file, err := os.ReadFile("testdata/auth-token-renewed.key")
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := NewTokens(file, time.Hour, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	const (
		first   = "SESS_ID_AT_d+oIyiLDIMx+XJ3pAAAAAGsOT3UAAAAAaw5PdSWWYeoVn+0VrxlHfgkjZXHGoOM/C1IQ8Ezd9V5iPUVa"
		renewed = "SESS_ID_AT_d+oIyiLDIMx+XJ3pAAAAAGsOT3UAAAAAaw5PefRSRrF4hTmfGpTbskGxDSAJQiVj3F1J0dSeNABtWNdE"
	)
	made := time.Unix(0x6b0e4f75, 0)
	k, err := tokens.Check("alice", first, made)
	if err != nil {
		t.Fatal(err)
	}
	if ours := tokens.Renew("alice", k, made.Add(4*time.Second)); ours != renewed {
		t.Errorf("ours is %s", ours)
	}
	k, err = tokens.Check("alice", renewed, made.Add(time.Minute))
	if err != nil || !k.Initial.Equal(made) || !k.Renewed.Equal(made.Add(4*time.Second)) || k.ID() != "d+oIyiLDIMx+XJ3p" {
		t.Errorf("%+v, %v", k, err)
	}
}

func FuzzToken(f *testing.F) {
	tokens, _ := NewTokens(pem.EncodeToMemory(&pem.Block{Type: tokenLabel, Bytes: make([]byte, 128)}), 0, 0)
	f.Add("joe", tokens.Issue("joe", time.Unix(1, 0)))
	f.Fuzz(func(t *testing.T, user, token string) {
		if _, err := tokens.Check(user, token, time.Unix(1, 0)); err == nil && !IsToken(token) {
			t.Fatal("what is no token was accepted")
		}
	})
}

func FuzzTokenSecret(f *testing.F) {
	f.Add(pem.EncodeToMemory(&pem.Block{Type: tokenLabel, Bytes: make([]byte, 128)}))
	f.Add(pem.EncodeToMemory(&pem.Block{Type: tokenLabel, Bytes: make([]byte, 95)}))
	f.Fuzz(func(t *testing.T, file []byte) {
		if tokens, err := NewTokens(file, 0, 0); (tokens == nil) != (err != nil) {
			t.Fatalf("%v, %v", tokens, err)
		}
	})
}
