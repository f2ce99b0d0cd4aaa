// SPDX-License-Identifier: Apache-2.0

package control

import (
	"reflect"
	"slices"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/verify"
	"github.com/ovpn-xdp/ovpn-xdp/internal/ovpnconf"
)

// Reload takes a new configuration into use. Sessions whose settings it leaves
// as they are go on; the others are told to come again. What has to do with
// sockets and devices is the caller's. On an error everything is as it was.
func (s *Service) Reload(conf *ovpnconf.Server) error {
	cfg := s.cfg
	cfg.Server = conf
	set, err := newSettings(conf, cfg)
	if err != nil {
		return err
	}
	g, err := newGate(set)
	if err != nil {
		return err
	}
	old := s.set.Load()
	if set.tokens != nil && old.tokens != nil && !conf.Auth.Token.Secret.Given() {
		set.tokens = set.tokens.WithKeyOf(old.tokens) // tokens given out go on being good
	}
	s.set.Store(set)
	s.gateMu.Lock()
	s.gate, s.connect = g, newConnectLimiter(set)
	s.gateMu.Unlock()
	kept, sent := 0, 0
	all := sameForAll(old.conf, conf) && reflect.DeepEqual(old.checks, set.checks)
	s.onTheirWay()
	for _, i := range s.clients() {
		if why, remedy := s.barred(i, set); why != "" {
			sent++
			i.post(func(now time.Time) {
				if i.phase == established {
					i.log.Warn("the client's certificate is no longer accepted", append([]any{"reason", why}, advice(remedy)...)...)
					i.dismiss(now, why)
				}
			})
			continue
		}
		if all && s.same(i, conf) {
			kept++
			i.post(func(time.Time) {
				i.set = set
				i.keys.Pace(&conf.Timers)
			})
			continue
		}
		sent++
		i.post(func(now time.Time) {
			if i.phase == established {
				i.log.Info("the client's settings have changed; it is told to come again")
				i.dismiss(now, "configuration reloaded")
			}
		})
	}
	s.log.Info("configuration reloaded", "clients_kept", kept, "clients_told_to_come_again", sent)
	return nil
}

// onTheirWay ends the sessions that are not connected yet: they would be let in by
// rules that no longer hold. Their clients begin anew by themselves.
func (s *Service) onTheirWay() {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, i := range s.all {
		i.post(func(now time.Time) {
			if i.phase < established {
				i.end(now, "configuration reloaded")
			}
		})
	}
}

// sameForAll reports whether what every client was told or checked against is the
// same in both configurations. Timers, scripts and limits count from the next
// event on and need no new session.
func sameForAll(a, b *ovpnconf.Server) bool {
	return slices.EqualFunc(a.Push, b.Push, func(x, y ovpnconf.Push) bool { return x.Text == y.Text }) &&
		slices.Equal(a.Data.Ciphers, b.Data.Ciphers) &&
		a.Peers.ClientCert == b.Peers.ClientCert && a.Auth.ViaFile == b.Auth.ViaFile &&
		slices.Equal(a.Auth.Verify, b.Auth.Verify) && a.Auth.UsernameAsCN == b.Auth.UsernameAsCN
}

// barred says why a client's certificate would not be accepted now; "": it would.
func (s *Service) barred(i *instance, set *settings) (why, remedy string) {
	i.mu.Lock()
	id, has := i.client.identity, i.client.hasCert
	i.mu.Unlock()
	if !has {
		return "", ""
	}
	return verify.Explain(set.verify.Barred(id))
}

// same reports whether a client's own file says what it said when the client
// connected.
func (s *Service) same(i *instance, conf *ovpnconf.Server) bool {
	i.mu.Lock()
	before, name := i.set.conf.Clients.ConfigDir, i.client.name
	i.mu.Unlock()
	if conf.Clients.ConfigDir == "" && before == "" {
		return true
	}
	j := &joining{set: &settings{conf: conf}, inst: i, name: name, pushes: conf.Push}
	if err := j.readFile(); err != nil || j.conf.Disable {
		return false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.phase != established {
		return true
	}
	return i.client.fromFile == describe(j.conf, j.pushes)
}
