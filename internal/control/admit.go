// SPDX-License-Identifier: Apache-2.0

package control

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/keyex"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/script"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/verify"
	"github.com/ovpn-xdp/ovpn-xdp/internal/ovpnconf"
)

// forever stands for a keepalive time that is switched off while the other one
// is on: a peer has both or none.
const forever = 10 * 365 * 24 * time.Hour

// admit makes a client's peer and first key, and its PUSH_REPLY.
func (i *instance) admit(pushes []ovpnconf.Push, now time.Time) error {
	c, conf := &i.client, i.set.conf
	ciphers, fallback := conf.Data.Ciphers, cmp.Or(c.conf.Fallback, conf.Data.Fallback)
	if c.conf.Ciphers != nil {
		ciphers = c.conf.Ciphers
	}
	var err error
	if c.cipher, err = keyex.NegotiateCipher(ciphers, fallback, &c.info, c.options); err != nil {
		return err
	}
	w := entry{remote: i.remote(), local: i.away.Addr(), stream: i.stream}
	w.interval, w.timeout = keepalive(or(c.conf.Ping, conf.Ping), or(c.conf.PingRestart, conf.PingRestart))
	w.held = conf.Scripts.LearnAddress != nil
	if err := i.svc.books.enter(c.lease, w); err != nil {
		return err
	}
	i.svc.bind(i, c.lease.peer)
	if c.dynamic {
		if err := i.sess.UseDynamicWrap(); err != nil {
			return fmt.Errorf("derive the dynamic tls-crypt key: %w", err)
		}
	}
	i.keys.Pace(&conf.Timers)
	// The key is there before the client can know that it may send.
	if err := i.newKey(0, now); err != nil {
		return err
	}
	c.reply = i.reply(pushes)
	i.phase = established
	if d := or(c.conf.SessionTimeout, conf.SessionTimeout); d > 0 {
		c.timeoutAt = now.Add(d)
	}
	if d := or(c.conf.Inactive, conf.Inactive); d > 0 {
		c.inactive, c.activeUntil = d, now.Add(d)
		c.inactiveBytes = conf.InactiveBytes
		if c.conf.Inactive != nil {
			c.inactiveBytes = c.conf.InactiveBytes
		}
	}
	i.tokenDue(now)
	if conf.RenegBytes > 0 || conf.RenegPackets > 0 {
		c.budgetAt = now.Add(budgetCheck)
	}
	i.svc.counters.connected.Add(1)
	i.log.Info("client connected", "address", text(c.lease.v4), "address6", text(c.lease.v6), "peer", c.lease.peer.ID,
		"cipher", c.cipher, "tls", c.tls, "keys_by", map[bool]string{true: "tls-ekm", false: "prf"}[c.ekm],
		"version", verify.Name(c.info.Version), "platform", verify.Name(c.info.Platform))
	i.push(now)
	return nil
}

// newKey derives and installs a key, and sets when the next one is due.
func (i *instance) newKey(id uint8, now time.Time) error {
	c, conf := &i.client, i.set.conf
	block, err := i.sess.Derive(id, c.ekm)
	if err != nil {
		return fmt.Errorf("derive key %d: %w", id, err)
	}
	defer clear(block[:])
	if err := i.keys.Install(c.lease.peer, id, c.cipher, block, now); err != nil {
		return err
	}
	c.keyID = id
	c.renegAt, c.expires = time.Time{}, time.Time{}
	if d := i.set.renegotiate(); d > 0 {
		c.renegAt = now.Add(d)
		c.expires = now.Add(conf.RenegMax + conf.TranWindow)
	}
	p := c.lease.peer
	c.spentBytes = p.LinkIn.Bytes.Load() + p.LinkOut.Bytes.Load()
	c.spentPackets = p.LinkIn.Records.Load() + p.LinkOut.Records.Load()
	return nil
}

// rekey takes a renegotiated key into use.
func (i *instance) rekey(a *attempt, v verdict, now time.Time) {
	if err := i.newKey(a.keyID, now); err != nil {
		i.log.Error("renegotiated key cannot be installed", "error", err)
		i.dismiss(now, err.Error())
		return
	}
	i.svc.counters.renegotiated.Add(1)
	i.log.Debug("key renegotiated", "key_id", a.keyID)
	if v.token == "" || i.client.token == v.token {
		return
	}
	i.client.token = v.token
	i.tokenDue(now)
	_ = i.sess.Send(keyex.PushReply+",auth-token "+v.token, now)
}

// tokenDue sets when the client gets its next auth token, if renegotiations
// do not come round in time.
func (i *instance) tokenDue(now time.Time) {
	c, conf := &i.client, i.set.conf
	c.tokenAt = time.Time{}
	if every := conf.Auth.Token.Renewal; c.token != "" && i.set.tokens != nil && every > 0 && (conf.RenegMax == 0 || every < conf.RenegMax) {
		c.tokenAt = now.Add(every)
	}
}

// renewToken gives a client the token that follows the one it has.
func (i *instance) renewToken(now time.Time) {
	c := &i.client
	i.tokenDue(now)
	if i.set.tokens == nil {
		return // a reload has taken them away
	}
	k, err := i.set.tokens.Check(c.username, c.token, now)
	if err != nil {
		c.tokenAt = time.Time{} // its lifetime is over: the next renegotiation asks
		return
	}
	c.token = i.set.tokens.Renew(c.username, k, now)
	_ = i.sess.Send(keyex.PushReply+",auth-token "+c.token, now)
}

// reply makes a client's PUSH_REPLY.
func (i *instance) reply(pushes []ovpnconf.Push) []string {
	c, conf := &i.client, i.set.conf
	var b keyex.Push
	for _, p := range pushes {
		if err := b.Add(p.Text); err != nil {
			i.svc.once(fmt.Sprintf("%s: push %q cannot be sent: %v", p.Line.Position(), p.Text, err))
		}
	}
	if a := c.lease.v6; a.IsValid() && !c.conf.Untold6 {
		bits := c.lease.bits6
		if !slices.ContainsFunc(pushes, func(p ovpnconf.Push) bool { return p.Text == "tun-ipv6" }) {
			b.Must("tun-ipv6")
		}
		b.Must("ifconfig-ipv6 " + netip.PrefixFrom(a, bits).String() + " " + c.lease.gateway6.String())
	}
	if a := c.lease.v4; a.IsValid() && !c.conf.Untold4 {
		b.Must("ifconfig " + a.String() + " " + mask(c.lease.bits4))
	}
	b.Must("peer-id " + strconv.FormatUint(uint64(c.lease.peer.ID), 10))
	if c.token != "" {
		b.Must("auth-token " + c.token)
	}
	if len(c.info.Ciphers) > 0 || c.info.NCP > 0 {
		b.Must("cipher " + c.cipher.String()) // others use what they have configured
	}
	for _, o := range keyex.ProtocolFlags(&c.info, c.ekm, c.dynamic) {
		b.Must(o)
	}
	if c.info.MTU > 0 {
		b.Must("tun-mtu " + strconv.Itoa(conf.Tunnel.MTU))
	}
	return b.Messages()
}

// push sends the PUSH_REPLY to a client that waits for it.
func (i *instance) push(now time.Time) {
	c := &i.client
	if i.phase != established || c.asks && !c.asked || !c.pushed.IsZero() && now.Sub(c.pushed) < pushAgain {
		return
	}
	for _, text := range c.reply {
		if err := i.sess.Send(text, now); err != nil {
			i.log.Error("PUSH_REPLY was not sent", "error", err)
			i.end(now, "control channel broke")
			return
		}
	}
	c.pushed = now
}

// learn has the learn-address command hear of a client's addresses, one after
// the other. Packets to and from one pass when it has said yes.
func (i *instance) learn() {
	if i.set.conf.Scripts.LearnAddress == nil {
		return
	}
	env, l, set, log := i.env(nil), i.client.lease, i.set, i.log
	env.Set("script_type", "learn-address")
	poolEnv(env, l, set.conf)
	timeEnv(env, i.client.since)
	done := make(chan struct{})
	i.client.learning = done
	i.svc.background(i, func(ctx context.Context) func(time.Time) {
		defer close(done)
		for _, f := range append(l.own(), l.routes...) {
			err := set.runner.Ask(ctx, script.Command(set.conf.Scripts.LearnAddress), env, "add", learned(f), l.name)
			if err != nil {
				log.Warn("learn-address refused an address; packets to and from it are dropped", "address", f, "reason", err)
				continue
			}
			i.svc.books.grant(l, f)
		}
		return nil
	})
}

// keepalive turns ping and ping-restart into a peer's interval and timeout.
func keepalive(ping, restart time.Duration) (interval, timeout time.Duration) {
	switch {
	case ping <= 0 && restart <= 0:
		return 0, 0
	case ping <= 0:
		return forever, restart
	case restart <= 0:
		return ping, forever
	}
	return ping, restart
}

// or returns a client's own value, or else that of all.
func or(own *time.Duration, all time.Duration) time.Duration {
	if own != nil {
		return *own
	}
	return all
}

// mask writes a prefix length as a dotted mask.
func mask(bits int) string {
	m := ^uint32(0) << (32 - bits)
	return netip.AddrFrom4([4]byte{byte(m >> 24), byte(m >> 16), byte(m >> 8), byte(m)}).String()
}

// text writes an address, or nothing if it is invalid.
func text(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}
