// SPDX-License-Identifier: Apache-2.0

package control

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/credentials"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/gate"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/keyex"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/script"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/verify"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wrap"
	"github.com/ovpn-xdp/ovpn-xdp/internal/ovpnconf"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/peer"
)

// Config is what a service is made of. Everything in it is borrowed until
// Close has returned.
type Config struct {
	Server *ovpnconf.Server
	Peers  *peer.Table
	Send   Sender
	Routes Routes
	// Dev is the TUN device's name.
	Dev string
	// Clock is the packet path's monotonic clock in nanoseconds, in which peers
	// count their keepalive.
	Clock func() int64
	Log   *slog.Logger
}

// settings are everything that comes from the configuration and its files.
// They are never changed: a reload makes new ones, and sessions keep those that they
// began with until they have ended.
type settings struct {
	conf   *ovpnconf.Server
	verify *verify.Verifier
	checks verify.Options // that it was made of, with the files' content
	guard  *script.Runner // of commands about who is not authenticated yet
	runner *script.Runner // of commands about clients, which strangers cannot delay
	tokens *keyex.Tokens  // nil without auth-gen-token
	static func() *wrap.Wrap
	key    *[256]byte // of static; nil when packets are not wrapped
	v2     *wrap.ServerKey
	dev    string
}

// newSettings reads the files that a configuration names.
func newSettings(c *ovpnconf.Server, cfg Config) (*settings, error) {
	s := &settings{conf: c, dev: cfg.Dev}
	checks, err := credentials.Verify(&c.Common)
	checks.ClientCert = verify.ClientCert(c.Peers.ClientCert)
	if err != nil {
		return nil, err
	}
	s.checks = checks
	if s.verify, err = verify.New(checks); err != nil {
		return nil, err
	}
	commands := script.Config{Dir: c.Process.Cd, TempDir: c.Scripts.TmpDir, Log: cfg.Log}
	s.guard, s.runner = script.New(commands), script.New(commands)
	if c.Auth.Token.Enabled {
		var secret []byte
		if c.Auth.Token.Secret.Given() {
			if secret, err = c.Auth.Token.Secret.Load(); err != nil {
				return nil, err
			}
		}
		if s.tokens, err = keyex.NewTokens(secret, c.Auth.Token.Lifetime, tokenRenewal(c)); err != nil {
			return nil, fmt.Errorf("read auth-gen-token-secret: %w", err)
		}
	}
	return s, s.wrapping()
}

// tokenRenewal is how often a client gets a new auth token: reneg-sec unless it is
// given. A token is good for twice as long.
func tokenRenewal(c *ovpnconf.Server) time.Duration {
	if c.Auth.Token.Renewal > 0 {
		return c.Auth.Token.Renewal
	}
	return c.RenegMax
}

// wrapping prepares the wrapping of control packets.
func (s *settings) wrapping() error {
	w := s.conf.Wrap
	if w.V2.Given() {
		pem, err := w.V2.Load()
		if err != nil {
			return err
		}
		if s.v2, err = wrap.ParseServerKey(pem); err != nil {
			return fmt.Errorf("read tls-crypt-v2: %w", err)
		}
	}
	switch w.Mode {
	case ovpnconf.WrapNone:
		if s.v2 == nil {
			s.static = wrap.Plain
		}
		return nil
	case ovpnconf.WrapTLSAuth:
		key, err := credentials.StaticKey(w.Key)
		if err != nil {
			return err
		}
		digest, err := wrap.ParseDigest(w.Digest)
		if err != nil {
			return fmt.Errorf("read auth: %w", err)
		}
		direction := [...]wrap.Direction{wrap.Bidirectional, wrap.Normal, wrap.Inverse}[w.Direction]
		s.key = key
		s.static = func() *wrap.Wrap { return wrap.TLSAuth(key, digest, direction) }
	case ovpnconf.WrapTLSCrypt:
		key, err := credentials.StaticKey(w.Key)
		if err != nil {
			return err
		}
		s.key = key
		s.static = func() *wrap.Wrap { return wrap.TLSCrypt(key, wrap.Server) }
	}
	return nil
}

func newGate(s *settings) (*gate.Gate, error) {
	return gate.New(gate.Config{
		Static: s.static, StaticKey: s.key, V2: s.v2, ForceCookie: s.conf.Wrap.V2ForceCookie, HandWindow: s.conf.HandWindow,
		Rate: gate.Rate{Count: s.conf.Clients.Initial.Count, Per: s.conf.Clients.Initial.Per},
	})
}

// newConnectLimiter makes the limit of connect-freq.
func newConnectLimiter(s *settings) *gate.Limiter {
	c := s.conf.Clients.Connect
	return gate.NewLimiter(gate.Rate{Count: c.Count, Per: c.Per})
}

// tlsConfig returns the configuration of one handshake.
func (s *settings) tlsConfig(uint8) (*tls.Config, error) { return s.verify.TLSConfig(), nil }

// renegotiate draws the time that a client's keys live.
func (s *settings) renegotiate() time.Duration {
	least, most := s.conf.RenegMin, s.conf.RenegMax
	if most <= 0 || least >= most {
		return most
	}
	return least + rand.N(most-least)
}
