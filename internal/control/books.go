// SPDX-License-Identifier: Apache-2.0

package control

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/pool"
	"github.com/ovpn-xdp/ovpn-xdp/internal/ovpnconf"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/peer"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/record"
)

// lease is what one client has: its name, its addresses, its peer and the
// networks behind it. It belongs to one instance and is never handed on.
type lease struct {
	inst         *instance
	name         string
	v4, v6       netip.Addr // invalid: none
	bits4, bits6 int        // prefix lengths that the client is told
	gateway6     netip.Addr
	pooled       []pool.Addresses // held in the pool for it
	peer         *peer.Peer       // nil until entered
	routes       []netip.Prefix   // iroutes
}

// books say who has what. Everything that two clients could both want is in
// here, and every change of it is made under one lock, so that an old session's
// end never takes away what a new one was given.
type books struct {
	peers   *peer.Table
	routes  Routes
	now     func() int64
	log     *slog.Logger
	persist ovpnconf.PoolPersist

	mu       sync.Mutex
	pool     *pool.Pool
	dumped   []byte    // what the persistence file holds
	dumpAt   time.Time // when it is written next
	byName   map[string][]*lease
	leases   int // in byName
	nextPeer uint32
	kernel   map[netip.Prefix]*lease // kernel routes, and whose they are
	wanted   map[netip.Addr]*lease   // fixed addresses that the pool has given to somebody else
}

var (
	errFull    = errors.New("max-clients is reached")
	errNewer   = errors.New("a newer session of the same client has taken over")
	errRivalry = errors.New("an older session of the same client has yet to go")
)

// exclusive reports whether a name has one session at a time.
func exclusive(name string, conf *ovpnconf.Server) bool {
	return !conf.Clients.DuplicateCN && name != unnamed
}

// open makes the pool and reads what was persisted.
func (b *books) open(cfg Config, set *settings) error {
	c := set.conf
	b.peers, b.routes, b.now, b.log = cfg.Peers, cfg.Routes, cfg.Clock, cfg.Log
	b.byName, b.kernel, b.wanted = map[string][]*lease{}, map[netip.Prefix]*lease{}, map[netip.Addr]*lease{}
	b.persist = c.PoolPersist
	var err error
	if b.pool, err = pool.New(pool.Config{First: c.Pool4.Start, Last: c.Pool4.End, Base: c.Pool6.Base, Prefix6: c.Pool6.Prefix,
		Fixed: c.PoolPersist.File != "" && c.PoolPersist.Every == 0}); err != nil {
		return err
	}
	if b.persist.File == "" {
		return nil
	}
	text, err := os.ReadFile(b.persist.File)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read ifconfig-pool-persist: %w", err)
	}
	for _, why := range b.pool.Load(bytes.NewReader(text)) {
		b.log.Warn("line of ifconfig-pool-persist has a fault", "file", b.persist.File, "why", why)
	}
	b.dumped = text
	return nil
}

// save writes the persistence file if it is due, or in any case at the end.
func (b *books) save(now time.Time, end bool) {
	if b.persist.File == "" || b.persist.Every <= 0 {
		return
	}
	b.mu.Lock()
	if !end && now.Before(b.dumpAt) {
		b.mu.Unlock()
		return
	}
	b.dumpAt = now.Add(b.persist.Every)
	text := b.pool.Dump()
	same := bytes.Equal(text, b.dumped)
	b.mu.Unlock()
	if same {
		return
	}
	if err := replace(b.persist.File, text); err != nil {
		b.log.Error("writing ifconfig-pool-persist failed", "file", b.persist.File, "error", err)
		return // it is tried again
	}
	b.mu.Lock()
	b.dumped = text
	b.mu.Unlock()
}

// replace writes a file beside the old one and renames it: a crash leaves the one
// or the other. Owner and mode stay as they were.
func replace(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".ovpn-xdp-") // 0600, and nobody's link
	if err != nil {
		return err
	}
	temporary := f.Name()
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	if info, err := os.Stat(path); err == nil {
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			_ = os.Chown(temporary, int(st.Uid), int(st.Gid))
		}
		_ = os.Chmod(temporary, info.Mode().Perm())
	}
	if err := os.Rename(temporary, path); err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	return nil
}

// rivals returns the leases of a name: a client that is back while its old
// session is still there.
func (b *books) rivals(name string) []*lease {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.byName[name])
}

// peerOf returns a lease's peer; nil: none, or not so far.
func (b *books) peerOf(l *lease) *peer.Peer {
	if l == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return l.peer
}

// count returns the number of leases.
func (b *books) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.leases
}

// reserve holds addresses for a client: those of its own configuration, else of
// the pool. Sessions of one name may come here at the same time: the newest gets
// a lease, once those before it have gone.
func (b *books) reserve(i *instance, name string, conf *ovpnconf.Client, server *ovpnconf.Server) (*lease, error) {
	l := &lease{inst: i, name: name}
	b.mu.Lock()
	defer b.mu.Unlock()
	if held := b.byName[name]; len(held) > 0 && exclusive(name, server) {
		if slices.ContainsFunc(held, func(o *lease) bool { return o.inst.cid > i.cid }) {
			return nil, errNewer
		}
		return nil, errRivalry
	}
	if b.leases >= server.Clients.Max {
		return nil, errFull
	}
	if err := b.address(l, conf, server); err != nil {
		return nil, err
	}
	b.byName[name] = append(b.byName[name], l)
	b.leases++
	return l, nil
}

// amend gives a client that has no peer yet other addresses, after client-connect named
// some.
func (b *books) amend(l *lease, conf *ovpnconf.Client, server *ovpnconf.Server) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.holds(l) {
		return errNewer // what it took now, nobody would give back
	}
	b.giveBack(l)
	return b.address(l, conf, server)
}

// holds reports whether a lease has not ended; mu is held.
func (b *books) holds(l *lease) bool { return slices.Contains(b.byName[l.name], l) }

// address fills in a lease's addresses; mu is held.
func (b *books) address(l *lease, conf *ovpnconf.Client, server *ovpnconf.Server) error {
	l.routes = conf.Routes
	if most := server.Clients.MaxRoutes; most > 0 && len(l.routes) > most {
		b.log.Warn("more networks behind a client than max-routes-per-client; the last ones are left out", "client", l.name, "networks", len(l.routes), "max", most)
		l.routes = l.routes[:most]
	}
	l.v4, l.v6 = conf.Address4.Addr(), conf.Address6.Addr()
	l.bits4, l.bits6 = server.Pool4.Mask, server.Pool6.Prefix.Bits()
	l.gateway6 = server.Network6.Own
	if l.v4.IsValid() {
		l.bits4 = conf.Address4.Bits()
	}
	if l.v6.IsValid() {
		l.bits6 = conf.Address6.Bits()
		if conf.Gateway6.IsValid() {
			l.gateway6 = conf.Gateway6
		}
	}
	for _, fixed := range []netip.Addr{l.v4, l.v6} {
		if fixed.IsValid() {
			if a, ok := b.pool.Reserve(fixed, ""); ok {
				l.pooled = append(l.pooled, a)
			} else {
				b.wanted[fixed] = l
			}
		}
	}
	if need4, need6 := !l.v4.IsValid() && server.Pool4.Start.IsValid(), !l.v6.IsValid() && server.Pool6.Base.IsValid(); need4 || need6 {
		name := l.name
		if server.Clients.DuplicateCN || name == unnamed {
			name = "" // several clients have it: it has no address of its own
		}
		a, err := b.pool.Acquire(name)
		if err != nil {
			b.giveBack(l)
			return err
		}
		l.pooled = append(l.pooled, a)
		if need4 {
			l.v4 = a.V4
		}
		if need6 {
			l.v6 = a.V6
		}
	}
	if !l.v4.IsValid() && !l.v6.IsValid() {
		return errors.New("there is no address for the client: no pool, and no ifconfig-push of its own")
	}
	return nil
}

// giveBack returns what a lease holds of the pool; mu is held. An address that is
// somebody's fixed one is kept for them instead of going to the next client.
func (b *books) giveBack(l *lease) {
	for _, fixed := range []netip.Addr{l.v4, l.v6} {
		if b.wanted[fixed] == l {
			delete(b.wanted, fixed)
		}
	}
	held := l.pooled
	l.pooled = nil
	for _, a := range held {
		b.pool.Release(a, time.Now())
		for _, free := range []netip.Addr{a.V4, a.V6} {
			w := b.wanted[free]
			if w == nil {
				continue
			}
			if again, ok := b.pool.Reserve(free, ""); ok {
				w.pooled = append(w.pooled, again)
				delete(b.wanted, free)
			}
		}
	}
}

// entry is what else a client's peer needs.
type entry struct {
	remote            netip.AddrPort
	local             netip.Addr
	stream            Stream
	interval, timeout time.Duration
	held              bool // without addresses, until they are granted
}

// enter makes a lease's peer, with an id of its own, and its routes.
func (b *books) enter(l *lease, e entry) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.holds(l) {
		return errNewer
	}
	c := peer.Config{Remote: e.remote, Local: e.local, Interval: e.interval, Timeout: e.timeout}
	if !e.held {
		c.Prefixes = append(l.own(), l.routes...)
	}
	if e.stream != nil {
		c.Remote, c.Local, c.Stream = netip.AddrPort{}, netip.Addr{}, e.stream.Data()
	}
	b.takeOver(l, c.Prefixes)
	for {
		c.ID = b.nextID()
		p, err := b.peers.Add(c, b.now())
		if errors.Is(err, peer.ErrExists) && b.peers.Lookup(c.ID) != nil {
			continue // somebody added it by hand
		}
		if err != nil {
			return fmt.Errorf("add peer: %w", err)
		}
		l.peer = p
		break
	}
	if !e.held {
		for _, r := range l.routes {
			b.route(l, r)
		}
	}
	return nil
}

// grant gives a lease that was entered held one of its prefixes.
func (b *books) grant(l *lease, f netip.Prefix) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.peers.Lookup(l.peer.ID) != l.peer {
		return
	}
	b.takeOver(l, []netip.Prefix{f})
	all := append(slices.Clone(l.peer.Prefixes()), f)
	if _, err := b.peers.Set(l.peer.ID, peer.Change{Prefixes: &all}, b.now()); err != nil {
		b.log.Warn("address cannot be given to a client", "prefix", f, "client", l.name, "error", err)
		return
	}
	if slices.Contains(l.routes, f) {
		b.route(l, f)
	}
}

// route installs the kernel's route to a network behind a client; mu is held.
func (b *books) route(l *lease, r netip.Prefix) {
	if err := b.routes.AddRoute(r); err != nil {
		b.log.Warn("kernel route to a network behind a client could not be added", "route", r, "client", l.name, "error", err)
		return
	}
	b.kernel[r] = l
}

// unroute takes the kernel's route to a network away if it is still the lease's; mu
// is held.
func (b *books) unroute(l *lease, r netip.Prefix) {
	if b.kernel[r] != l {
		return
	}
	delete(b.kernel, r)
	if err := b.routes.DelRoute(r); err != nil {
		b.log.Warn("kernel route to a network behind a client could not be removed", "route", r, "client", l.name, "error", err)
	}
}

// own returns the prefixes of the addresses themselves.
func (l *lease) own() (out []netip.Prefix) {
	for _, a := range []netip.Addr{l.v4, l.v6} {
		if a.IsValid() {
			out = append(out, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	return out
}

// nextID returns a peer id that no peer has: ids go round, so that a client
// that returns is not taken for its old self.
func (b *books) nextID() uint32 {
	for {
		id := b.nextPeer
		b.nextPeer = (b.nextPeer + 1) % record.PeerIDUndef
		if b.peers.Lookup(id) == nil {
			return id
		}
	}
}

// takeOver takes prefixes away from other clients: an address or network goes
// to who came last, as with stock OpenVPN.
func (b *books) takeOver(l *lease, prefixes []netip.Prefix) {
	for _, f := range prefixes {
		owner := b.peers.Owner(f)
		if owner == nil {
			continue
		}
		left := slices.DeleteFunc(slices.Clone(owner.Prefixes()), func(p netip.Prefix) bool { return p == f })
		if _, err := b.peers.Set(owner.ID, peer.Change{Prefixes: &left}, b.now()); err != nil {
			continue // it has gone by itself
		}
		b.log.Warn("address or network moves to the client that came last; give each client one of its own", "prefix", f, "client", l.name, "was_peer", owner.ID)
	}
}

// release ends a lease. It may be called again, and for nil.
func (b *books) release(l *lease, reason string) {
	b.retire(l, reason)
	b.free(l)
}

// free gives back the addresses of a lease that was retired. It may be called again, and for
// nil.
func (b *books) free(l *lease) {
	if l == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.giveBack(l)
}

// retire ends a lease but for its addresses, which nobody gets before free.
func (b *books) retire(l *lease, reason string) {
	if l == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	held := b.byName[l.name]
	at := slices.Index(held, l)
	if at < 0 {
		return
	}
	if held = slices.Delete(held, at, at+1); len(held) == 0 {
		delete(b.byName, l.name)
	} else {
		b.byName[l.name] = held
	}
	b.leases--
	if l.peer != nil && b.peers.Lookup(l.peer.ID) == l.peer {
		_ = b.peers.Remove(l.peer.ID, reason)
	}
	for _, r := range l.routes {
		b.unroute(l, r)
	}
}
