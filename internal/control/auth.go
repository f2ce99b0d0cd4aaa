// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/keyex"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/script"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/session"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/verify"
)

// maxPending bounds how long an answer may take that a command has deferred.
const maxPending = time.Hour

// attempt is one key's exchange on its way to an answer: who says it is there.
type attempt struct {
	keyID    uint8
	first    bool
	identity verify.Identity
	hasCert  bool
	username string
	password string
	ekm      bool
}

// verdict is what authentication found.
type verdict struct {
	ok       bool
	reason   string // for the log
	told     string // for the client, behind AUTH_FAILED
	username string
	token    string // a new auth token for the client; "": none
}

// keyExchanged begins the authentication of a key's exchange. The first key's
// is answered at once, since a client can be told nothing before. A later one
// is answered when it is authenticated: so the client cannot use the new key
// before we accept it.
func (i *instance) keyExchanged(e session.Event, now time.Time) {
	a := &attempt{keyID: e.KeyID, first: i.phase == handshaking, ekm: e.EKM,
		username: e.Message.Username, password: e.Message.Password}
	a.identity, a.hasCert = i.set.verify.IdentityOf(e.TLS)
	switch {
	case a.first:
		i.sess.Answer(e.KeyID, now)
		i.phase = authenticating
		i.client.meet(e)
	case i.phase != established:
		return
	}
	i.attempt = a
	if why := i.client.locked(a, i.set.conf.Auth.Verify != nil); why != "" {
		i.settle(a, verdict{reason: why}, now)
		return
	}
	q := &question{set: i.set, attempt: a}
	switch {
	case a.first:
		q.key = i.client.key
	case i.set.conf.Clients.ConfigDir != "":
		j := &joining{set: i.set, inst: i, name: i.client.name}
		q.file = j.barred
	}
	if !q.asks() {
		// Metadata alone need no command. A username that nobody has checked is none.
		i.settle(a, q.answer(i.ctx), now)
		return
	}
	i.client.answers = make(chan string, 1)
	q.env, q.answers = i.env(a), i.client.answers
	i.svc.background(i, func(ctx context.Context) func(time.Time) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		limit := time.AfterFunc(q.set.conf.HandWindow, cancel)
		defer limit.Stop()
		tell := i.pending()
		q.pending = func(p script.Pending) {
			// The client waits as long as it is told to.
			if !a.first {
				return // the exchange itself may take no longer than hand-window
			}
			limit.Reset(min(max(time.Duration(p.Timeout)*time.Second, q.set.conf.HandWindow), maxPending))
			tell(p)
		}
		v := q.answer(ctx)
		return func(now time.Time) { i.settle(a, v, now) }
	})
}

// pending returns what tells a client that its answer takes longer.
func (i *instance) pending() func(script.Pending) {
	return func(p script.Pending) {
		i.post(func(now time.Time) {
			if i.phase != authenticating {
				return
			}
			for _, text := range keyex.AuthPending(&i.client.info, p.Timeout, p.Text) {
				_ = i.sess.Send(text, now)
			}
			i.log.Info("authentication is pending", "method", p.Method, "timeout", p.Timeout)
		})
	}
}

// settle acts on an answer. One that comes when its exchange has failed, or
// when there is a newer one, is about nothing any more.
func (i *instance) settle(a *attempt, v verdict, now time.Time) {
	if i.phase == closing || i.phase == ended || i.attempt != a {
		return
	}
	i.attempt = nil
	if !a.first {
		// Whatever the answer is: behind the exchange alone can the client be told.
		i.sess.Answer(a.keyID, now)
	}
	if !v.ok {
		i.deny(a, v, now)
		return
	}
	if a.first {
		i.welcome(a, v, now)
		return
	}
	i.rekey(a, v, now)
}

// deny tells a client that it is refused.
func (i *instance) deny(a *attempt, v verdict, now time.Time) {
	i.svc.counters.denied.Add(1)
	if i.svc.noise.line() {
		i.log.Warn("authentication failed", "reason", v.reason, "common_name", a.identity.CommonName, "username", verify.Name(a.username))
	}
	i.refuse(v.told, "authentication failed", now)
}

// refuse sends AUTH_FAILED and closes when the client has had time to read it.
func (i *instance) refuse(told, why string, now time.Time) {
	text := keyex.AuthFailed
	if told != "" {
		text += "," + told
	}
	if err := i.sess.Send(text, now); err != nil && !errors.Is(err, session.ErrNotEstablished) {
		i.log.Debug("AUTH_FAILED was not sent", "error", err)
	}
	i.shut(now, why)
}
