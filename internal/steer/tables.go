// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// peerIDUndef is the peer id that says nothing: the source address decides.
const peerIDUndef = 0xffffff

var errPeerID = fmt.Errorf("want an id from 0 to %d", peerIDUndef-1)

// Peer is what the BPF programs know of a peer.
type Peer struct {
	ID uint32 // 0 to 0xfffffe
	// Remote is where its records come from. Not valid: not known yet, so that
	// all its records pass to the UDP socket.
	Remote netip.AddrPort
	KeyIDs uint8 // bit n: key id n is held for receiving
}

// tables are the maps of one device that change while it is attached. The mutex
// keeps updates that touch two maps from mixing; readers of the maps need none.
type tables struct {
	mu        sync.Mutex
	listeners *ebpf.Map
	peers     *ebpf.Map
	stats     *ebpf.Map
	endpoints *ebpf.Map
	zeros     []ingressPeerTraffic // one per possible CPU
}

func newTables(coll *ebpf.Collection) (*tables, error) {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, fmt.Errorf("count CPUs: %w", err)
	}
	return &tables{
		listeners: coll.Maps[ingressMapListeners],
		peers:     coll.Maps[ingressMapPeers],
		stats:     coll.Maps[ingressMapPeerStats],
		endpoints: coll.Maps[ingressMapEndpoints],
		zeros:     make([]ingressPeerTraffic, cpus),
	}, nil
}

// endpointKey is the map form of an address: IPv4 never in mapped form, no zone.
func endpointKey(a netip.AddrPort) ingressEndpoint {
	addr := a.Addr().Unmap()
	key := ingressEndpoint{Family: unix.AF_INET6}
	if addr.Is4() {
		key.Family = unix.AF_INET
		four := addr.As4()
		copy(key.Addr[:], four[:])
	} else {
		key.Addr = addr.As16()
	}
	key.Port = networkOrder(a.Port())
	return key
}

// networkOrder is htons.
func networkOrder(v uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], v)
	return binary.NativeEndian.Uint16(b[:])
}

func (t *tables) setListener(a netip.AddrPort) error {
	if !a.IsValid() || a.Port() == 0 || a.Addr().Unmap().IsUnspecified() {
		return fmt.Errorf("set listener %s: want one local address and a port", a)
	}
	if err := put(t.listeners, endpointKey(a), ingressListener{}, ebpf.UpdateAny); err != nil {
		return fmt.Errorf("set listener %s: %w", a, full(err, t.listeners, "listeners"))
	}
	return nil
}

func (t *tables) delListener(a netip.AddrPort) error {
	if err := t.listeners.Delete(endpointKey(a)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("delete listener %s: %w", a, err)
	}
	return nil
}

func (t *tables) setPeer(p Peer) error {
	if p.ID >= peerIDUndef {
		return fmt.Errorf("set peer %d: %w", p.ID, errPeerID)
	}
	value := ingressPeer{KeyIds: p.KeyIDs, State: ingressPeerStatePEER_PASS}
	if p.Remote.IsValid() {
		value.Remote = endpointKey(p.Remote)
		value.State = ingressPeerStatePEER_STEER
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var old ingressPeer
	known := t.peers.Lookup(p.ID, &old) == nil
	// Counters first: the programs count only what has an entry.
	if !known {
		if err := put(t.stats, p.ID, t.zeros, ebpf.UpdateNoExist); err != nil && !errors.Is(err, ebpf.ErrKeyExist) {
			return fmt.Errorf("set peer %d: %w", p.ID, full(err, t.stats, "peers"))
		}
	}
	if err := put(t.peers, p.ID, value, ebpf.UpdateAny); err != nil {
		return errors.Join(fmt.Errorf("set peer %d: %w", p.ID, full(err, t.peers, "peers")), t.forget(p.ID, known))
	}
	if known && old.State == ingressPeerStatePEER_STEER && old.Remote != value.Remote {
		if err := t.leaveEndpoint(old.Remote, p.ID); err != nil {
			return fmt.Errorf("set peer %d: %w", p.ID, err)
		}
	}
	if value.State == ingressPeerStatePEER_STEER {
		if err := put(t.endpoints, value.Remote, p.ID, ebpf.UpdateAny); err != nil {
			return fmt.Errorf("set peer %d: %w", p.ID, full(err, t.endpoints, "peers"))
		}
	}
	return nil
}

// forget takes back the counters of a peer that could not be added.
func (t *tables) forget(id uint32, known bool) error {
	if known {
		return nil
	}
	return t.stats.Delete(id)
}

// leaveEndpoint frees an endpoint unless another peer has it by now.
func (t *tables) leaveEndpoint(e ingressEndpoint, id uint32) error {
	var holder uint32
	err := t.endpoints.Lookup(e, &holder)
	if err == nil && holder == id {
		err = t.endpoints.Delete(e)
	}
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("free endpoint: %w", err)
	}
	return nil
}

func (t *tables) delPeer(id uint32) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var old ingressPeer
	if err := t.peers.Lookup(id, &old); err != nil {
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return nil
		}
		return fmt.Errorf("delete peer %d: %w", id, err)
	}
	if err := t.peers.Delete(id); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("delete peer %d: %w", id, err)
	}
	if old.State == ingressPeerStatePEER_STEER {
		if err := t.leaveEndpoint(old.Remote, id); err != nil {
			return fmt.Errorf("delete peer %d: %w", id, err)
		}
	}
	if err := t.stats.Delete(id); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("delete peer %d: %w", id, err)
	}
	return nil
}

// put updates an entry. A map that is not preallocated takes entries from a small
// reserve that the kernel refills behind the caller's back; thousands of updates
// in a row outrun it and meet ENOMEM, which is over within milliseconds.
func put(m *ebpf.Map, key, value any, flags ebpf.MapUpdateFlags) error {
	err := m.Update(key, value, flags)
	for wait := time.Millisecond; errors.Is(err, unix.ENOMEM) && wait <= 64*time.Millisecond; wait *= 2 {
		time.Sleep(wait)
		err = m.Update(key, value, flags)
	}
	return err
}

// noRoom says whether a map did not take an entry because it is full or the
// kernel has no memory for it.
func noRoom(err error) bool {
	return errors.Is(err, unix.E2BIG) || errors.Is(err, unix.ENOMEM)
}

// full says in words that a map has no room, which is E2BIG of a hash and ENOSPC
// of a trie.
func full(err error, m *ebpf.Map, what string) error {
	if errors.Is(err, unix.E2BIG) || errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("no room for more than %d %s: %w", m.MaxEntries(), what, err)
	}
	return err
}
