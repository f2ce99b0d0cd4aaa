// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"encoding/base64"
	"errors"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/keyex"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/script"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/session"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/verify"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/peer"
)

const (
	// lastWords is how long a session lives on after its last message, so that
	// the message can be sent again and acknowledged. Stock waits as long.
	lastWords = 5 * time.Second
	// parting is the same after the client itself has said goodbye: only its
	// repetitions have to be acknowledged.
	parting = time.Second
	// pushAgain: a PUSH_REQUEST within that time after a reply is a repetition.
	// Stock has the same time, but counts it over sessions.
	pushAgain = 30 * time.Second
	// renegotiateAgain is when a soft reset is tried again that could not be begun.
	renegotiateAgain = time.Second
	// resetEvery and resetBurst bound the renegotiations that a client begins, each
	// of which costs a TLS handshake: stock allows a reneg-sec of 1, and 8 at
	// once leave room for repetitions.
	resetEvery = time.Second
	resetBurst = 8
	// budgetCheck is how often reneg-bytes and reneg-pkts are looked at.
	budgetCheck = time.Second
)

// message acts on a control message.
func (i *instance) message(text string, now time.Time) {
	command, rest, _ := strings.Cut(text, ",")
	switch command {
	case keyex.PushRequest:
		i.client.asked = true
		i.push(now)
	case keyex.Exit:
		if i.phase != closing {
			i.log.Info("client exits", "via", "control channel")
			i.part(now, "client exited")
		}
	case keyex.CRResponse:
		i.challenged(rest)
	default:
		// Peers of other releases say what this one need not know.
		i.log.Debug("control message ignored", "message", verify.Name(command))
	}
}

// challenged hands a client's answer to a challenge to whoever waits for it.
func (i *instance) challenged(encoded string) {
	answer, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || i.client.answers == nil {
		i.log.Debug("answer to a challenge ignored")
		return
	}
	select {
	case i.client.answers <- string(answer):
	default: // one is being worked on
	}
}

// failed acts on a key whose negotiation failed, or whose TLS connection broke.
func (i *instance) failed(e session.Event, now time.Time) {
	if i.attempt != nil && i.attempt.keyID == e.KeyID {
		i.attempt = nil
	}
	reason, remedy := verify.Explain(e.Err)
	if e.KeyID == 0 || i.phase != established || e.KeyID == i.client.keyID {
		if i.phase == handshaking {
			i.svc.counters.failed.Add(1)
		}
		if i.phase != closing && i.svc.noise.line() {
			i.log.Warn("TLS handshake failed", append([]any{"reason", reason, "error", e.Err}, advice(remedy)...)...)
		}
		i.end(now, "TLS failed: "+reason)
		return
	}
	if c, ok := errors.AsType[*verify.CertError](e.Err); ok && i.client.hasCert && c.Leaf == i.client.identity.Leaf() && !errors.Is(e.Err, verify.ErrCRL) {
		// It is the client's own certificate, and nobody has it stand for another one.
		i.log.Warn("the client's certificate is no longer accepted", append([]any{"reason", reason}, advice(remedy)...)...)
		i.dismiss(now, reason)
		return
	}
	if i.svc.noise.line() {
		i.log.Warn("renegotiation failed; the old key goes on, and another try follows", append([]any{"key_id", e.KeyID, "reason", reason}, advice(remedy)...)...)
	}
	i.client.renegAt = now.Add(i.set.conf.HandWindow / 2)
}

// advice is a remedy as an attribute of a log line, if there is one.
func advice(remedy string) []any {
	if remedy == "" {
		return nil
	}
	return []any{"remedy", remedy}
}

// due does what time asks for.
func (i *instance) due(now time.Time) {
	if !i.closeAt.IsZero() && !now.Before(i.closeAt) {
		i.end(now, i.why)
		return
	}
	if i.phase != established {
		return
	}
	c := &i.client
	i.keys.Due(c.lease.peer, now)
	switch {
	case reached(c.timeoutAt, now):
		i.log.Info("session-timeout is over")
		i.dismiss(now, "session-timeout")
	case reached(c.expires, now):
		i.log.Warn("no new key could be negotiated within tran-window; the session ends")
		i.dismiss(now, "key expired")
	case reached(c.activeUntil, now):
		i.inactive(now)
	}
	if i.phase != established {
		return
	}
	if reached(c.tokenAt, now) {
		i.renewToken(now)
	}
	if reached(c.renegAt, now) || i.spent(now) {
		i.renegotiate(now)
	}
}

// budget counts what a client may cause only so often. The zero value is full.
type budget struct{ until time.Time } // when it is full again

// allow takes one of resetBurst, which come back one each resetEvery.
func (b *budget) allow(now time.Time) bool {
	if b.until.Before(now) {
		b.until = now
	}
	if b.until.Sub(now) > (resetBurst-1)*resetEvery {
		return false
	}
	b.until = b.until.Add(resetEvery)
	return true
}

func reached(t, now time.Time) bool { return !t.IsZero() && !now.Before(t) }

// deadline returns when due is wanted next.
func (i *instance) deadline() time.Time {
	c := &i.client
	if i.phase != established {
		return i.closeAt
	}
	return earliest(i.closeAt, i.keys.Deadline(), c.timeoutAt, c.expires, c.activeUntil, c.renegAt, c.budgetAt, c.tokenAt)
}

// renegotiate starts a soft reset, unless one is under way.
func (i *instance) renegotiate(now time.Time) {
	c := &i.client
	c.renegAt = time.Time{}
	if !i.sess.Renegotiate(now) {
		// The client has begun by itself, or has not acknowledged the last one.
		c.renegAt = now.Add(renegotiateAgain)
	}
}

// spent reports whether reneg-bytes or reneg-pkts are used up.
func (i *instance) spent(now time.Time) bool {
	c, conf := &i.client, i.set.conf
	if !reached(c.budgetAt, now) {
		return false
	}
	c.budgetAt = now.Add(budgetCheck)
	p := c.lease.peer
	bytes := p.LinkIn.Bytes.Load() + p.LinkOut.Bytes.Load()
	packets := p.LinkIn.Records.Load() + p.LinkOut.Records.Load()
	if (conf.RenegBytes <= 0 || bytes-c.spentBytes < uint64(conf.RenegBytes)) &&
		(conf.RenegPackets <= 0 || packets-c.spentPackets < uint64(conf.RenegPackets)) {
		return false
	}
	c.spentBytes, c.spentPackets = bytes, packets
	return true
}

// inactive ends a session that carried too little, and else begins the next
// time.
func (i *instance) inactive(now time.Time) {
	c := &i.client
	bytes := carried(c.lease.peer)
	if bytes-c.activeBytes < uint64(max(c.inactiveBytes, 1)) {
		i.log.Info("client is inactive", "for", c.inactive)
		i.dismiss(now, "inactive")
		return
	}
	c.activeBytes, c.activeUntil = bytes, now.Add(c.inactive)
}

// carried returns the bytes of inner packets in both directions.
func carried(p *peer.Peer) uint64 { return p.In.Bytes.Load() + p.Out.Bytes.Load() }

// dismiss ends a session that the client thinks is alive: it is told to come
// again.
func (i *instance) dismiss(now time.Time, why string) {
	_ = i.sess.Send(keyex.Restart, now)
	i.shut(now, why)
}

// part ends a session whose client has left.
func (i *instance) part(now time.Time, why string) {
	i.shut(now, why)
	i.closeAt = now.Add(parting)
}

// shut takes a client's peer and addresses away and leaves its session time
// for last words.
func (i *instance) shut(now time.Time, why string) {
	if i.phase == closing || i.phase == ended {
		return
	}
	i.leave(now, why)
	i.phase, i.why, i.closeAt = closing, why, now.Add(lastWords)
}

// leave undoes what made an instance a client. Counters of the peer can still be
// read afterwards.
func (i *instance) leave(now time.Time, why string) {
	c := &i.client
	if c.departed {
		return
	}
	c.departed = true
	i.cancel() // commands that are running for it
	if c.lease == nil {
		i.farewell(now)
		return
	}
	i.svc.drop(c.lease, i.set.conf)
	if c.lease.peer != nil && i.phase == established {
		in, out := i.bytes()
		i.svc.counters.bytesIn.Add(in)
		i.svc.counters.bytesOut.Add(out)
		i.log.Info("client disconnected", "reason", why, "duration", now.Sub(c.since).Round(time.Second), "bytes_received", in, "bytes_sent", out)
	}
	i.farewell(now)
}

// end ends an instance for good.
func (i *instance) end(now time.Time, why string) {
	if i.phase == ended {
		return
	}
	i.leave(now, why)
	i.phase = ended
	i.sess.Close()
	if i.stream == nil {
		i.flush()
	} else {
		for _, b := range i.sess.Outgoing() {
			i.stream.SendControl(b)
		}
		i.stream.Close()
	}
	if i.timer != nil {
		i.timer.Stop()
	}
	i.inMu.Lock()
	i.over, i.packets = true, nil
	i.inMu.Unlock()
	i.svc.forget(i)
	close(i.gone)
}

// farewell has commands hear that a client has gone: client-disconnect, if client-connect
// has run, and learn-address. Then what it had is free.
func (i *instance) farewell(now time.Time) {
	c := &i.client
	if c.joining {
		return // join does it
	}
	scripts := i.set.conf.Scripts
	ran := c.lease != nil && c.lease.peer != nil
	disconnect := ran && scripts.ClientDisconnect != nil || c.connected && scripts.ClientDisconnect != nil
	learned := ran && scripts.LearnAddress != nil
	if !disconnect && !learned {
		i.svc.books.free(c.lease)
		i.svc.departed(i, c.name)
		return
	}
	env, l, set, learning := i.env(nil), c.lease, i.set, c.learning
	timeEnv(env, c.since)
	env.Set("time_duration", strconv.Itoa(int(now.Sub(c.since)/time.Second)))
	in, out := i.bytes()
	env.Set("bytes_received", strconv.FormatUint(in, 10))
	env.Set("bytes_sent", strconv.FormatUint(out, 10))
	if l != nil {
		poolEnv(env, l, set.conf)
	}
	i.svc.after(func(ctx context.Context) {
		defer i.svc.departed(i, c.name)
		defer i.svc.books.free(l)
		if disconnect {
			env.Set("script_type", "client-disconnect")
			if _, err := set.runner.Run(ctx, script.Command(scripts.ClientDisconnect), env); err != nil {
				i.log.Warn("client-disconnect failed", "error", err)
			}
		}
		if learned {
			if learning != nil {
				<-learning // it has been told to end
			}
			set.unlearn(ctx, l, env)
		}
	})
}

// bytes returns what was received and sent, control channel included.
func (i *instance) bytes() (in, out uint64) {
	n := i.sess.Counters()
	in, out = n.BytesIn, n.BytesOut
	if l := i.client.lease; l != nil && l.peer != nil {
		in += l.peer.LinkIn.Bytes.Load()
		out += l.peer.LinkOut.Bytes.Load()
	}
	return in, out
}

// unlearn has learn-address hear that a client's addresses are gone.
func (s *settings) unlearn(ctx context.Context, l *lease, env *script.Env) {
	env.Set("script_type", "learn-address")
	for _, f := range append(l.own(), l.routes...) {
		_, _ = s.runner.Run(ctx, script.Command(s.conf.Scripts.LearnAddress), env, "delete", learned(f))
	}
}

// learned writes an address as learn-address gets it: networks with their
// length, single ones without.
func learned(f netip.Prefix) string {
	if f.IsSingleIP() {
		return f.Addr().String()
	}
	return f.String()
}
