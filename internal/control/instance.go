// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/keyring"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/session"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wire"
)

// phase is how far a client has come.
type phase uint8

const (
	handshaking    phase = iota // TLS and the exchange of key method messages
	authenticating              // an answer about certificate, user and password is waited for
	connecting                  // client-connect is running
	established                 // addresses, peer and key are there
	closing                     // a last message is on its way
	ended
)

func (p phase) String() string {
	return [...]string{"handshaking", "authenticating", "connecting", "established", "closing", "ended"}[p]
}

// instance is one session of one client. Everything in it but the inbox is
// guarded by mu; run, and with it every method that is not said to be safe for
// concurrent use, has it held.
type instance struct {
	svc     *Service
	log     *slog.Logger
	cid     uint64                         // client id, never used twice
	sid     wire.SessionID                 // the client's session id
	at      atomic.Pointer[netip.AddrPort] // where it is; changed with the service's lock held
	stream  Stream                         // TCP; nil on UDP
	from    netip.Prefix                   // what it is counted by while half-open; the service's lock
	ctx     context.Context
	cancel  context.CancelFunc
	created time.Time
	display atomic.Pointer[string] // client.name, for those who don't hold the lock; nil until it is known
	trusted atomic.Bool            // authenticated: runs before those that are not
	gone    chan struct{}          // closed when the session is over
	left    chan struct{}          // closed when all it had is free, and commands about that have run

	queued, running bool // by a runQueue, guarded by that

	inMu    sync.Mutex
	packets [][]byte
	local   netip.AddrPort // where the newest packet came in
	calls   []func(now time.Time)
	over    bool // the inbox takes nothing more

	mu      sync.Mutex
	taken   uint64 // packets of the session that have come
	timer   *time.Timer
	sess    *session.Session
	set     *settings // as they were when the session began
	phase   phase
	away    netip.AddrPort // our address that answers are sent from
	client  client
	keys    keyring.Ring
	resets  budget   // of soft resets by the client
	attempt *attempt // whose answer is awaited; nil: none
	closeAt time.Time
	why     string // why it is closing
}

// remote returns the client's address. Safe for concurrent use.
func (i *instance) remote() netip.AddrPort { return *i.at.Load() }

// deliver puts a datagram, which is kept, into the inbox. Safe for concurrent use.
func (i *instance) deliver(b []byte, local netip.AddrPort) bool {
	i.inMu.Lock()
	if i.over || len(i.packets) >= inboxSize {
		i.inMu.Unlock()
		i.svc.counters.overflow.Add(1)
		return false
	}
	i.packets = append(i.packets, b)
	i.local = local
	i.inMu.Unlock()
	i.svc.schedule(i)
	return true
}

// post has fn run with the instance locked. Safe for concurrent use, also with
// the instance locked.
func (i *instance) post(fn func(now time.Time)) {
	if fn == nil {
		return
	}
	i.inMu.Lock()
	i.calls = append(i.calls, fn)
	i.inMu.Unlock()
	i.svc.schedule(i)
}

// wake has the timers looked at. Safe for concurrent use.
func (i *instance) wake() { i.svc.schedule(i) }

// run does what there is to do.
func (i *instance) run(now time.Time) {
	i.inMu.Lock()
	packets, calls, local := i.packets, i.calls, i.local
	i.packets, i.calls = nil, nil
	i.inMu.Unlock()

	i.mu.Lock()
	defer i.mu.Unlock()
	if local.IsValid() {
		i.away = local
	}
	for _, b := range packets {
		if i.phase == ended {
			break
		}
		i.sess.Datagram(b, now)
		i.events(now)
	}
	if taken := i.sess.Counters().Taken(); taken > i.taken {
		if i.taken == 0 {
			i.svc.release(i) // its address is no longer in doubt
		}
		i.taken = taken
		if i.phase == established {
			// A client that sends anything at all puts off its next ping.
			i.client.lease.peer.Received(i.svc.cfg.Clock())
		}
	}
	for _, fn := range calls {
		fn(now)
	}
	if i.phase != ended {
		i.sess.Tick(now)
		i.events(now)
	}
	if i.phase == ended {
		return
	}
	i.due(now)
	i.events(now)
	i.flush()
	i.arm(now)
}

// flush sends what the session has to send.
func (i *instance) flush() {
	out := i.sess.Outgoing()
	if len(out) == 0 {
		return
	}
	if i.stream == nil {
		i.svc.cfg.Send.Send(i.away, i.remote(), out)
		return
	}
	for _, b := range out {
		if !i.stream.SendControl(b) {
			i.end(time.Now(), "the client does not read from its TCP connection")
			return
		}
	}
}

// arm sets the timer to the next deadline.
func (i *instance) arm(now time.Time) {
	if i.phase == ended {
		return
	}
	next := earliest(i.sess.Next(), i.deadline())
	if next.IsZero() {
		return
	}
	d := max(next.Sub(now), time.Millisecond)
	if i.timer == nil {
		i.timer = i.svc.timer(i, d)
	} else {
		i.timer.Reset(d)
	}
}

// earliest returns the first of times that are not zero.
func earliest(times ...time.Time) (first time.Time) {
	for _, t := range times {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}

// events acts on what the session has to tell.
func (i *instance) events(now time.Time) {
	for _, e := range i.sess.Events() {
		if i.phase == ended {
			return
		}
		switch e.Type {
		case session.KeyExchanged:
			i.keyExchanged(e, now)
		case session.Acknowledged:
			i.keys.Acknowledged(e.KeyID)
		case session.SoftReset:
			i.log.Debug("client renegotiates", "key_id", e.KeyID)
			if !i.resets.allow(now) {
				// Its next repetition may have more luck.
				i.log.Debug("soft reset ignored: the client renegotiates too often")
				i.sess.Forget(e.KeyID)
				continue
			}
			if i.phase == established {
				i.keys.Superseded(i.client.lease.peer, now)
			}
		case session.Message:
			i.message(e.Text, now)
		case session.Failed:
			i.failed(e, now)
		}
	}
}
