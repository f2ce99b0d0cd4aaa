// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/keyex"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/script"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/verify"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wrap"
)

// question is everything that a decision about an attempt depends on. It is
// answered beside the workers, so it holds no instance.
type question struct {
	set     *settings
	attempt *attempt
	key     *wrap.ClientKey // with its metadata; nil: no tls-crypt-v2, or a later attempt
	file    func() string   // of a client that is connected: what its file has against it now; nil: there are no files
	env     *script.Env
	pending func(script.Pending)
	answers <-chan string // the client's, to challenges
}

// asks reports whether answering may take time: whether it runs commands.
func (q *question) asks() bool {
	c := q.set.conf
	return c.Peers.Verify != nil && q.attempt.hasCert || c.Auth.Verify != nil || q.key != nil && c.Wrap.V2Verify != nil || q.file != nil
}

// answer decides. Everybody who has a say has to agree.
func (q *question) answer(ctx context.Context) verdict {
	for _, check := range []func(context.Context) string{q.metadata, q.certificates} {
		if why := check(ctx); why != "" {
			return verdict{reason: why}
		}
	}
	if q.file != nil {
		if why := q.file(); why != "" {
			return verdict{reason: why}
		}
	}
	if q.set.conf.Auth.Verify == nil {
		return verdict{ok: true}
	}
	return q.password(ctx)
}

// metadata is tls-crypt-v2-verify and tls-crypt-v2-max-age.
func (q *question) metadata(ctx context.Context) string {
	if q.key == nil {
		return ""
	}
	w := q.set.conf.Wrap
	if w.V2MaxAge > 0 {
		made, ok := q.key.Made()
		if !ok {
			return "the client's tls-crypt-v2 key does not say when it was made, and tls-crypt-v2-max-age is set"
		}
		if age := time.Since(made); age > w.V2MaxAge {
			return fmt.Sprintf("the client's tls-crypt-v2 key is %d days old, more than tls-crypt-v2-max-age allows", int(age/(24*time.Hour)))
		}
	}
	if w.V2Verify == nil {
		return ""
	}
	if err := q.set.guard.VerifyMetadata(ctx, script.Command(w.V2Verify), q.env, q.key.Type, q.key.Metadata); err != nil {
		return fmt.Sprintf("tls-crypt-v2-verify refused the client's key: %v", err)
	}
	return ""
}

// certificates is tls-verify, from the CA to the client's own.
func (q *question) certificates(ctx context.Context) string {
	command := q.set.conf.Peers.Verify
	if command == nil || !q.attempt.hasCert {
		return ""
	}
	env := q.env.Clone()
	env.Set("script_type", "tls-verify")
	certs := q.set.verify.Chain(q.attempt.identity)
	for depth := len(certs) - 1; depth >= 0; depth-- {
		subject := verify.Subject(certs[depth])
		remove, err := q.export(certs[depth], env)
		if err != nil {
			return err.Error()
		}
		defer remove()
		if err := q.set.guard.Ask(ctx, script.Command(command), env, strconv.Itoa(depth), subject); err != nil {
			return fmt.Sprintf("tls-verify refused the certificate at depth %d (%s): %v", depth, subject, err)
		}
	}
	return ""
}

// export writes a certificate for tls-verify to read, if tls-export-cert says
// where.
func (q *question) export(c *x509.Certificate, env *script.Env) (remove func(), err error) {
	dir := q.set.conf.Peers.ExportCert
	if dir == "" {
		return func() {}, nil
	}
	f, err := os.CreateTemp(dir, "ovpn-xdp-peer-cert-") // 0600
	if err != nil {
		return nil, fmt.Errorf("tls-export-cert: %w", err)
	}
	defer f.Close()
	remove = func() { os.Remove(f.Name()) }
	if err := pem.Encode(f, &pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}); err != nil {
		remove()
		return nil, fmt.Errorf("tls-export-cert: %w", err)
	}
	env.Set("peer_cert", f.Name())
	return remove, nil
}

// password is auth-user-pass-verify and auth-gen-token.
func (q *question) password(ctx context.Context) verdict {
	c, a := q.set.conf.Auth, q.attempt
	if a.username == "" && !c.Optional {
		return verdict{reason: "the client sent no username and password, or no username; its configuration needs auth-user-pass"}
	}
	if c.UsernameAsCN && a.username != "" {
		if why := unfit(a.username); why != "" {
			return verdict{reason: why}
		}
	}
	var token keyex.Token
	var tokenErr error
	is := q.set.tokens != nil && keyex.IsToken(a.password)
	if is {
		token, tokenErr = q.set.tokens.Check(a.username, a.password, time.Now())
	}
	if is && !c.Token.External {
		switch tokenErr {
		case nil:
			next := q.renewed(token)
			if next == "" && a.first {
				next = a.password // good for a while, and renewed in its time
			}
			return verdict{ok: true, username: a.username, token: next}
		case keyex.ErrTokenExpired:
			return verdict{reason: tokenErr.Error(), told: keyex.SessionExpired("token expired")}
		}
		return verdict{reason: tokenErr.Error() + "; without auth-gen-token-secret those from before a restart are not, and clients ask for their password again"}
	}
	env := q.env.Clone()
	env.Set("script_type", "user-pass-verify")
	if q.set.tokens != nil {
		env.Set("session_state", tokenState(is, tokenErr))
		if !is || tokenErr == keyex.ErrToken {
			token = keyex.NewToken(time.Now())
		}
		env.Set("session_id", token.ID())
	}
	v, err := q.set.guard.VerifyUserPass(ctx, script.UserPass{Command: script.Command(c.Verify), ViaFile: c.ViaFile,
		Username: a.username, Password: a.password, Env: env, Pending: q.pending,
		Respond: script.Command(q.set.conf.Scripts.CRResponse), Responses: q.answers})
	switch {
	case ctx.Err() != nil:
		return verdict{reason: "auth-user-pass-verify gave no answer within hand-window, or the time that it had asked for"}
	case err != nil:
		return verdict{reason: fmt.Sprintf("auth-user-pass-verify gave no answer: %v", err)}
	case !v.OK:
		return verdict{reason: "auth-user-pass-verify refused user and password", told: v.Reason}
	}
	out := verdict{ok: true, username: a.username}
	if q.set.tokens != nil && a.username != "" {
		if is && tokenErr == nil {
			out.token = q.renewed(token)
		} else {
			// One that has expired and was accepted nevertheless keeps its session and beginning.
			out.token = q.set.tokens.Renew(a.username, token, time.Now())
		}
	}
	return out
}

// renewed returns the token that follows the client's, or "" while that is new enough.
func (q *question) renewed(k keyex.Token) string {
	now := time.Now()
	if now.Sub(k.Renewed) < tokenRenewal(q.set.conf)/2 {
		return ""
	}
	return q.set.tokens.Renew(q.attempt.username, k, now)
}

// tokenState is what a command is told about the password: whether it is a
// token, and of what use.
func tokenState(is bool, err error) string {
	switch {
	case !is:
		return "Initial"
	case err == nil:
		return "Authenticated"
	case err == keyex.ErrTokenExpired:
		return "Expired"
	}
	return "Invalid"
}
