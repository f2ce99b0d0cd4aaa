// SPDX-License-Identifier: Apache-2.0

package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/keyex"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/pool"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/script"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/verify"
	"github.com/ovpn-xdp/ovpn-xdp/internal/ovpnconf"
)

// unnamed is the name of a client that has neither certificate nor username.
const unnamed = "UNDEF"

// welcome takes an authenticated client in: what it can do is compared with
// what is wanted, its older self is shown out, and it is connected.
func (i *instance) welcome(a *attempt, v verdict, now time.Time) {
	c, conf := &i.client, i.set.conf
	c.identity, c.hasCert, c.username, c.known = a.identity, a.hasCert, v.username, true
	c.name = nameOf(conf, a, v)
	i.log = i.log.With("client", c.name)
	i.display.Store(&c.name)
	i.trusted.Store(true)
	i.svc.proven(i)

	c.ekm = a.ekm && c.info.Has(keyex.ProtoTLSKeyExport)
	c.dynamic = c.ekm && c.info.Has(keyex.ProtoDynTLSCrypt)
	c.asks = !c.info.Has(keyex.ProtoRequestPush)
	c.token = v.token
	i.phase, c.since = connecting, now
	// An older session goes at once, whatever else has to be waited for.
	others := i.svc.rivals(i, c.name, conf)
	j := &joining{set: i.set, svc: i.svc, inst: i, name: c.name, others: others}
	if conf.Scripts.ClientConnect == nil && conf.Scripts.ClientDisconnect == nil && conf.Clients.ConfigDir == "" {
		i.join(j, j.run(i.ctx), now)
		return
	}
	if conf.Scripts.ClientConnect != nil {
		j.env = i.env(nil)
		j.env.Set("script_type", "client-connect")
		timeEnv(j.env, now)
	}
	c.joining = true
	i.svc.background(i, func(ctx context.Context) func(time.Time) {
		ctx, cancel := context.WithTimeout(ctx, conf.HandWindow)
		defer cancel()
		err := j.run(ctx)
		return func(now time.Time) { i.join(j, err, now) }
	})
}

// maxUserName is how long a username that becomes a client's name may be, in
// bytes, as with stock OpenVPN; a certificate's common name has as many characters.
const maxUserName = 64

// unfit says why a username cannot be a client's name, if it cannot: a
// command has to have been asked about that name and no other one.
func unfit(username string) string {
	switch {
	case len(username) > maxUserName:
		return fmt.Sprintf("the username has %d bytes, and as a client's name it can have %d", len(username), maxUserName)
	case verify.Name(username) != script.Credential(username):
		return "the username has characters that a client's name cannot have"
	}
	return ""
}

// nameOf returns what a client is called everywhere.
func nameOf(conf *ovpnconf.Server, a *attempt, v verdict) string {
	switch {
	case v.username != "" && (conf.Auth.UsernameAsCN || !a.hasCert) && unfit(v.username) == "":
		return verify.Name(v.username)
	case a.hasCert:
		return a.identity.CommonName
	}
	return unnamed
}

// joining is a client on its way in: everything that may wait for files and
// commands. It touches nothing of its instance that changes.
type joining struct {
	set    *settings
	svc    *Service
	inst   *instance
	name   string
	others []*instance // older sessions of the same client
	env    *script.Env

	conf    *ovpnconf.Client
	pushes  []ovpnconf.Push
	lease   *lease
	entered bool // client-connect has run

	fromFile string // see describe
}

var (
	errDisabled  = errors.New("the client is disabled by its file in client-config-dir")
	errExclusive = errors.New("ccd-exclusive is set and there is no file for the client in client-config-dir")
)

// run finds out what the client is to get. An address of the pool is held in
// j.lease, also when it fails.
func (j *joining) run(ctx context.Context) error {
	if err := j.wait(ctx); err != nil {
		return err
	}
	j.pushes = j.set.conf.Push
	if err := j.readFile(); err != nil {
		return err
	}
	if j.conf.Disable {
		return errDisabled
	}
	j.fromFile = describe(j.conf, j.pushes)
	if err := j.reserve(ctx); err != nil {
		return err
	}
	if j.set.conf.Scripts.ClientConnect == nil {
		return nil
	}
	poolEnv(j.env, j.lease, j.set.conf)
	text, err := j.set.runner.ClientConnect(ctx, script.Command(j.set.conf.Scripts.ClientConnect), j.env)
	j.entered = err == nil
	if err != nil {
		return fmt.Errorf("client-connect: %w", err)
	}
	if text == "" {
		return nil
	}
	conf, findings := ovpnconf.ParseClient("client-connect", text, j.set.conf)
	j.merge(conf, findings)
	if j.conf.Disable {
		return errDisabled
	}
	return j.svc.books.amend(j.lease, j.conf, j.set.conf)
}

// wait lets the last commands about older sessions come before the first about ours.
func (j *joining) wait(ctx context.Context) error {
	for _, o := range j.others {
		select {
		case <-o.left:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	j.others = nil
	return nil
}

// reserve gets the lease, after older sessions that have come to theirs since
// have been shown out too.
func (j *joining) reserve(ctx context.Context) (err error) {
	for {
		j.lease, err = j.svc.books.reserve(j.inst, j.name, j.conf, j.set.conf)
		if err != errRivalry {
			return err
		}
		j.others = j.svc.rivals(j.inst, j.name, j.set.conf)
		if err := j.wait(ctx); err != nil {
			return err
		}
	}
}

// readFile reads the client's own file, or else DEFAULT.
func (j *joining) readFile() error {
	j.conf = &ovpnconf.Client{}
	dir := j.set.conf.Clients.ConfigDir
	if dir == "" {
		return nil
	}
	names := []string{"DEFAULT"}
	if own, ok := verify.FileName(j.name); ok {
		names = []string{own, "DEFAULT"}
	}
	for n, name := range names {
		if n == len(names)-1 && j.set.conf.Clients.ConfigExclusive {
			break
		}
		conf, findings, err := ovpnconf.ReadClient(filepath.Join(dir, name), j.set.conf)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read client file: %w", err)
		}
		j.merge(conf, findings)
		return nil
	}
	if j.set.conf.Clients.ConfigExclusive {
		return errExclusive
	}
	return nil
}

// barred says what a client's file has against a client that is connected already, or
// "". A file that cannot be read is as good as none.
func (j *joining) barred() string {
	err := j.readFile()
	switch {
	case errors.Is(err, errExclusive), err != nil && j.set.conf.Clients.ConfigExclusive:
		return err.Error()
	case err == nil && j.conf.Disable:
		return errDisabled.Error()
	}
	return ""
}

// merge adds what a file says. As with stock OpenVPN, lines that cannot be used
// are logged and the client is let in.
func (j *joining) merge(conf *ovpnconf.Client, findings []ovpnconf.Finding) {
	for _, f := range findings {
		if f.Verdict != ovpnconf.Honoured {
			j.inst.svc.once(f.String())
		}
	}
	j.pushes = conf.Pushes(j.pushes)
	merged := *j.conf
	merged.Disable = merged.Disable || conf.Disable
	merged.Untold4, merged.Untold6 = merged.Untold4 || conf.Untold4, merged.Untold6 || conf.Untold6
	if conf.Address4.IsValid() {
		merged.Address4 = conf.Address4
	}
	if conf.Address6.IsValid() {
		merged.Address6, merged.Gateway6 = conf.Address6, conf.Gateway6
	}
	merged.Routes = append(merged.Routes[:len(merged.Routes):len(merged.Routes)], conf.Routes...)
	merged.Ping = cmp.Or(conf.Ping, merged.Ping)
	merged.PingRestart = cmp.Or(conf.PingRestart, merged.PingRestart)
	merged.SessionTimeout = cmp.Or(conf.SessionTimeout, merged.SessionTimeout)
	if conf.Inactive != nil {
		merged.Inactive, merged.InactiveBytes = conf.Inactive, conf.InactiveBytes
	}
	if conf.Ciphers != nil {
		merged.Ciphers = conf.Ciphers
	}
	merged.Fallback = cmp.Or(conf.Fallback, merged.Fallback)
	j.conf = &merged
}

// join ends the way in.
func (i *instance) join(j *joining, err error, now time.Time) {
	c := &i.client
	c.lease, c.conf, c.connected, c.joining, c.fromFile = j.lease, j.conf, j.entered, false, j.fromFile
	if i.phase != connecting {
		// The session has ended meanwhile.
		i.svc.drop(c.lease, i.set.conf)
		i.farewell(now)
		return
	}
	if err != nil {
		i.turnAway(err, now)
		return
	}
	if err := i.admit(j.pushes, now); err == errNewer {
		i.turnAway(err, now)
		return
	} else if err != nil {
		told := keyex.Told(err)
		if told == "" {
			told = keyex.Temporary(&c.info, "the server has a problem with this client")
		}
		i.log.Warn("client refused", "reason", err, "version", verify.Name(c.info.Version))
		i.refuse(told, err.Error(), now)
		return
	}
	i.learn()
}

// turnAway refuses a client that is authenticated. It may try again later, unless
// its file or client-connect says no.
func (i *instance) turnAway(err error, now time.Time) {
	told := ""
	switch {
	case errors.Is(err, errNewer):
		// As when the newer session had come a moment later: no word, which would
		// make two clients of one name drive each other out for ever.
		i.log.Info("a newer session of the client replaces this one")
		i.end(now, "replaced by a new session")
		return
	case errors.Is(err, errFull):
		told = keyex.Temporary(&i.client.info, "the server is full")
	case errors.Is(err, pool.ErrExhausted):
		told = keyex.Temporary(&i.client.info, "the server has no address left")
	}
	i.log.Warn("client refused", "reason", err)
	i.refuse(told, err.Error(), now)
}

// describe sums up what files say about a client, for a reload to compare.
func describe(c *ovpnconf.Client, pushes []ovpnconf.Push) string {
	text := fmt.Sprint(c.Disable, c.Untold4, c.Untold6, c.Address4, c.Address6, c.Gateway6, c.Routes, c.Ciphers, c.Fallback, c.InactiveBytes)
	for _, d := range []*time.Duration{c.Ping, c.PingRestart, c.Inactive, c.SessionTimeout} {
		if d != nil {
			text += " " + d.String()
		} else {
			text += " -"
		}
	}
	for _, p := range pushes {
		text += "\n" + p.Text
	}
	return text
}
